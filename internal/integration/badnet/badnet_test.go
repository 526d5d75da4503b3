package badnet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// echo is a server that answers each line with itself, and remembers what it was told.
type echo struct {
	addr string
	mu   sync.Mutex
	told []string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: l.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					e.mu.Lock()
					e.told = append(e.told, lines.Text())
					e.mu.Unlock()
					if _, err := fmt.Fprintln(c, lines.Text()); err != nil {
						return
					}
				}
			})
		}
	})
	return e
}

func (e *echo) heard(text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Contains(strings.Join(e.told, "\n"), text)
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask says a line and returns the answer that comes within d.
func ask(t *testing.T, c net.Conn, text string, d time.Duration) (string, error) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(d)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text+"\n"); err != nil {
		return "", err
	}
	got := make([]byte, len(text)+1)
	_, err := io.ReadFull(c, got)
	return strings.TrimSuffix(string(got), "\n"), err
}

func want(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if got, err := ask(t, c, text, 10*time.Second); err != nil || got != text {
		t.Fatalf("%.20q was answered with %.20q, %v", text, got, err)
	}
}

func fails(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if got, err := ask(t, c, text, 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%q was answered with %q, %v: the connection should be gone", text, got, err)
	}
}

// refused makes a new connection, which fails: while it is made, or after.
func refused(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	fails(t, c, "anybody?")
}

func TestPassesOn(t *testing.T) {
	p := New(t, newEcho(t).addr)
	c, d := dial(t, p), dial(t, p)
	want(t, c, "one")
	want(t, d, strings.Repeat("long ", 12_000))
	want(t, c, "two")
}

func TestCutAndRefuse(t *testing.T) {
	p := New(t, newEcho(t).addr)
	c := dial(t, p)
	want(t, c, "before")
	p.Refuse(true)
	want(t, c, "it is open") // only new ones are refused
	refused(t, p)
	p.Cut()
	fails(t, c, "cut")
	p.Refuse(false)
	want(t, dial(t, p), "again")
}

func TestServerIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	refused(t, New(t, addr))
}

func TestDelay(t *testing.T) {
	p := New(t, newEcho(t).addr)
	c := dial(t, p)
	want(t, c, "at once")
	const d = 50 * time.Millisecond
	p.Delay(d)
	start := time.Now()
	want(t, c, "later")
	if took := time.Since(start); took < d {
		t.Errorf("it took %v, want %v at least", took, d)
	}
	p.Delay(time.Hour)
	if _, err := ask(t, c, "for ever", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an answer that takes an hour: %v", err)
	}
} // and the proxy's end does not wait for the hour

func TestDeafen(t *testing.T) {
	e := newEcho(t)
	p := New(t, e.addr)
	c := dial(t, p)
	want(t, c, "hello")
	p.Deafen(true)
	if _, err := ask(t, c, "silence", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deaf proxy: %v", err)
	}
	if e.heard("silence") {
		t.Error("the server heard it")
	}
	p.Deafen(false)
	got := make([]byte, len("silence\n"))
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "silence\n" {
		t.Errorf("what it had held came as %q, %v", got, err)
	}
}

func TestLoseAnswer(t *testing.T) {
	for _, pieces := range [][]string{{"the chosen one\n"}, {"the cho", "sen", " one\n"}} {
		t.Run(fmt.Sprint(len(pieces), " pieces"), func(t *testing.T) {
			e := newEcho(t)
			p := New(t, e.addr)
			other, c := dial(t, p), dial(t, p)
			lost := p.LoseAnswer("chosen")
			want(t, c, "harmless")
			want(t, other, "harmless")
			for _, text := range pieces {
				if _, err := io.WriteString(c, text); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Read(make([]byte, 100)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%d bytes came, %v: the connection should be gone", n, err)
			}
			select {
			case <-lost:
			case <-time.After(10 * time.Second):
				t.Fatal("nobody says that it was lost")
			}
			if !e.heard("the chosen one") {
				t.Error("the server did not hear it")
			}
			want(t, other, "chosen") // once only
		})
	}
}

package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet/examples/payments/provider"
)

const role = "PAYMENTS_TEST_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(role); args != "" { // this is a process of the example's own
		os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
		main()
		return
	}
	os.Exit(m.Run())
}

// start starts a process of the program, and returns it with the URL it listens on.
func start(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+strings.Join(args, "\n"), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		t.Fatalf("%v said %q, %v", args, line, err)
	}
	return cmd, addr
}

// The API dies while the provider keeps it waiting, having charged the card. Its successor finds
// out, whether the provider heeds keys or has to be asked, and the client's retry is told of the
// one charge (I1, W7).
func TestKilledWhileTheProviderHangs(t *testing.T) {
	for _, honours := range []bool{true, false} {
		t.Run(fmt.Sprintf("honours=%v", honours), func(t *testing.T) {
			dir := t.TempDir()
			_, far := start(t, "provider", "-listen", "127.0.0.1:0", "-ledger", filepath.Join(dir, "ledger"), fmt.Sprintf("-ignore-keys=%v", !honours))
			serve := []string{"serve", "-listen", "127.0.0.1:0", "-db", filepath.Join(dir, "db"), "-provider", far, "-lease", "1s", fmt.Sprintf("-honours-keys=%v", honours)}
			client := provider.Client{URL: far, HTTP: http.DefaultClient}
			charges := func() int {
				all, err := client.Effects(t.Context(), url.Values{"reference": {"order-7"}})
				if err != nil {
					t.Fatal(err)
				}
				return len(all)
			}
			first, api := start(t, serve...)
			answered := make(chan int, 1)
			go func() { answered <- pay(api) }()
			until(t, func() bool { return charges() == 1 })
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if status := <-answered; status != 0 {
				t.Fatalf("a killed API answered %d", status)
			}
			_, api = start(t, serve...)
			until(t, func() bool { return pay(api) == http.StatusCreated })
			if n := charges(); n != 1 {
				t.Errorf("%d charges", n)
			}
		})
	}
}

// Processes that are asked to end do so by themselves.
func TestEndsOnSignal(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"provider", "-listen", "127.0.0.1:0", "-ledger", filepath.Join(dir, "ledger")},
		{"serve", "-listen", "127.0.0.1:0", "-db", filepath.Join(dir, "db")}} {
		cmd, _ := start(t, args...)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", args[0], err)
		}
	}
}

// pay asks for a payment once; 0 is no answer.
func pay(api string) int {
	r, err := http.NewRequest(http.MethodPost, api+"/v1/payments", strings.NewReader(`{"reference":"order-7","amount":1999,"card":"hang"}`))
	if err != nil {
		return 0
	}
	r.Header.Set("Idempotency-Key", "order-7-a1b2c3d4")
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_ = w.Body.Close()
	return w.StatusCode
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); ; {
		select {
		case <-tick.C:
			if ok() {
				return
			}
		case <-deadline:
			t.Fatal("it never came to that")
		}
	}
}

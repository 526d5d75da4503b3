package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"
)

const kib = 1 << 10

// Whatever others hold, an owner has its share, large bodies leave the reserve, and what is left
// last is for those who hold little.
func TestWhoGetsWhat(t *testing.T) { // C11
	type bid struct {
		owner string
		bytes int64
		small bool
		want  bool
	}
	for name, bids := range map[string][]bid{
		"one owner, large":                 {{"a", 448 * kib, false, true}, {"a", 1, false, false}, {"a", 64 * kib, true, true}, {"a", 1, true, false}},
		"one owner, small":                 {{"a", 512 * kib, true, true}, {"a", 1, true, false}, {"b", 448 * kib, false, false}, {"b", 384 * kib, false, true}},
		"two owners":                       {{"a", 448 * kib, false, true}, {"b", 448 * kib, false, true}, {"c", 1, false, false}, {"c", 64 * kib, true, true}},
		"the reserve, for who has nothing": {{"a", 448 * kib, false, true}, {"b", 448 * kib, false, true}, {"a", 1, true, false}, {"b", 1, true, false}, {"c", 64 * kib, true, true}, {"c", 1, true, false}, {"d", 33 * kib, true, false}, {"d", 32 * kib, true, true}, {"e", 16 * kib, true, true}, {"f", 8 * kib, true, true}},
		"more than there is":               {{"a", 1 << 62, false, false}, {"a", 1 << 62, true, false}, {"a", 1, true, true}},
		"two owners, unequal":              {{"a", 448 * kib, false, true}, {"b", 400 * kib, false, true}, {"a", 64 * kib, true, false}, {"b", 48 * kib, true, true}, {"b", 1, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(1024*kib, 128*kib, 0.5)
			var holds []*Hold
			var sum int64
			for i, b := range bids {
				h := l.Hold(l.Owner(b.owner))
				if got := h.Raise(b.bytes, b.small); got != b.want {
					t.Fatalf("bid %d, %+v: %v, with %d held", i, b, got, l.Held())
				}
				if b.want {
					sum += b.bytes
				}
				if holds = append(holds, &h); l.Held() != sum {
					t.Fatalf("bid %d: %d are held, want %d", i, l.Held(), sum)
				}
			}
			for _, h := range holds {
				h.Free()
				h.Free()
			}
			empty(t, l)
		})
	}
}

// Where there is one owner, it may have a share of all, and stalls itself no more than others.
func TestOneOwnerMayHaveAll(t *testing.T) { // C11
	l := New(1024*kib, 128*kib, 1)
	large, small := l.Hold(l.Owner("a")), l.Hold(l.Owner("a"))
	if !large.Raise(896*kib, false) || !small.Raise(128*kib, true) || small.Raise(128*kib+1, true) {
		t.Errorf("%d bytes are held", l.Held())
	}
}

// empty: everything came back, to where it was taken from.
func empty(t *testing.T, l *Ledger) {
	t.Helper()
	if l.Held() != 0 {
		t.Errorf("%d bytes are held in the end", l.Held())
	}
	for i := range l.accounts {
		for j := range l.accounts[i] {
			if n := l.accounts[i][j].Load(); n != 0 {
				t.Fatalf("place %d of row %d holds %d", j, i, n)
			}
		}
	}
}

// An owner that shares one of its places with others who hold much is not taken for them.
func TestOwnersAreToldApart(t *testing.T) {
	l := New(1<<40, 0, 0.5)
	mine := Owner{7, 9}
	for _, other := range []Owner{{7, 10}, {8, 9}} {
		h := l.Hold(other)
		if !h.Raise(1<<38, false) {
			t.Fatal("no room")
		}
	}
	if h := l.Hold(mine); !h.Raise(1<<38, false) {
		t.Error("another's bytes were taken for this owner's")
	}
	seen := map[Owner]bool{}
	for i := range 20_000 {
		seen[l.Owner(fmt.Sprint("scope", i))] = true
	}
	if len(seen) < 19_800 {
		t.Errorf("20000 names have %d owners", len(seen))
	}
}

// The bound holds at every moment, and what is held comes back, whichever owner holds it.
func TestNeverMoreThanTheWhole(t *testing.T) { // C11
	l := New(1000*kib, 100*kib, 0.5)
	var all sync.WaitGroup
	stop := make(chan struct{})
	watched := make(chan int64)
	go func() {
		most := int64(0)
		for {
			select {
			case <-stop:
				watched <- most
				return
			default:
				most = max(most, l.Held())
			}
		}
	}()
	held := int64(0)
	for range 500 {
		holds := make([]Hold, 8)
		for i := range holds {
			all.Go(func() {
				holds[i] = l.Hold(l.Owner(fmt.Sprint(i)))
				for n := int64(kib); holds[i].Raise(n, n <= Small); n *= 2 {
				}
			})
		}
		all.Wait() // they all hold what they could get
		held = max(held, l.Held())
		for i := range holds {
			all.Go(holds[i].Free)
		}
		all.Wait()
	}
	close(stop)
	if most := max(<-watched, held); most > 1000*kib || held == 0 {
		t.Errorf("up to %d bytes were held", most)
	}
	empty(t, l)
}

// A buffer is what it read, whatever was announced and however it arrives.
func TestFill(t *testing.T) {
	for i := range 300 {
		l := New(1<<30, 1<<20, 1)
		body := make([]byte, []int{0, 1, first - 1, first, first + 1, Small - 1, Small, Small + 1, 3*Small + 1, rand.IntN(1 << 18)}[i%10])
		for j := range body {
			body[j] = byte(rand.Int())
		}
		n := int64(len(body))
		for _, length := range []int64{-1, 0, n, n / 2} {
			for _, most := range []int64{n, n + 1, 1 << 20} {
				var r io.Reader = bytes.NewReader(body)
				switch i / 10 % 3 {
				case 1:
					r = iotest.DataErrReader(r)
				case 2:
					r = iotest.HalfReader(r)
				}
				b := l.Buffer(l.Owner("a"))
				if err := b.Fill(r, length, most); err != nil || !bytes.Equal(b.Bytes(), body) {
					t.Fatalf("%d bytes, announced as %d, of at most %d: %v, %d", n, length, most, err, len(b.Bytes()))
				}
				if l.Held() < n {
					t.Fatalf("%d bytes are in the buffer, and %d are held", n, l.Held())
				}
				if length == n && n > 0 && l.Held() > n+1 {
					t.Fatalf("%d bytes were announced, and %d are held", n, l.Held())
				}
				b.Drop()
				b.Drop()
			}
			b := l.Buffer(l.Owner("a"))
			if err := b.Fill(bytes.NewReader(body), length, n-1); n > 0 && !errors.Is(err, ErrTooLong) {
				t.Fatalf("%d bytes of at most %d: %v", n, n-1, err)
			}
			b.Leave()
		}
		empty(t, l)
	}
}

// What is announced is not there yet.
func TestFillTakesMemoryAsBytesArrive(t *testing.T) { // W26
	l := New(1<<20, 1<<17, 0.5)
	for _, length := range []int64{-1, 1 << 18} {
		b := l.Buffer(l.Owner("a"))
		if err := b.Fill(iotest.ErrReader(io.ErrClosedPipe), length, 1<<18); !errors.Is(err, io.ErrClosedPipe) || l.Held() > Small {
			t.Errorf("%v, %d bytes are held", err, l.Held())
		}
		b.Drop()
	}
	b := l.Buffer(l.Owner("a"))
	if err := b.Fill(bytes.NewReader(make([]byte, 1<<19)), 1<<19, 1<<20); !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
	b.Drop()
	empty(t, l)
}

func TestAppend(t *testing.T) {
	for _, piece := range []int{1, 100, 4095, 4097, 40_000} {
		l := New(1<<20, 1<<17, 1)
		b, want := l.Buffer(l.Owner("a")), []byte(nil)
		for i := 0; len(want)+piece <= 100_000; i++ {
			p := bytes.Repeat([]byte{byte(i)}, piece)
			if want = append(want, p...); !b.Append(p, 100_000) {
				t.Fatal("no room")
			}
			if n := int64(len(want)); l.Held() < n || l.Held() > 100_000 {
				t.Fatalf("%d bytes are in the buffer, and %d are held", n, l.Held())
			}
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("pieces of %d were put together wrongly", piece)
		}
		b.Leave()
		empty(t, l)
	}
	l := New(1000, 0, 1) // less than a buffer begins with
	b := l.Buffer(l.Owner("a"))
	if !b.Append(make([]byte, 1000), 5000) || b.Append([]byte{1}, 5000) || len(b.Bytes()) != 1000 {
		t.Error("what fits was refused, or what does not was taken")
	}
	b.Drop()
	empty(t, l)
}

// A small request pays no allocation and no lock.
func TestHoldsAllocateNothing(t *testing.T) {
	l := New(1<<20, 1<<17, 0.5)
	if n := testing.AllocsPerRun(1000, func() {
		h := l.Hold(l.Owner("tenant/subject"))
		h.Raise(1024, true)
		h.Free()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHold(b *testing.B) {
	l := New(1<<30, 1<<27, 0.5)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h := l.Hold(l.Owner("tenant/subject"))
			h.Raise(1024, true)
			h.Free()
		}
	})
}

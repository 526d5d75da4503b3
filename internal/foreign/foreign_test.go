package foreign

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What came before its time and Grace were over counts, whatever its context says.
func TestDo(t *testing.T) { // K07
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		for name, slow := range map[string]time.Duration{"at once": 0, "late": time.Minute + Grace/2} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			got, err := Do(ctx, &c, About{"a", name}, func(context.Context) (int, error) {
				time.Sleep(slow)
				return 7, errors.ErrUnsupported
			})
			cancel()
			if got != 7 || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %d, %v", name, got, err)
			}
		}
		if err := c.Hanging(); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatHangsIsLeftAndCounted(t *testing.T) { // K07
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []Event
		c := Calls{Tell: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		}}
		release := make(chan struct{})
		hang := func(of any) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := Do(ctx, &c, About{"resolver", of}, func(context.Context) (int, error) { <-release; return 1, nil })
			return err
		}
		began := time.Now()
		if err := hang(1); !errors.Is(err, ErrHangs) || time.Since(began) != time.Minute+Grace {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		began = time.Now()
		if err := hang(1); !errors.Is(err, ErrHangs) || time.Since(began) != 0 {
			t.Errorf("the same again: %v after %s", err, time.Since(began))
		}
		if !c.Hangs(About{"resolver", 1}) || c.Hangs(About{"flow", 1}) || c.Hangs(About{"resolver", 2}) {
			t.Error("Hangs is wrong")
		}
		for c.Room("resolver") > 0 {
			go hang(nil)
			time.Sleep(2 * time.Minute)
		}
		began = time.Now()
		if err := hang(2); !errors.Is(err, ErrHangs) || time.Since(began) != 0 {
			t.Errorf("beyond the bound: %v after %s", err, time.Since(began))
		}
		if _, err := Do(t.Context(), &c, About{"flow", 1}, func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Errorf("another kind: %v", err)
		}
		if err := c.Hanging(); !errors.Is(err, ErrHangs) || !strings.Contains(err.Error(), "100 resolvers, the oldest for 3h") {
			t.Error(err)
		}
		close(release)
		synctest.Wait()
		if err := c.Hanging(); err != nil || c.Room("resolver") != MaxHanging {
			t.Errorf("%v, room for %d", err, c.Room("resolver"))
		}
		if n := len(told); n != 2*MaxHanging || told[0].Returned || told[0].Of != 1 || !told[n-1].Returned {
			t.Errorf("%d events", n)
		}
	})
}

// A panic and the end of a goroutine are errors, which say nothing that the code said.
func TestCodeThatDoesNotReturn(t *testing.T) {
	var c Calls
	for want, do := range map[string]func(){
		"panicked with a string":  func() { panic("key-123") },
		"nil pointer dereference": func() { var p *int; *p = 1 },
		"ended its goroutine":     runtime.Goexit,
	} {
		_, err := Do(t.Context(), &c, About{}, func(context.Context) (int, error) { do(); return 1, nil })
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "key-123") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

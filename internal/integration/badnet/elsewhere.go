package badnet

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Elsewhere has the proxy lead to another server for a while, and back again. That one refuses each
// try, in words that hold refusal; and once the proxy leads back, nothing that was opened meanwhile
// goes on refusing (Q04).
func (p *Proxy) Elsewhere(t *testing.T, there, refusal string, try func(key string) error) {
	t.Helper()
	until := func(what string, is func(error) bool) {
		t.Helper()
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		err := try(what)
		for end := time.Now().Add(time.Minute); !is(err); err = try(what) {
			if <-tick.C; time.Now().After(end) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	atOnce := func(want bool) {
		var running sync.WaitGroup
		for i := range 40 { // on each connection that there is
			running.Go(func() {
				if err := try(fmt.Sprint("key ", i)); (err == nil) != want {
					t.Errorf("one of many: %v", err)
				}
			})
		}
		running.Wait()
	}
	p.mu.Lock()
	here := p.server
	p.mu.Unlock()
	p.Move(there)
	p.Cut()
	until("refused", func(err error) bool { return err != nil && strings.Contains(err.Error(), refusal) })
	atOnce(false)
	p.Move(here)
	until("taken", func(err error) bool { return err == nil })
	atOnce(true)
}

package storetest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is a test that may fail without the one it is part of.
type recorder struct {
	testing.TB
	mu              sync.Mutex
	failed, skipped bool
	said            []string
	cleanups        []func()
}

// try holds a store against a law, and tells what came of it.
func try(t *testing.T, l law, b Backend) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // of its own, because FailNow ends it
		defer close(done)
		defer r.end()
		x := newBench(r, b)
		x.patience = 200 * time.Millisecond
		l.check(r, x)
	}()
	<-done
	return r
}

// end runs the cleanups. A law may assume what a broken store does not keep, and panic.
func (r *recorder) end() {
	if p := recover(); p != nil {
		r.Error("panic:", p)
	}
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("failed %v, skipped %v: %s", r.failed, r.skipped, strings.Join(r.said, "; "))
}

func (r *recorder) say(failed, skipped bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed, r.skipped = r.failed || failed, r.skipped || skipped
	r.said = append(r.said, text)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any)         { r.say(true, false, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.say(true, false, fmt.Sprintf(f, a...)) }
func (r *recorder) Logf(f string, a ...any)   { r.say(false, false, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatal(args ...any)         { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) FailNow()                  { r.say(true, false, "FailNow"); runtime.Goexit() }
func (r *recorder) Skip(args ...any)          { r.say(false, true, fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Skipf(f string, a ...any) {
	r.say(false, true, fmt.Sprintf(f, a...))
	runtime.Goexit()
}

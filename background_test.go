package stet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDetachedContext(t *testing.T) { // W12: values, but neither the client's end nor its deadline
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		client, hangUp := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Millisecond)
		defer hangUp()
		d := detach(client, 2*time.Second)
		defer d.release()
		hangUp()
		if d.Err() != nil || d.Value(key{}) != "v" || context.Cause(d) != nil {
			t.Errorf("after the client hung up: %v, value %v, cause %v", d.Err(), d.Value(key{}), context.Cause(d))
		}
		if at, ok := d.Deadline(); !ok || time.Until(at) != 2*time.Second {
			t.Errorf("deadline %v, %v", at, ok)
		}
		child, cancel := context.WithTimeout(d, time.Hour)
		defer cancel()
		grandchild, stop := context.WithCancel(context.WithValue(child, key{}, "w"))
		defer stop()
		<-grandchild.Done()
		if time.Since(d.began) != 2*time.Second || !errors.Is(grandchild.Err(), context.DeadlineExceeded) || !errors.Is(d.Err(), context.DeadlineExceeded) {
			t.Errorf("after %v: %v, %v", time.Since(d.began), grandchild.Err(), d.Err())
		}
	})
}

func TestDetachedContextCostsNoTimerUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := detach(t.Context(), time.Second)
		if d.Err() != nil || d.done != nil {
			t.Error("a timer was made for nobody")
		}
		time.Sleep(time.Second) // the bubble's clock
		if !errors.Is(d.Err(), context.DeadlineExceeded) || d.done != nil {
			t.Errorf("past the deadline: %v", d.Err())
		}
		select {
		case <-d.Done():
		default:
			t.Error("Done is open past the deadline")
		}
		if d.done.timer != nil {
			t.Error("a timer was made for what has ended")
		}
	})
}

func TestDetachedContextEndsWithItsCall(t *testing.T) { // what a store started with it ends, and no timer stays
	synctest.Test(t, func(t *testing.T) {
		d := detach(t.Context(), time.Hour)
		child, cancel := context.WithCancel(d)
		defer cancel()
		began := time.Now()
		go func() { time.Sleep(time.Second); d.release() }()
		<-child.Done()
		if !errors.Is(child.Err(), context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", child.Err(), time.Since(began))
		}
		d.end(late)
		if !errors.Is(d.Err(), context.Canceled) {
			t.Errorf("the first end does not stand: %v", d.Err())
		}
		if d.done.timer.Stop() {
			t.Error("the timer runs on")
		}
	})
}

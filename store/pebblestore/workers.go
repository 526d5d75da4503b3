package pebblestore

import "sync/atomic"

// workers run what may wait for the disk. A goroutine that has run a call waits for the next one:
// the tree's calls go deep, and growing the stack of a new goroutine took an eighth of their time.
type workers struct {
	jobs chan func()
	idle atomic.Int64
}

// maxIdle bounds the goroutines that wait for a call.
const maxIdle = 256

// run runs a job in a goroutine of its own, which ends with it or, at the latest, with end.
func (w *workers) run(job func(), end <-chan struct{}) {
	select {
	case w.jobs <- job:
	default:
		go w.work(job, end)
	}
}

func (w *workers) work(job func(), end <-chan struct{}) {
	for {
		job()
		if w.idle.Add(1) > maxIdle {
			w.idle.Add(-1)
			return
		}
		select {
		case job = <-w.jobs:
			w.idle.Add(-1)
		case <-end:
			return
		}
	}
}

package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxWaiting is the number of writes that may wait in a [Queue].
const maxWaiting = 8192

var (
	// ErrNothing means that nothing was written, and that nothing will be.
	ErrNothing = errors.New("nothing was written")
	// errNoAnswer means that the caller's context ended while the write was on its way.
	errNoAnswer = errors.New("no answer in time, it may have happened")
	// ErrUnknown means that the driver never answered the write, because of a panic.
	ErrUnknown = errors.New("the write was begun and never answered, it may have happened")
	// errQueueFull means that maxWaiting writes are waiting already.
	errQueueFull = fmt.Errorf("%w: too many writes are waiting", ErrNothing)

	// ErrSeparate is for Many: the write, of which nothing happened, is to be carried out by
	// Patient.
	ErrSeparate = errors.New("to be carried out separately")
)

// Nothing returns err as an error that also wraps [ErrNothing].
func Nothing(err error) error { return fmt.Errorf("%w: %w", ErrNothing, err) }

// Call is what a [Queue] needs to know about a write. A driver embeds it in its own type of write.
type Call struct {
	Ctx  context.Context // of the caller
	Size int             // in bytes; counts towards MaxBytes
	Err  error           // the answer, which the driver's Many sets

	done     chan struct{} // closed when there is an answer; nil if the write never waited
	panicked any           // a panic of the driver, for the caller
}

func (c *Call) call() *Call { return c }

// item is a pointer to a type that embeds [Call].
type item interface {
	comparable
	call() *Call
}

// Outcome is what an error of a driver means for a write that has no answer yet.
type Outcome uint8

const (
	// Final means that the error is the answer, also where the write may have happened.
	Final Outcome = iota
	// Refused means that nothing of a group happened: each of its writes is carried out by Patient.
	// To a lone write the error is the answer.
	Refused
	// Contended means that another transaction was in the way, and that nothing happened: also a
	// lone write is carried out by Patient.
	Contended
)

// Config describes a driver. Many, Groups, MaxGroup, MaxBytes and Closed are required.
type Config[W item] struct {
	// Many carries out a group and sets Err of its writes. Patient carries out those that it leaves
	// without an answer, unless Many returns an error for which Settles says otherwise.
	Many func(ctx context.Context, group []W) error
	// Alone carries out one write of a lone caller. Nil: it is a group of one.
	Alone func(w W) error
	// Begin waits until the database lets the first write of a group, w, begin. What waits by then
	// joins the group. An error is the answer to w alone. It requires Groups to be 1. Nil: a group
	// begins at once.
	Begin func(w W) error
	// Patient carries out a write on its caller's goroutine, and waits while another transaction is
	// in the way. Nil: a write that has no answer fails.
	Patient func(w W) error
	// Settles interprets an error of Alone or Many. Nil: every error is Final.
	Settles func(err error) Outcome
	// Fits reports whether a write may be in a group. Patient carries out the others. Nil: every
	// write does.
	Fits func(w W) bool
	// Look is called, on its caller's goroutine, when a write for which Looks is true has waited
	// for LookAfter. The write keeps its place meanwhile: Begin or Many may be at work for it at
	// the same time. An error is the answer, unless the write is on its way by then. It may be nil.
	Look      func(w W) error
	Looks     func(w W) bool // nil: always
	LookAfter time.Duration
	// Compare orders the writes of a group, so that two groups lock rows in the same order. Nil:
	// they stay in the order of arrival.
	Compare func(a, b W) int

	// Lone is the number of writes on their way below which a caller goes alone, beside the groups.
	// 0: a lone caller takes the place of a group.
	Lone     int
	Groups   int // that are on their way at a time
	MaxGroup int // writes of a group
	MaxBytes int // sum of Size in a group, unless a single write is larger
	// Timeout bounds a group that has a write without a deadline. 0: groups have no deadline at
	// all.
	Timeout time.Duration
	Closed  error // the answer after Close
}

package tablestore

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-dev/stet"
)

type writing struct{ Write }

func (w *writing) write() *Write { return &w.Write }

// A rollback undoes a transaction that is there, and one of which the database itself says that it
// has undone it.
func TestUndoable(t *testing.T) { // Q01
	gone, undone, lost := errors.New("no such savepoint"), errors.New("deadlock"), errors.New("reset")
	for _, c := range []struct {
		name        string
		exec, cause error
		want        error
	}{
		{"it is there", nil, nil, nil},
		{"it is gone", gone, nil, stet.ErrTxEnded},
		{"it is gone, and the handler returned an error of its own", gone, lost, stet.ErrTxEnded},
		{"the database has undone it", gone, undone, nil},
		{"the connection is lost", lost, nil, lost},
		{"the connection is lost after that", lost, undone, lost},
	} {
		var answer error
		b, err := Within(t.Context(), Tx{
			Exec:     func(context.Context, string) error { return answer },
			Unmarked: func(err error) bool { return err == gone },
			Undone:   func(err error) bool { return err == undone },
		}, Reading{}, Driver[*writing]{})
		if err != nil {
			t.Fatal(err)
		}
		answer = c.exec
		if err := b.Undoable(t.Context(), c.cause); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// A result is the last thing in its transaction: where it cannot be written, nothing came after it.
func TestAResultThatIsRefusedIsUndone(t *testing.T) {
	var sent []string
	refused := errors.New("deadlock")
	b, err := Within(t.Context(), Tx{
		Exec:     func(_ context.Context, statement string) error { sent = append(sent, statement); return nil },
		Unmarked: func(error) bool { return false },
		Undone:   func(error) bool { return false },
	}, Reading{}, Driver[*writing]{New: func() *writing { return new(writing) }, Pack: func(*writing) error { return nil },
		Do: func(*writing) error { return refused }, Wrap: func(_ string, err error) error { return err }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Replace(t.Context(), 1, stet.Head{State: stet.Completed}, nil); err != refused {
		t.Error(err)
	}
	if err := b.Undoable(t.Context(), refused); err != nil || len(sent) != 2 {
		t.Errorf("%v, after %q", err, sent)
	}
}

// An error of another kind says nothing about the mark: a transaction that refuses everything may be
// another one than that of Bind.
func TestAMarkThatCannotBeAskedForIsAskedForAgain(t *testing.T) { // Q01
	gone, aborted := errors.New("no such savepoint"), errors.New("the transaction is aborted")
	answers := []error{nil, aborted, gone}
	b, err := Within(t.Context(), Tx{
		Exec:     func(context.Context, string) error { answer := answers[0]; answers = answers[1:]; return answer },
		Unmarked: func(err error) bool { return err == gone },
		Undone:   func(error) bool { return false },
	}, Reading{}, Driver[*writing]{New: func() *writing { return new(writing) }, Pack: func(*writing) error { return nil },
		Wrap: func(_ string, err error) error { return err }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Replace(t.Context(), 1, stet.Head{State: stet.Completed}, nil); err != aborted {
		t.Error(err)
	}
	if err := b.Undoable(t.Context(), aborted); !errors.Is(err, stet.ErrTxEnded) {
		t.Error(err)
	}
}

package pgstore

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// server answers statements in the order they come: what a race would show once in a million times.
type server struct {
	t       *testing.T
	mu      sync.Mutex
	answers []answer
	asked   []string

	store stet.Identity // looked at besides
	looks int
}

type answer func(args []any) [][]any

func (s *server) Query(_ context.Context, sql string, args ...any) (Rows, error) {
	s.mu.Lock()
	if sql == sqltext.PostgresLook {
		defer s.mu.Unlock()
		s.looks++
		return &rows{all: [][]any{sqltext.PostgresStoreArgs(&s.store)}}, nil
	}
	s.asked = append(s.asked, sql)
	if len(s.answers) == 0 {
		s.mu.Unlock()
		return nil, fmt.Errorf("statement %d has no answer", len(s.asked))
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	s.mu.Unlock()
	all := next(args)
	if len(all) == 1 {
		if err, ok := all[0][0].(error); ok {
			return nil, err
		}
	}
	return &rows{all: all}, nil
}

// fails is the answer to a statement that fails.
func fails(err error) answer { return func([]any) [][]any { return [][]any{{err}} } }

// code is an error of the server.
type code string

func (c code) Error() string    { return "error " + string(c) }
func (c code) SQLState() string { return string(c) }

type rows struct {
	all [][]any
	at  int
}

func (r *rows) Next() bool { r.at++; return r.at <= len(r.all) }
func (r *rows) Err() error { return nil }
func (r *rows) Close()     {}

func (r *rows) Scan(dest ...any) error {
	for i, v := range r.all[r.at-1] {
		if dest[i] == nil || v == nil {
			continue
		}
		if err, ok := v.(error); ok { // database/sql has closed the rows
			return err
		}
		to := reflect.ValueOf(dest[i]).Elem()
		if scanner, ok := dest[i].(interface{ Scan(any) error }); ok {
			if err := scanner.Scan(v); err != nil {
				return err
			}
			continue
		}
		to.Set(reflect.ValueOf(v).Convert(to.Type()))
	}
	return nil
}

func nothing([]any) [][]any { return nil }

func sampled(key string) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "tenant", Key: stet.Key(key)}, Version: 7, State: stet.Running, Attempt: 1,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto"}, Rules: stet.Rules{Retain: time.Hour}, DueIn: time.Minute}}
}

func creation(ctx context.Context, r *stet.Record) (*op, error) {
	o := newOp()
	o.Ctx, o.Verb, o.Head, o.Body = ctx, tablestore.Create, r.Head, r.Body
	return o, o.pack()
}

// shown is the row of a look at r's head.
func shown(t *testing.T, r stet.Record) answer {
	t.Helper()
	return func([]any) [][]any { row := looked(t, r)(nil)[0]; return [][]any{row[:len(row)-1]} }
}

// looked is the row of a look at r.
func looked(t *testing.T, r stet.Record) answer {
	t.Helper()
	args, err := sqltext.PostgresCreateArgs(&r.Head, &r.Body)
	if err != nil {
		t.Fatal(err)
	}
	const head = 12 // columns, with the name
	row := append([]any{int64(2000), int64(sqltext.Schema)}, args[:head]...)
	row = append(row, int64(3000), int64(1000), int64(1000), nil, args[head])
	return func([]any) [][]any { return [][]any{row} }
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/examples/payments/service"
	"github.com/stet-dev/stet/internal/crashpoint"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/store/sqlstore"
)

// scenario is a request, and who dies.
type scenario struct {
	title  string
	what   string // is asked for
	honour bool   // the provider heeds keys
	then   string // the role that dies, after the API has left it something to do; "": the API dies, while it serves the request
	absent bool   // the client does not ask again before that
}

var scenarios = []scenario{
	{title: "Refund, one call under the guard. The provider ignores keys", what: "refunds"},
	{title: "Payment, a flow of three phases. The provider honours keys", what: "payments", honour: true},
	{title: "Payment, a flow of three phases. The provider ignores keys, and can be asked", what: "payments"},
	{title: "Payment, and the client comes back when it is done without it. The provider ignores keys", what: "payments", absent: true},
	{title: "Payment that a crash has left when the charge was sent, and the completer that goes on. The provider ignores keys",
		what: "payments", then: roleCompleter},
	{title: "Payout, promised in one transaction", what: "payouts", honour: true},
	{title: "Payout, delivered by a worker. The provider honours keys", what: "payouts", honour: true, then: roleWorker},
	{title: "Payout, delivered by a worker. The provider ignores keys, and can be asked", what: "payouts", then: roleWorker},
}

// left is what a database says of a key.
type left struct {
	state, point    string
	attempt         int
	reconciled      bool   // a reconciler found the result
	verdict         string // of a reconciler
	message         string // state of the payout's message
	messageAttempts int
}

// opened reads a database that others use.
func opened(ctx context.Context, file string, read func(*sql.DB, *sqlstore.Store) error) (err error) {
	db, err := sql.Open("sqlite", service.DSN(file))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := sqlstore.Open(ctx, db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		return err
	}
	return errors.Join(read(db, store), store.Close())
}

// look reads what is left of a key.
func look(ctx context.Context, file, key string) (l left, err error) {
	err = opened(ctx, file, func(db *sql.DB, store *sqlstore.Store) error {
		heads, _, err := store.List(ctx, stet.Query{Key: stet.Key(key)})
		if err != nil {
			return err
		}
		for _, h := range heads {
			l.state, l.point, l.attempt = h.State.String(), h.Point, h.Attempt
			err = db.QueryRowContext(ctx, "SELECT became = 'completed', why FROM stet_history WHERE key = ? ORDER BY id DESC LIMIT 1", key).
				Scan(&l.reconciled, &l.verdict)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		err = db.QueryRowContext(ctx, "SELECT state, attempt FROM stet_outbox WHERE key = ?", key).Scan(&l.message, &l.messageAttempts)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return err
	})
	return l, err
}

// await looks until it is so.
func await(ctx context.Context, file, key string, so func(left) bool) (l left, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if l, err = look(ctx, file, key); err != nil || so(l) {
			return l, err
		}
		if !rest.For(ctx, every) {
			return l, context.Cause(ctx)
		}
	}
	return l, fmt.Errorf("the record of %s stays %s", key, l.state)
}

// behind is what the process that died has left, in a few words.
func (l left) behind(worker bool) string {
	switch {
	case worker && l.messageAttempts == 0:
		return "a message"
	case worker:
		return "a message, " + l.message
	case l.state == "":
		return "nothing"
	case l.point != "" && l.state == "running":
		return "running, at " + l.point
	}
	return l.state
}

// resolved says how what was left came to its end.
func (s scenario) resolved(before, after left, a crashpoint.Reply) string {
	worker := s.then == roleWorker
	switch {
	case worker && before.message == "done":
		return "it was delivered"
	case worker && after.messageAttempts == 1:
		return "delivered by the next worker"
	case worker && s.honour:
		return "sent again with the same key"
	case worker:
		return "the provider was asked, then delivered"
	case before.state == "":
		return "nothing was stored: the retry ran it"
	case before.state == "completed":
		return "the stored answer was replayed"
	case after.reconciled:
		return "found at the provider by the reconciler"
	case s.what == "payouts": // it is one transaction, and what is left of it is the proof that it was not committed
		return "rolled back, and run again"
	case after.verdict != "":
		return "not found at the provider, and run again"
	case before.point == "":
		return "run again, without asking"
	case a.Replayed:
		return "completed by the completer, from " + before.point
	}
	return "the retry went on, from " + before.point
}

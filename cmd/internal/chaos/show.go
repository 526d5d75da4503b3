package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// show copies a key's record, and what is new in its history, to where they are shown.
func (st *stage) show(ctx context.Context, file, key string) (h stet.Head, err error) {
	if st.shown == nil {
		return h, nil
	}
	err = opened(ctx, file, func(_ *sql.DB, store *sqlstore.Store) error {
		heads, _, err := store.List(ctx, stet.Query{Key: stet.Key(key)})
		if err != nil || len(heads) == 0 { // a crash before anything was stored
			return err
		}
		h = heads[0]
		return st.copy(ctx, store, h.ID)
	})
	return h, err
}

// tell adds a row of the table to the audit trail that is shown.
func (st *stage) tell(ctx context.Context, title string, number int, o outcome) error {
	if st.shown == nil {
		return nil
	}
	note := stet.Note{Who: teller, Action: "note",
		Why:      fmt.Sprintf("%s, %d: killed before %s; left behind: %s", title, number, o.died, o.behind),
		Evidence: fmt.Sprintf("the client saw %s; charged: %d; %s", strings.Join(o.saw, ", "), o.effects, o.ending())}
	return st.shown.Append(ctx, stet.Change{ID: o.record.ID, Tag: o.record.Tag, Attempt: o.record.Attempt, At: time.Now(), Note: note})
}

// teller is who says what became of each window.
const teller = "chaos"

func (st *stage) copy(ctx context.Context, from *sqlstore.Store, id stet.ID) error {
	is, err := from.Get(ctx, id)
	if err != nil {
		return err
	}
	was, err := st.shown.Get(ctx, id)
	switch {
	case errors.Is(err, stet.ErrNotFound):
		_, err = st.shown.Create(ctx, is)
	case err == nil:
		_, err = st.shown.Replace(ctx, was.Version, is.Head, &is.Body)
	}
	if err != nil {
		return err
	}
	told, _, err1 := st.shown.History(ctx, stet.HistoryQuery{ID: id})
	there, ok := stet.As[stet.Historian](from)
	if !ok {
		return errors.New("the service's store keeps no history")
	}
	all, _, err2 := there.History(ctx, stet.HistoryQuery{ID: id})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for i := len(all) - len(told) - 1; i >= 0; i-- { // both have the newest first
		if err := st.shown.Append(ctx, all[i]); err != nil {
			return err
		}
	}
	return nil
}

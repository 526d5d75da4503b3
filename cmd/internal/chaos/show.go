package chaos

import (
	"context"
	"database/sql"
	"errors"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// show copies a key's record, and what is new in its history, to where they are shown.
func (st *stage) show(ctx context.Context, file, key string) error {
	if st.shown == nil {
		return nil
	}
	return opened(ctx, file, func(_ *sql.DB, store *sqlstore.Store) error {
		heads, _, err := store.List(ctx, stet.Query{Key: stet.Key(key)})
		if err != nil || len(heads) == 0 { // a crash before anything was stored
			return err
		}
		return st.copy(ctx, store, heads[0].ID)
	})
}

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

package sqlstore

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Find returns the records that have a downstream name, the newest first. Records that cannot be read are left out.
func (s *sqlite) Find(ctx context.Context, name string) (heads []stet.Head, err error) {
	err = each(ctx, s.db, s.clock, sqltext.SQLiteFind, []any{text(name), text(name), stet.DefaultLimit}, func(_ spot, h *stet.Head) bool {
		if h != nil {
			heads = append(heads, *h)
		}
		return true
	})
	return heads, wrap("find", err)
}

package sqltext

import (
	"fmt"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/storeid"
)

// The statements of SQLite about its one row of stet_store.
const (
	SQLiteIdentity = "SELECT id, mark, trail, made_at, replaces, horizon FROM stet_store"
	// SQLiteWhose is read by each transaction that writes.
	SQLiteWhose = "SELECT id, mark, horizon FROM stet_store"
	// SQLiteMake changes nothing if there is a row.
	SQLiteMake = "INSERT INTO stet_store (one, id, mark, trail, made_at, replaces, horizon) VALUES (1, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
	// SQLiteRemake changes nothing if the store has another id than the last argument.
	SQLiteRemake = "UPDATE stet_store SET id = ?, mark = ?, trail = ?, made_at = ?, replaces = ?, horizon = ? WHERE id = ?"
	// SQLiteHorizon moves the horizon up to an instant, and never back.
	SQLiteHorizon = "UPDATE stet_store SET horizon = ? WHERE horizon < ?"
)

// SQLiteRaise adds one to the mark, and its first argument to the trail.
var SQLiteRaise = fmt.Sprintf("UPDATE stet_store SET mark = mark + 1, trail = substr(? || trail, 1, %d) WHERE id = ? AND mark >= ?", storeid.TrailSize)

// ReadIdentity reads the row that [SQLiteIdentity] selects.
func ReadIdentity(row Scanner) (now stet.Identity, horizon int64, err error) {
	var made int64
	var replaces string
	if err := row.Scan(&now.ID, &now.Mark, &now.Trail, &made, &replaces, &horizon); err != nil {
		return stet.Identity{}, 0, err
	}
	now.Made, now.Replaces = instant(made), strings.Fields(replaces)
	return now, horizon, nil
}

// IdentityArgs are the arguments of [SQLiteMake], and of [SQLiteRemake] but for the last one.
func IdentityArgs(next *stet.Identity, horizon int64) []any {
	return []any{next.ID, next.Mark, next.Trail, next.Made.UnixMicro(), strings.Join(next.Replaces, " "), horizon}
}

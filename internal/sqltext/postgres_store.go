package sqltext

import (
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// The statements about which store it is. Each but PostgresMake and PostgresRename answers with the
// row of stet_store, if there is one, which [PostgresStore] scans.
const (
	PostgresLook = "SELECT " + storeColumns + " FROM stet_store"
	// PostgresRaise takes a step of the trail, the most characters that are kept of one, and the ID
	// and mark that have to be there for anything to be changed.
	PostgresRaise = "WITH u AS (UPDATE stet_store SET mark = mark + 1, trail = left($1::text || trail, $2::integer) " +
		"WHERE id = $3::text AND mark >= $4::bigint RETURNING " + storeColumns + ") " +
		"SELECT * FROM u UNION ALL SELECT " + storeColumns + " FROM stet_store WHERE NOT EXISTS (SELECT FROM u)"
	// PostgresMake and PostgresRename take what [PostgresStoreArgs] returns, and PostgresRename
	// before it the ID that is replaced.
	PostgresMake = "INSERT INTO stet_store (" + storeColumns + ") VALUES ($1::text, $2::bigint, $3::text, $4::bigint, $5::text) " +
		"ON CONFLICT DO NOTHING"
	PostgresRename = "UPDATE stet_store SET (" + storeColumns + ") = ($2::text, $3::bigint, $4::text, $5::bigint, $6::text) WHERE id = $1::text"

	// PostgresTouch is a write that changes nothing. When its commit was confirmed, so is what was
	// committed before it.
	PostgresTouch = "SELECT pg_logical_emit_message(true, 'stet', '')::text"

	storeColumns = "id, mark, trail, made, replaces"
)

// PostgresStore returns the destinations of a row of stet_store, and what makes an identity of it.
func PostgresStore() (dest []any, identity func() stet.Identity) {
	var i stet.Identity
	var made int64
	var replaces string
	return []any{&i.ID, &i.Mark, &i.Trail, &made, &replaces}, func() stet.Identity {
		i.Made, i.Replaces = time.UnixMicro(made).UTC(), strings.Fields(replaces)
		return i
	}
}

// PostgresStoreArgs returns the arguments of an identity.
func PostgresStoreArgs(i *stet.Identity) []any {
	return []any{i.ID, i.Mark, i.Trail, i.Made.UnixMicro(), strings.Join(i.Replaces, " ")}
}

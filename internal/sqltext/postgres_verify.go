package sqltext

// The statements that compare Postgres' rows with their indexes (S06). What the planner may use is
// set for a transaction before each of them, so that one walk reads the rows and the other goes
// through an index.
var (
	// PostgresByRows and PostgresByIndex let the planner use the rows alone, or indexes alone.
	PostgresByRows = "SELECT set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), " +
		"set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"
	PostgresByIndex = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true), " +
		"set_config('enable_indexonlyscan', 'on', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true), " +
		"set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)"
	// PostgresAll declares a cursor over all records, with their names as they are stored.
	PostgresAll = "DECLARE stet_all NO SCROLL CURSOR FOR SELECT s.scope, s.key, 0::bigint, " + postgresRecord + " FROM stet_records s"
	// PostgresNext are some of them.
	PostgresNext = "FETCH 100 FROM stet_all"
	// PostgresSome takes two places of rows (text that is a tid), and returns the names of the
	// records from the first to before the second.
	PostgresSome = "SELECT scope, key FROM stet_records WHERE ctid >= $1::text::tid AND ctid < $2::text::tid"
	// PostgresPages is how many pages the rows take, or none where PostgresSome would read all of
	// them: before Postgres 14.
	PostgresPages = "SELECT CASE WHEN current_setting('server_version_num')::bigint >= 140000 " +
		"THEN pg_relation_size('stet_records') / current_setting('block_size')::bigint ELSE 0 END"
	// PostgresHidden takes an array of scopes, and one of keys, and counts those that no record is
	// found by.
	PostgresHidden = "SELECT count(*) FROM unnest($1::text[], $2::text[]) AS i(scope, key) " +
		"WHERE NOT EXISTS (SELECT 1 FROM stet_records s WHERE s.scope = i.scope AND s.key = i.key)"
	// PostgresAmcheck is the schema of the extension that compares an index with its rows, where it
	// is there and may be used.
	PostgresAmcheck = "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace " +
		"WHERE CASE WHEN extname = 'amcheck' THEN has_function_privilege(quote_ident(nspname) || '.bt_index_check(regclass, boolean)', 'execute') END"
)

// PostgresCounted are the indexes whose entries are counted, and the rows that each of them has, in
// its order: a planner that may not sort has no other index to take.
var PostgresCounted = []struct{ Index, Where string }{
	{"stet_records_id", "true ORDER BY id"},
	{"stet_records_tag", "tag IS NOT NULL ORDER BY tag"},
	{"stet_records_running", "state = 'running' ORDER BY due_at, id"},
	{"stet_records_completed", "state = 'completed' ORDER BY due_at, id"},
	{"stet_records_retryable", "state = 'retryable' ORDER BY due_at, id"},
	{"stet_records_unknown", "state = 'unknown' ORDER BY due_at, id"},
	{"stet_records_expired", "state = 'expired' ORDER BY due_at, id"},
}

// PostgresCount counts rows by a walk, whose name is part of the statement, because a session may
// keep the plan of a statement that it knows.
func PostgresCount(where, walk string) string {
	return "SELECT count(*) /* " + walk + " */ FROM (SELECT id FROM stet_records WHERE " + where + " OFFSET 0) s"
}

// PostgresIndexes are the B-trees of the store's tables; each is checked by the extension in that
// schema, which fails for one that is damaged.
func PostgresIndexes(schema string) string {
	return "SELECT count(*) FROM (SELECT " + schema + ".bt_index_check(indexrelid::regclass, true) FROM pg_index JOIN pg_class c ON c.oid = indexrelid " +
		"JOIN pg_am a ON a.oid = c.relam WHERE amname = 'btree' AND indrelid::regclass IN (to_regclass('stet_records'), to_regclass('stet_history'), " +
		"to_regclass('stet_store'), to_regclass('stet_outbox')) OFFSET 0) s"
}

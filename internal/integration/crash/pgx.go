package crash

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet/internal/crashpoint"
)

// tracer has the points of pgx without package database/sql, where transactions begin and end by statements, too.
type tracer struct{ p *crashpoint.Points }

type tracing struct{}

func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, tracing{}, t.p.Around(q.SQL))
}

func (t tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	ctx.Value(tracing{}).(func())()
}

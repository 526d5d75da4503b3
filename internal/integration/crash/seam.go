package crash

import (
	"context"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet/internal/crashpoint"
)

// statement is the points of one that goes to a driver of package database/sql.
func (p *points) statement(query string) func(crashpoint.Where) {
	name := label(query)
	p.pass(name, before)
	return func(at crashpoint.Where) {
		if at == crashpoint.Pending {
			p.pass(name, pending)
		} else {
			p.pass(name, after)
		}
	}
}

// tracer has the points of pgx without package database/sql, where transactions begin and end by statements, too.
type tracer struct{ p *points }

type tracing struct{}

func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	name := label(q.SQL)
	t.p.pass(name, before)
	return context.WithValue(ctx, tracing{}, name)
}

func (t tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	name, _ := ctx.Value(tracing{}).(string)
	t.p.pass(name, after)
}

// transport has the points around requests to the provider, whose answer is read to its end before the second.
type transport struct{ p *points }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	name := r.Method + " " + r.URL.Path
	t.p.pass(name, before)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = &answer{res.Body, t.p, name}
	return res, nil
}

type answer struct {
	io.ReadCloser
	p    *points
	name string
}

func (a *answer) Close() error {
	a.p.pass(a.name, after)
	return a.ReadCloser.Close()
}

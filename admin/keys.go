package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// listTimeout bounds one page of records, or the search for an id.
const listTimeout = 15 * time.Second

// list answers GET /api/v1/keys.
func (h *handler) list(w http.ResponseWriter, r *http.Request, who principal) {
	q, bad := query(r.URL)
	if bad != nil {
		bad.write(w)
		return
	}
	if s, ok := who.only(); ok && q.Scope == "" {
		q.Scope = s
	}
	ctx, cancel := context.WithTimeout(r.Context(), listTimeout)
	defer cancel()
	heads, next, err := h.engine.List(ctx, q)
	if err != nil {
		h.listFailed(ctx, q, err).write(w)
		return
	}
	page := struct {
		Keys []Record `json:"keys"`
		Next string   `json:"next_cursor"`
	}{make([]Record, 0, len(heads)), next}
	for i := range heads {
		if !who.allows(heads[i].Scope) {
			continue // a page may be short
		}
		page.Keys = append(page.Keys, NewRecord(h.engine.Tag(heads[i].ID), &heads[i]))
	}
	writeJSON(w, http.StatusOK, page)
}

// listFailed tells a cursor that is none from a store that does not answer: the store answers without it.
func (h *handler) listFailed(ctx context.Context, q stet.Query, err error) *problem {
	if errors.Is(err, stet.ErrNoList) {
		return &unlisted
	}
	if q.After != "" {
		q.After, q.Limit = "", 1
		if _, _, err := h.engine.List(ctx, q); err == nil {
			return badParameter("cursor", "it is not from this store; start without one")
		}
	}
	return &unavailable
}

// query reads the parameters of a list. One that is not known is refused: a mistyped filter would select everything.
func query(u *url.URL) (q stet.Query, bad *problem) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return q, badParameter("query", "it is not properly encoded")
	}
	for name, v := range values {
		if len(v) != 1 {
			return q, badParameter(name, "it is there more than once")
		}
		if bad := setParameter(&q, name, v[0]); bad != nil {
			return q, bad
		}
	}
	return q, nil
}

func setParameter(q *stet.Query, name, v string) *problem {
	switch name {
	case "state":
		return setState(q, v)
	case "scope":
		q.Scope = stet.Scope(v)
	case "route":
		q.Route = v
	case "cursor":
		q.After = v
	case "older_than_s":
		const most = float64(1<<63-1) / float64(time.Second)
		s, err := strconv.ParseFloat(v, 64)
		if err != nil || !(s >= 0 && s < most) {
			return badParameter(name, "it is a number of seconds, not negative")
		}
		q.OlderThan = time.Duration(s * float64(time.Second))
	case "limit":
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > stet.MaxLimit {
			return badParameter(name, "it is a number from 1 to "+strconv.Itoa(stet.MaxLimit))
		}
		q.Limit = n
	default:
		return badParameter(name, "there is no such parameter: state, scope, route, older_than_s, cursor, limit")
	}
	return nil
}

func setState(q *stet.Query, v string) *problem {
	if v == "" {
		return nil
	}
	if v == stateFailed {
		q.States, q.Failed = []stet.State{stet.Completed}, true
		return nil
	}
	st, err := stet.ParseState(v)
	if err != nil {
		return badParameter("state", "it is one of running, completed, failed, retryable, unknown, expired")
	}
	q.States, q.Succeeded = []stet.State{st}, st == stet.Completed
	return nil
}

// show answers GET /api/v1/keys/{scope}/{key}.
func (h *handler) show(w http.ResponseWriter, r *http.Request, who principal) {
	reveal, bad := wantsReveal(r.URL)
	switch {
	case bad != nil:
		bad.write(w)
		return
	case reveal && who.role < Operator:
		lacks(who, Operator).write(w)
		return
	}
	rec, err := h.find(r.Context(), who, stet.Scope(r.PathValue("scope")), r.PathValue("key"))
	switch {
	case errors.Is(err, stet.ErrNotFound):
		notFound.write(w)
	case errors.Is(err, stet.ErrCorrupt):
		unreadable.write(w)
	case errors.Is(err, ErrTooMany):
		tooMany.write(w)
	case err != nil:
		unavailable.write(w)
	default:
		doc := NewRecord(h.engine.Tag(rec.ID), &rec.Head)
		if reveal {
			doc.reveal(&rec)
			h.Log.LogAttrs(r.Context(), slog.LevelInfo, "audit", slog.String("action", "reveal"), slog.String("who", who.name),
				slog.String("id", doc.ID), slog.String("scope", doc.Scope), slog.String("route", doc.Route))
		}
		writeJSON(w, http.StatusOK, doc)
	}
}

func wantsReveal(u *url.URL) (bool, *problem) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return false, badParameter("query", "it is not properly encoded")
	}
	for name, v := range values {
		if name != "reveal" {
			return false, badParameter(name, "there is no such parameter: reveal")
		}
		if len(v) != 1 || v[0] != "1" && v[0] != "0" {
			return false, badParameter(name, "it is 1 or 0")
		}
	}
	return values.Get("reveal") == "1", nil
}

// maxScan is how many records of a scope are looked through for an id.
const maxScan = 100_000

// ErrTooMany: an id was not among the first records of its scope, and there are more.
var ErrTooMany = errors.New("admin: too many records to look through for an id")

// Find returns the record that name stands for within a scope: a key, or an id as [stet.Engine.Tag] makes it. Ids are found by
// looking through the scope, 100,000 records at most. The error is [stet.ErrNotFound], [ErrTooMany], or the store's.
func Find(ctx context.Context, e *stet.Engine, scope stet.Scope, name string) (stet.Record, error) {
	rec, err := e.Get(ctx, stet.ID{Scope: scope, Key: stet.Key(name)})
	if !errors.Is(err, stet.ErrNotFound) || !isTag(name) {
		return rec, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	q := stet.Query{Scope: scope, Limit: stet.MaxLimit}
	for range maxScan / stet.MaxLimit {
		heads, next, err := e.List(ctx, q)
		if errors.Is(err, stet.ErrNoList) {
			return stet.Record{}, stet.ErrNotFound
		}
		if err != nil {
			return stet.Record{}, err
		}
		if i := slices.IndexFunc(heads, func(h stet.Head) bool { return e.Tag(h.ID) == name }); i >= 0 {
			return e.Get(ctx, heads[i].ID)
		}
		if q.After = next; next == "" {
			return stet.Record{}, stet.ErrNotFound
		}
	}
	return stet.Record{}, ErrTooMany
}

func isTag(name string) bool {
	digits, ok := strings.CutPrefix(name, "k_")
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

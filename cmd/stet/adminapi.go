package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/cmd/internal/dsn"
)

// source is where operator commands find records: in a store, or through a running gateway.
type source struct {
	Config string `placeholder:"FILE" env:"STET_CONFIG" help:"The gateway's configuration file, for its store, pepper, keys and cache; flags and environment override it."`
	Store  string `placeholder:"DSN" env:"STET_STORE" help:"The store (sqlite:stet.db)."`
	place
	PepperFile string `placeholder:"FILE" env:"STET_PEPPER_FILE" help:"Secret that ids are derived with, as the gateway has it (with --store)."`
	KeysFile   string `name:"encryption-keys-file" placeholder:"FILE" env:"STET_ENCRYPTION_KEYS_FILE" help:"Encryption keys, as the gateway has them (with --store)."`
	Plain      bool   `name:"encryption-accept-plain" env:"STET_ENCRYPTION_ACCEPT_PLAIN" help:"Read records that were stored before encryption was switched on (with --store)."`
}

// api is the admin API, as served by a gateway or, for a store, by this very process: one form of
// document, one set of rules.
type api struct {
	at     string // as it was given
	base   *url.URL
	token  string
	known  atomic.Bool // it has shown that it is the admin API
	client *http.Client
	jobs   *bulk.Jobs // of a store: this very process works on them
	close  func()
}

// check implements [checked].
func (s *source) check(w *world) error {
	t, err := s.target(w)
	if err != nil || t.admin == "" {
		return err
	}
	a, err := s.through(t)
	if err == nil {
		a.close()
	}
	return err
}

func (s *source) open(w *world) (*api, error) {
	t, err := s.target(w)
	switch {
	case err != nil:
		return nil, err
	case t.admin != "":
		return s.through(t)
	}
	return s.local(w, t)
}

// through is the admin API of a running gateway.
func (s *source) through(t target) (*api, error) {
	there := *s
	there.Admin = t.admin
	a, err := there.remote()
	if err == nil {
		a.token = cmp.Or(a.token, t.token)
	}
	return a, err
}

func (s *source) local(w *world, p target) (*api, error) {
	store, err := p.store.Open(w.ctx, dsn.Look)
	if err != nil {
		return nil, err
	}
	for _, text := range store.Warnings {
		fmt.Fprintln(w.stderr, "stet:", text)
	}
	engine, err := stet.New(store.Store, stet.Config{Pepper: p.pepper, StoreTimeout: 30 * time.Second})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	jobs := bulk.New(engine)
	probe, err := asker(engine, &p.reconcile)
	if err != nil {
		fmt.Fprintf(w.stderr, "stet: %s; nothing is asked\n", err)
	}
	return &api{
		base: &url.URL{Scheme: "http", Host: "localhost"},
		client: &http.Client{Transport: inProcess{admin.New(engine, admin.Config{Who: whoami(), Bulk: jobs, Outbox: desk(store, engine),
			Settle: settling(&p.reconcile), Reconciler: probe})}},
		jobs:  jobs,
		close: func() { _ = store.Close() },
	}, nil
}

// whoami is who changes a store, for its audit trail.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// inProcess answers requests by a handler, without a network.
type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr, in.Host = r.URL.RequestURI(), "127.0.0.1:0", r.URL.Host
	w := &answer{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(w, in)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: r}, nil
}

// answer keeps what a handler answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// get fetches a document of at most a page of records with their responses.
func (a *api) get(ctx context.Context, path string, into any) error {
	return a.do(ctx, http.MethodGet, path, nil, into)
}

// do sends a document, if there is one, and reads the answer into another, if one is expected.
func (a *api) do(ctx context.Context, method, path string, doc, into any) error {
	const limit = 64 << 20
	var sent bytes.Buffer
	if doc != nil {
		if err := json.NewEncoder(&sent).Encode(doc); err != nil {
			return err
		}
	}
	if err := a.knock(ctx); err != nil {
		return err
	}
	res, err := a.send(ctx, method, path, &sent, func(req *http.Request) {
		if doc != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		if a.token != "" {
			req.Header.Set("Authorization", "Bearer "+a.token)
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return a.unreachable(err)
	}
	switch {
	case res.StatusCode == http.StatusNoContent && into == nil:
		return nil
	case res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted:
		return a.refused(res.StatusCode, body)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer of %s cannot be read: %w; is this stet of the gateway's version?", a.at, err)
	}
	return nil
}

// refused turns a problem document into an error with its exit status.
func (a *api) refused(status int, body []byte) error {
	var p struct{ Title, Detail, Code string }
	_ = json.Unmarshal(body, &p) // what is no problem document is told by its status
	text := strings.TrimSpace(p.Title + ": " + p.Detail)
	if text = strings.Trim(text, ": "); text == "" {
		text = http.StatusText(status)
	}
	if status == http.StatusNotFound && p.Code == "not-found" {
		return failf(exitNotFound, "there is no such record; stet keys list shows what there is, --scope says whose")
	}
	switch p.Code {
	case "probe-failed": // the gateway was reached; what it asks was not
		return failf(exitError, "%s", text)
	case "no-outbox":
		return failf(exitUsage, "%s", text)
	}
	switch status {
	case http.StatusUnauthorized:
		if a.token != "" {
			return failf(exitNotAllowed, "%s refused the token in %s: %s", a.at, adminTokenVariable, sentence(p.Detail))
		}
		return failf(exitNotAllowed, "%s asks for a token; put the token into %s", a.at, adminTokenVariable)
	case http.StatusForbidden:
		return failf(exitNotAllowed, "%s", sentence(p.Detail))
	case http.StatusTooManyRequests:
		return failf(exitNotAllowed, "%s", text)
	case http.StatusBadRequest:
		return failf(exitUsage, "%s", text)
	case http.StatusConflict:
		return failf(exitError, "%s", asFlags.Replace(text))
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return failf(exitUnreachable, "%s", text)
	}
	if p.Code == "" {
		return fmt.Errorf("%s answered %d, and does not say why", a.at, status)
	}
	return fmt.Errorf("the admin API answered %d: %s", status, text)
}

// asFlags turns what the API asks for into what the command line has for it.
var asFlags = strings.NewReplacer(`send "now": true`, "give --now", `send "override": true`, "give --override")

// sentence is a problem's detail after a colon of ours.
func sentence(detail string) string {
	if detail == "" {
		return "it does not say why"
	}
	return strings.ToLower(detail[:1]) + strings.TrimSuffix(detail[1:], ".")
}

// segment escapes a key or a scope for a path. Dots are escaped as well: "." and ".." would be
// taken for a direction.
func segment(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

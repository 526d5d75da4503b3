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
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/cmd/internal/dsn"
)

// source is where operator commands find records: in a store, or through a running gateway.
type source struct {
	Config     string `placeholder:"FILE" env:"STET_CONFIG" help:"The gateway's configuration file: its store, pepper, keys and cache; flags and the environment beat it."`
	Store      string `placeholder:"DSN" env:"STET_STORE" help:"The store (sqlite:stet.db)."`
	Admin      string `placeholder:"URL" env:"STET_ADMIN_URL" help:"The admin address of a running gateway, instead of a store."`
	PepperFile string `placeholder:"FILE" env:"STET_PEPPER_FILE" help:"Secret behind the ids, as the gateway has it (with --store)."`
	KeysFile   string `name:"encryption-keys-file" placeholder:"FILE" env:"STET_ENCRYPTION_KEYS_FILE" help:"Encryption keys, as the gateway has them (with --store)."`
	Plain      bool   `name:"encryption-accept-plain" env:"STET_ENCRYPTION_ACCEPT_PLAIN" help:"Read what was stored before encryption, as the gateway does (with --store)."`
}

// adminTokenVariable holds the token for --admin. There is no flag for it: a command line can be read by everybody.
const adminTokenVariable = "STET_ADMIN_TOKEN"

// api is the admin API, as served by a gateway or, for a store, by this very process: one form of document, one set of rules.
type api struct {
	base   *url.URL
	token  string
	client *http.Client
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

func (s *source) remote() (*api, error) {
	base, err := url.Parse(s.Admin)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil {
		return nil, failf(exitUsage, "--admin needs a URL such as http://127.0.0.1:8081; a token goes into %s", adminTokenVariable)
	}
	return &api{base: base, token: os.Getenv(adminTokenVariable), client: &http.Client{Timeout: 30 * time.Second}, close: func() {}}, nil
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
	return &api{
		base:   &url.URL{Scheme: "http", Host: "localhost"},
		client: &http.Client{Transport: inProcess{admin.New(engine, admin.Config{Who: whoami()})}},
		close:  func() { _ = store.Close() },
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
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(a.base.String(), "/")+path, &sent)
	if err != nil {
		return err
	}
	if doc != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return a.unreachable(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return a.unreachable(err)
	}
	switch {
	case res.StatusCode == http.StatusNoContent && into == nil:
		return nil
	case res.StatusCode != http.StatusOK:
		return a.refused(res.StatusCode, body)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer is not the admin API's: %w; is %s the admin address?", err, a.base)
	}
	return nil
}

func (a *api) unreachable(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op
	}
	return failf(exitUnreachable, "no gateway answers at %s: %w; does it run, and is this its admin address?", a.base, err)
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
	switch status {
	case http.StatusUnauthorized:
		return failf(exitNotAllowed, "%s; put the token into %s", text, adminTokenVariable)
	case http.StatusForbidden:
		return failf(exitNotAllowed, "%s", text)
	case http.StatusBadRequest:
		return failf(exitUsage, "%s", text)
	case http.StatusConflict:
		return failf(exitError, "%s", text)
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return failf(exitUnreachable, "%s", text)
	}
	if p.Code == "" {
		return fmt.Errorf("%s answered %d, and not as the admin API does; is it the admin address?", a.base, status)
	}
	return fmt.Errorf("the admin API answered %d: %s", status, text)
}

// segment escapes a key or a scope for a path. Dots are escaped as well: "." and ".." would be taken for a direction.
func segment(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

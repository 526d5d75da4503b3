package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/operate/fleet"
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
	*adminclient.Client
	at    string        // as it was given; "": a store
	token bool          // one is shown
	jobs  *operate.Jobs // of a store: this very process works on them
	close func()
}

// check implements [checked].
func (s *source) check(w *world) error {
	t, err := s.target(w)
	if err != nil || t.admin == "" {
		return err
	}
	a, err := s.remote(t.admin, t.token)
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
		return s.remote(t.admin, t.token)
	}
	return s.local(w, t)
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
	jobs := operate.NewJobs()
	probe, err := reconciler(engine, &p.reconcile)
	if err != nil {
		fmt.Fprintf(w.stderr, "stet: %s; nothing is asked\n", err)
	}
	published := fleet.NewReader(engine)
	h := admin.New(engine, admin.Config{Who: whoami(), Config: operate.Config{Jobs: jobs, Outbox: desk(store, engine),
		Settle: settling(&p.reconcile), Reconciler: probe, Figures: published.Figures, Asking: published.Asking}})
	return &api{Client: adminclient.InProcess(h, nil, ""), jobs: jobs, close: func() { _ = store.Close() }}, nil
}

// whoami is who changes a store, for its audit trail.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	return name + ifTrue(err == nil, "@"+host)
}

// noSuchRecord is what is said of a record that is not there.
const noSuchRecord = "there is no such record; stet keys list shows what there is, --scope says whose"

// absent says what is not there in place of the API's 404.
func absent(err error, status exit, format string, args ...any) error {
	if adminclient.Is(err, "not-found") {
		return failf(status, format, args...)
	}
	return err
}

// explainError puts an error of the API into the words of the command line, with its exit status.
func (a *api) explainError(err error) error {
	if p, ok := errors.AsType[*adminclient.Problem](err); ok {
		return a.refused(p)
	}
	if s, ok := errors.AsType[*adminclient.StrangerError](err); ok {
		return a.stranger(s)
	}
	if u, ok := errors.AsType[*adminclient.UnreachableError](err); ok {
		return a.unreachable(u.Err)
	}
	return err
}

// refused turns a problem document into an error with its exit status.
func (a *api) refused(p *adminclient.Problem) error {
	text := strings.Trim(p.Title+": "+p.Detail, ": ")
	if text = visible(text); text == "-" {
		text = http.StatusText(p.Status)
	}
	status := refusals[p.Status]
	switch {
	case p.Code == "not-found":
		return failf(exitNotFound, noSuchRecord)
	case p.Code == "probe-failed": // the gateway was reached; what it asks was not
		status = exitError
	case p.Code == "no-outbox":
		status = exitUsage
	case p.Status == http.StatusUnauthorized && a.token:
		text = fmt.Sprintf("%s refused the token in %s: %s", a.at, adminTokenVariable, sentence(p.Detail))
	case p.Status == http.StatusUnauthorized:
		text = fmt.Sprintf("%s asks for a token; put the token into %s", a.at, adminTokenVariable)
	case p.Status == http.StatusForbidden:
		text = sentence(p.Detail)
	case p.Status == http.StatusConflict:
		text += flagsFor(p.Code)
	case status == exitFine && p.Code == "":
		return fmt.Errorf("%s answered %d, and does not say why", a.at, p.Status)
	case status == exitFine:
		return fmt.Errorf("the admin API answered %d: %s", p.Status, text)
	}
	return failf(status, "%s", text)
}

// refusals are the exit statuses of what the API answers.
var refusals = map[int]exit{http.StatusUnauthorized: exitNotAllowed, http.StatusForbidden: exitNotAllowed,
	http.StatusTooManyRequests: exitNotAllowed, http.StatusBadRequest: exitUsage, http.StatusConflict: exitError,
	http.StatusServiceUnavailable: exitUnreachable, http.StatusBadGateway: exitUnreachable,
	http.StatusGatewayTimeout: exitUnreachable}

// flagsFor names the flags that a command has for what the problem of a code allows an admin.
func flagsFor(code string) string {
	switch code {
	case "not-settled":
		return " Flags: --now, or --voided with --evidence."
	case "contradicted":
		return " Flag: --override."
	}
	return ""
}

// sentence is a problem's detail after a colon of ours.
func sentence(detail string) string {
	if detail == "" {
		return "it does not say why"
	}
	return visible(strings.ToLower(detail[:1]) + strings.TrimSuffix(detail[1:], "."))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

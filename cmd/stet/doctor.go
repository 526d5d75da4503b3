package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/sqlstore"
)

type doctorCmd struct {
	settings
	RetryWindow time.Duration `placeholder:"24h" default:"24h" help:"How long clients may retry: a shorter retention is a finding (24h)."`
	Deep        bool          `help:"Also read all of the store, and compare its records with its indexes (file:, sqlite:, postgres:, mysql:); takes as long as reading it."`
	JSON        bool          `name:"json" help:"Print JSON."`
}

// patient is what the checks look at.
type patient struct {
	conf   *config.Config
	window time.Duration
	store  *dsn.Opened // nil: it is not there
	failed error       // why it could not be opened

	routes   []operate.RouteFigures // of the gateway that runs
	warnings []operate.Warning      // likewise
	status   operate.Status         // likewise
}

// wholePatience is how long it may take to read all of a store.
const wholePatience = 6 * time.Hour

// damage is the check that --deep adds.
const damage = "damage"

// checks are what the doctor looks for, by the words that stet explain knows. Each returns what it
// found, a sentence for each.
var checks = []struct {
	word string
	look func(ctx context.Context, p *patient) []string
}{
	{"store", lookAtStore}, {"durability", lookAtDurability}, {"clock", lookAtClock}, {"pooler", lookForPooler},
	{"encryption", lookAtEncryption}, {"retention", lookAtRetention}, {"body-limits", lookAtLimits},
	{"unprotected-routes", lookAtRoutes},
	{"double-effect", lookForDoubleEffects}, {"unstored", lookAtUnstored},
	{"single-tenant", lookAtScope}, {"tokens", lookAtTokens}, {"files", lookAtFiles}, {"upstream", lookAtUpstream},
	{"certificate", lookAtCertificate}, {damage, lookForDamage},
}

func (c *doctorCmd) Run(w *world, conf *config.Config) error {
	patience := 3 * deepPatience
	if c.Deep {
		patience = wholePatience
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	p := &patient{conf: conf, window: c.RetryWindow}
	if p.store, p.failed = opened(ctx, conf); p.store != nil {
		defer func() { _ = p.store.Close() }()
	}
	if err := p.ask(ctx); err != nil {
		fmt.Fprintln(w.stderr, "stet: the running gateway was not asked:", visible(oneLine(err)))
	}
	var words []string
	findings := []operate.Warning{}
	for _, check := range checks {
		if check.word == damage && !c.Deep {
			continue
		}
		words = append(words, check.word)
		for _, text := range check.look(ctx, p) {
			findings = append(findings, warned(check.word, text))
		}
	}
	for _, f := range p.warnings {
		if !slices.ContainsFunc(findings, func(other operate.Warning) bool { return other.Code == f.Code }) {
			findings = append(findings, f)
		}
	}
	c.print(w, words, findings)
	switch {
	case p.failed != nil && exitOf(p.failed) == exitUnreachable:
		return failf(exitUnreachable, "the store does not answer; %s", some(len(findings), "finding"))
	case len(findings) > 0:
		return failf(exitFindings, "%s; stet explain WORD says more of each", some(len(findings), "finding"))
	}
	return nil
}

func (c *doctorCmd) print(w *world, words []string, findings []operate.Warning) {
	if c.JSON {
		_ = writeJSON(w.stdout, map[string]any{"looked_at": words, "findings": findings})
		return
	}
	for _, word := range words {
		if !slices.ContainsFunc(findings, func(f operate.Warning) bool { return f.Code == word }) {
			fmt.Fprintf(w.stdout, "ok     %s\n", word)
		}
	}
	for _, f := range findings {
		fmt.Fprintf(w.stdout, "found  %s: %s\n       → %s\n", visible(f.Code), visible(f.Text), visible(f.Mend))
	}
}

// askedFor is how long a gateway may take to say what it knows.
const askedFor = 3 * time.Second

// ask asks the gateway of the configuration, if one runs, what only it can know.
func (p *patient) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askedFor)
	defer cancel()
	t, err := throughAdmin(p.conf)
	if err != nil {
		return err
	}
	a, err := (&place{}).remote(t.admin, t.token)
	if err != nil {
		return err
	}
	defer a.close()
	routes, err := a.Routes(ctx)
	if err != nil {
		return a.told(err)
	}
	p.routes = routes.Routes
	s, err := a.Overview(ctx, false)
	p.warnings, p.status = s.Warnings, s
	return a.told(err)
}

// sentences are those sentences that say something.
func sentences(all ...string) []string {
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// lookAtStore also proves by a write that it can be used, as a gateway does at its start.
func lookAtStore(ctx context.Context, p *patient) []string {
	found := sentences(given(!errors.Is(p.failed, stet.ErrVolatile), oneLine(p.failed)))
	if p.store == nil || !persistent(p.conf) {
		return found
	}
	if err := usableAsConfigured(ctx, p.conf, p.store); err != nil {
		found = append(found, oneLine(err))
	}
	return found
}

func lookAtDurability(ctx context.Context, p *patient) (found []string) {
	found = sentences(given(errors.Is(p.failed, stet.ErrVolatile), oneLine(p.failed)),
		given(!persistent(p.conf), "the records are in the gateway's memory: a restart forgets every key"))
	if p.store == nil {
		return found
	}
	found = append(found, p.store.Warnings...)
	if c, ok := stet.As[stet.Checker](p.store.Store); ok && len(p.store.Warnings) == 0 {
		if err := c.Check(ctx); errors.Is(err, stet.ErrVolatile) {
			found = append(found, oneLine(err))
		}
	}
	return found
}

// lookForDamage reads all of the store (S06).
func lookForDamage(ctx context.Context, p *patient) []string {
	if p.store == nil {
		return nil
	}
	v, ok := stet.As[interface {
		Verify(ctx context.Context) ([]string, error)
	}](p.store.Store)
	if !ok {
		return nil
	}
	found, err := v.Verify(ctx)
	return append(found, sentences(oneLine(err))...)
}

// maxSkew is how far the clocks may be apart.
const maxSkew = 2 * time.Second

// lookAtClock compares this machine's clock with the store's, as the newest record was read by it.
// Of a store without records nothing is known.
func lookAtClock(ctx context.Context, p *patient) []string {
	if p.store == nil {
		return nil
	}
	l, ok := stet.As[stet.Lister](p.store.Store)
	if !ok {
		return nil
	}
	before := time.Now()
	heads, _, err := l.List(ctx, stet.Query{Limit: 1})
	if err != nil || len(heads) == 0 {
		return nil
	}
	there, after := heads[0].AsOf, time.Now()
	apart := max(before.Sub(there), there.Sub(after))
	return sentences(given(apart > maxSkew,
		fmt.Sprintf("the store's clock and this machine's are %s apart", apart.Truncate(time.Millisecond))))
}

func lookForPooler(ctx context.Context, p *patient) []string {
	if p.store == nil || p.store.Dialect != sqlstore.Postgres || p.conf.Store.ListenDSN != "" {
		return nil
	}
	if pooled, err := dsn.Pooled(ctx, p.store.DB); err != nil || !pooled {
		return nil
	}
	return []string{p.at("store.listen_dsn", "Postgres is behind a pooler, and listen_dsn is not set")}
}

func lookAtEncryption(_ context.Context, p *patient) []string {
	return sentences(given(persistent(p.conf) && p.conf.Store.EncryptionKeysFile == "",
		p.at("store.encryption_keys_file", "keys, requests and responses are stored in the clear")))
}

// policies calls f with each policy and the path of its settings.
func (p *patient) policies(f func(path string, c *config.Policy)) {
	f("policy", &p.conf.Policy)
	for i := range p.conf.Routes {
		f(fmt.Sprintf("routes[%d].policy", i), &p.conf.Routes[i].Policy)
	}
}

// at is a finding about a setting, with the place where the setting is written.
func (p *patient) at(path, format string, args ...any) string {
	return fmt.Sprintf("%s (%s, %s)", fmt.Sprintf(format, args...), path, p.conf.Origin(path))
}

func lookAtRetention(_ context.Context, p *patient) (found []string) {
	p.policies(func(path string, c *config.Policy) {
		if kept := c.DefaultTTL.Duration(); kept < p.window && c.OnExpired != "reject" &&
			(path == "policy" || c.DefaultTTL != p.conf.Policy.DefaultTTL) {
			found = append(found, p.at(path+".default_ttl_s", "results are kept for %s, and clients may retry for %s",
				age.Short(kept), age.Short(p.window)))
		}
	})
	return found
}

func lookAtLimits(_ context.Context, p *patient) (found []string) {
	if p.store != nil {
		beyond, _ := errors.AsType[config.Errors](fits(p.conf, p.store))
		for _, e := range beyond {
			found = append(found, p.at(e.Path, "%s", e.Text))
		}
	}
	room := int64(float64(p.conf.Limits.MaxBufferedBytes) * p.conf.Limits.SharePerScope)
	p.policies(func(path string, c *config.Policy) {
		inherited := path != "policy" && c.MaxBodyBytes == p.conf.Policy.MaxBodyBytes &&
			c.MaxResponseBytes == p.conf.Policy.MaxResponseBytes
		if most := max(c.MaxBodyBytes, c.MaxResponseBytes); most > room && !inherited {
			key := ".max_body_bytes"
			if c.MaxResponseBytes > c.MaxBodyBytes {
				key = ".max_response_bytes"
			}
			found = append(found, p.at(path+key, "a body or response may have %d bytes, and one scope gets %d of memory", most,
				room))
		}
	})
	return found
}

func lookAtRoutes(_ context.Context, p *patient) (found []string) {
	for i := range p.conf.Routes {
		r := &p.conf.Routes[i]
		method, _, named := strings.Cut(r.Match, " ")
		changes := !named || slices.Contains(r.Policy.EnabledMethods, method) && method != http.MethodGet &&
			method != http.MethodHead
		if changes && (r.Mode == "off" || r.Mode == "shadow") {
			found = append(found, p.at(fmt.Sprintf("routes[%d].mode", i), "%s is %s", r.Match, r.Mode))
		}
	}
	for _, r := range p.routes {
		if r.Unprotected > 0 {
			found = append(found, fmt.Sprintf("%s: %s that change state ran without protection, as the gateway counts",
				cmp.Or(r.Match, "what no route matches"), some(r.Unprotected, "request")))
		}
	}
	return found
}

func lookAtScope(_ context.Context, p *patient) []string {
	return sentences(given(p.conf.Unscoped(), "no scope is set: all callers share one bucket of keys"))
}

// lookForDoubleEffects asks the store, which knows those of all gateways.
func lookForDoubleEffects(ctx context.Context, p *patient) (found []string) {
	if p.store == nil {
		return nil
	}
	pepper, _ := config.ReadSecret(p.conf.Store.PepperFile) // what is wrong with it is found by config check
	e, err := stet.New(p.store.Store, stet.Config{Pepper: pepper})
	if err != nil {
		return []string{oneLine(err)}
	}
	open, err := e.Operator().DoubleEffects(ctx, maxFindings)
	if err != nil && !errors.Is(err, stet.ErrUnsupported) {
		return []string{"the history could not be read: " + oneLine(err)}
	}
	for i := range open {
		found = append(found, fmt.Sprintf("%s of scope %s was executed twice: %s", cmp.Or(open[i].Tag, e.Tag(open[i].ID)), open[i].ID.Scope, open[i].Note.Evidence))
	}
	return found
}

// maxFindings is how many records one check names.
const maxFindings = 20

func lookAtUnstored(_ context.Context, p *patient) []string {
	return sentences(unstored(p.status.Unstored))
}

// fewBytes is how many different bytes a random token has at least.
const fewBytes = 12

func lookAtTokens(_ context.Context, p *patient) (found []string) {
	found = sentences(given(unguarded(&p.conf.Admin) != "",
		"operators need no token: every user of this machine can do everything"))
	token, err := config.ReadToken(p.conf.Admin.TokenFile)
	different := map[byte]bool{}
	for _, b := range token {
		different[b] = true
	}
	if err == nil && len(token) > 0 && len(different) < fewBytes {
		found = append(found, p.at("admin.token_file", "the token has %d different characters, and can be guessed",
			len(different)))
	}
	tokens, _ := adminTokens(&p.conf.Admin) // a mistake in them is found by config check
	for _, t := range tokens {
		if !t.Expires.IsZero() && time.Until(t.Expires) < 0 {
			found = append(found, p.at("admin.tokens_file", "the token of %s has expired", t.Name))
		}
	}
	return found
}

func lookAtFiles(_ context.Context, p *patient) (found []string) {
	for _, warning := range p.conf.Warnings() {
		if warning.Path != "scope" {
			found = append(found, warning.Error())
		}
	}
	return found
}

func lookAtUpstream(ctx context.Context, p *patient) []string {
	if p.conf.Upstream == "" {
		return nil
	}
	return sentences(oneLine(reach(ctx, p.conf.Upstream)))
}

func lookAtCertificate(_ context.Context, p *patient) []string {
	return sentences(oneLine(current(p.conf.TLS)), oneLine(current(p.conf.Admin.TLS)))
}

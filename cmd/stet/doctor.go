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

// checkup is what the checks look at.
type checkup struct {
	conf   *config.Config
	window time.Duration
	store  *dsn.Opened // nil: it is not there
	failed error       // why it could not be opened

	routes   []operate.RouteFigures // of the gateway that runs
	warnings []operate.Warning      // likewise
	status   operate.Status         // likewise
	unasked  error                  // why the gateway was not asked

	word   string            // of the check that looks
	unseen []operate.Warning // what checks could not look at
}

// cannot notes that the check could not look, and what to do about it.
func (p *checkup) cannot(text, todo string) {
	p.unseen = append(p.unseen, operate.Warning{Code: p.word, Text: text, Mend: todo})
}

// lacksStore reports that there is no store to look at. In one that a gateway would make there is
// nothing to see; of any other, it is noted that it was not seen.
func (p *checkup) lacksStore() bool {
	if p.failed != nil {
		p.cannot("the store could not be opened", "See what is said of store or durability, and look again.")
	}
	return p.store == nil
}

// lacksGateway reports that the gateway could not be asked, and notes it.
func (p *checkup) lacksGateway() bool {
	if p.unasked != nil {
		p.cannot("the running gateway was not asked: "+oneLine(p.unasked),
			"Look again while it runs, from where its admin address can be reached.")
	}
	return p.unasked != nil
}

// refused notes what keeps a check from looking, and is a mistake of the configuration.
func (p *checkup) refused(err error) {
	if err != nil {
		p.cannot(oneLine(err), "Mend what stet config check says, and look again.")
	}
}

// wholePatience is how long it may take to read all of a store.
const wholePatience = 6 * time.Hour

// damage is the check that --deep adds.
const damage = "damage"

// checks are what the doctor looks for, by the words that stet explain knows. Each returns what it
// found, a sentence for each, and tells the checkup what it could not look at.
var checks = []struct {
	word string
	look func(ctx context.Context, p *checkup) []string
}{
	{"store", lookAtStore}, {"durability", lookAtDurability}, {"clock", lookAtClock}, {"pooler", lookForPooler},
	{"encryption", lookAtEncryption}, {"retention", lookAtRetention}, {"body-limits", lookAtLimits},
	{"unprotected-routes", lookAtRoutes}, {"fail-open", lookForOpenDoors},
	{"double-effect", lookForDoubleEffects}, {"unstored", lookAtUnstored},
	{"single-tenant", lookAtScope}, {"trusted-proxies", lookAtProxies}, {"tokens", lookAtTokens}, {"pepper", lookAtPepper},
	{"files", lookAtFiles}, {"listen", lookAtListeners}, {"upstream", lookAtUpstream}, {"probe", lookAtProbe},
	{"certificate", lookAtCertificate}, {damage, lookForDamage},
}

func (c *doctorCmd) Run(w *world, conf *config.Config) error {
	patience := 3 * deepPatience
	if c.Deep {
		patience = wholePatience
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	p := &checkup{conf: conf, window: c.RetryWindow}
	if p.store, p.failed = opened(ctx, conf); p.store != nil {
		defer func() { _ = p.store.Close() }()
	}
	p.unasked = p.ask(ctx)
	var words []string
	findings := []operate.Warning{}
	for _, check := range checks {
		if check.word == damage && !c.Deep {
			continue
		}
		words, p.word = append(words, check.word), check.word
		for _, text := range check.look(ctx, p) {
			findings = append(findings, warned(check.word, text))
		}
	}
	for _, f := range p.warnings {
		if !names(findings, f.Code) {
			findings = append(findings, f)
		}
	}
	// What a check has found counts, also if it could not look at everything.
	unseen := slices.DeleteFunc(p.unseen, func(f operate.Warning) bool { return names(findings, f.Code) })
	if err := c.print(w, words, findings, unseen); err != nil {
		return err
	}
	switch {
	case len(findings) > 0:
		return failf(exitFindings, "%s; stet explain WORD says more of each", some(len(findings), "finding"))
	case len(unseen) > 0:
		return failf(exitUnreachable, "nothing was found, and not everything could be looked at")
	}
	return nil
}

// names reports whether some of the warnings are of a check.
func names(all []operate.Warning, check string) bool {
	return slices.ContainsFunc(all, func(f operate.Warning) bool { return f.Code == check })
}

// codes is of how many checks the warnings are.
func codes(all []operate.Warning) int {
	return len(slices.Compact(slices.Sorted(slices.Values(each(all, func(f *operate.Warning) string { return f.Code })))))
}

// print says of each check what it found, or why it could not look, or that all is fine.
func (c *doctorCmd) print(w *world, words []string, findings, unseen []operate.Warning) error {
	looked := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return names(unseen, word) })
	if c.JSON {
		return writeJSON(w.stdout, map[string]any{"looked_at": looked, "findings": findings,
			"not_looked_at": append([]operate.Warning{}, unseen...)})
	}
	fine := slices.DeleteFunc(slices.Clone(looked), func(word string) bool { return names(findings, word) })
	for _, word := range fine {
		fmt.Fprintf(w.stdout, "ok          %s\n", word)
	}
	told := func(label string, all []operate.Warning) {
		for _, f := range all {
			fmt.Fprintf(w.stdout, "%-10s  %s: %s\n            → %s\n", label, visible(f.Code), visible(f.Text), visible(f.Mend))
		}
	}
	told("not looked", unseen)
	told("found", findings)
	return w.printf("%d found, %d fine, %d not looked\n", codes(findings), len(fine), codes(unseen))
}

// askedFor is how long a gateway may take to say what it knows.
const askedFor = 3 * time.Second

// ask asks the gateway of the configuration, if one runs, what only it can know.
func (p *checkup) ask(ctx context.Context) error {
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
		return a.explainError(err)
	}
	p.routes = routes.Routes
	s, err := a.Overview(ctx)
	p.warnings, p.status = s.Warnings, s
	return a.explainError(err)
}

// sentences are those sentences that say something.
func sentences(all ...string) []string {
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// lookAtStore also proves by a write that it can be used, as a gateway does at its start.
func lookAtStore(ctx context.Context, p *checkup) []string {
	err := p.failed
	if errors.Is(err, stet.ErrVolatile) {
		return nil // which durability finds
	}
	if p.store != nil && persistent(p.conf) {
		err = usableAsConfigured(ctx, p.conf, p.store)
	}
	switch {
	case errors.Is(err, errBehind):
		p.cannot(oneLine(err), "Start the gateway, and look again.")
		return nil
	case err != nil && exitOf(err) == exitUnreachable:
		p.cannot(oneLine(err), "See that it is there and that store.dsn is its address, and look again.")
		return nil
	}
	return sentences(oneLine(err))
}

func lookAtDurability(ctx context.Context, p *checkup) (found []string) {
	if errors.Is(p.failed, stet.ErrVolatile) {
		return sentences(oneLine(p.failed))
	}
	found = sentences(ifTrue(!persistent(p.conf), "the records are in the gateway's memory: a restart forgets every key"))
	if p.lacksStore() {
		return found
	}
	found = append(found, p.store.Warnings...)
	if c, ok := stet.As[stet.Checker](p.store.Store); ok && len(p.store.Warnings) == 0 {
		switch err := c.Check(ctx); {
		case errors.Is(err, stet.ErrVolatile):
			found = append(found, oneLine(err))
		case err != nil:
			p.cannot("the settings of the store's server could not be read: "+oneLine(err), "Look again when it answers.")
		}
	}
	return found
}

// lookForDamage reads all of the store (S06). It opens it anew, without its layers: the one that
// seals records hides what it does not seal.
func lookForDamage(ctx context.Context, p *checkup) []string {
	if p.lacksStore() {
		return nil
	}
	plain, err := p.dsn().Open(ctx, dsn.Look)
	if err != nil {
		p.cannot(oneLine(err), "Look again when it can be opened.")
		return nil
	}
	defer func() { _ = plain.Close() }()
	v, ok := stet.As[interface {
		Verify(ctx context.Context) ([]string, error)
	}](plain.Store)
	if !ok {
		p.cannot("stet cannot read all of a store of this kind", "Look at what its server says of its files.")
		return nil
	}
	found, err := v.Verify(ctx)
	if err != nil && exitOf(err) == exitUnreachable {
		p.cannot("the store was not read to its end: "+oneLine(err), "Look again when it answers.")
		return found
	}
	return append(found, sentences(oneLine(err))...)
}

// maxSkew is how far the clocks may be apart.
const maxSkew = 2 * time.Second

// lookAtClock compares this machine's clock with the store's, as the newest record was read by it.
// A store on this machine has no other clock.
func lookAtClock(ctx context.Context, p *checkup) []string {
	if p.lacksStore() {
		return nil
	}
	l, ok := stet.As[stet.Lister](p.store.Store)
	if !ok {
		return nil
	}
	for _, scope := range []stet.Scope{"", stet.OwnScope} { // a gateway that runs has a record of its own
		before := time.Now()
		heads, _, err := l.List(ctx, stet.Query{Scope: scope, Limit: 1})
		if err != nil {
			p.cannot("the records could not be listed: "+oneLine(err), "Look again when the store answers.")
			return nil
		}
		if len(heads) == 0 {
			continue
		}
		there, after := heads[0].AsOf, time.Now()
		apart := max(before.Sub(there), there.Sub(after))
		return sentences(ifTrue(apart > maxSkew,
			fmt.Sprintf("the store's clock and this machine's are %s apart", apart.Truncate(time.Millisecond))))
	}
	if p.dsn().Shared() {
		p.cannot("the store has no record by which its clock could be read", "Look again after the first request.")
	}
	return nil
}

// dsn is the store's address.
func (p *checkup) dsn() dsn.DSN {
	d, _ := dsn.Parse(p.conf.Store.DSN) // checked before
	return d
}

func lookForPooler(ctx context.Context, p *checkup) []string {
	if p.dsn().Dialect() != sqlstore.Postgres || p.conf.Store.ListenDSN != "" || p.lacksStore() {
		return nil
	}
	pooled, err := dsn.Pooled(ctx, p.store.DB)
	if err != nil {
		p.cannot("the server was not asked who it is: "+oneLine(err), "Look again when it answers.")
	}
	return sentences(ifTrue(pooled && err == nil,
		p.at("store.listen_dsn", "Postgres is behind a pooler, and listen_dsn is not set")))
}

func lookAtEncryption(_ context.Context, p *checkup) []string {
	return sentences(ifTrue(persistent(p.conf) && p.conf.Store.EncryptionKeysFile == "",
		p.at("store.encryption_keys_file", "keys, requests and responses are stored in the clear")))
}

// policies calls f with each policy and the path of its settings.
func (p *checkup) policies(f func(path string, c *config.Policy)) {
	f("policy", &p.conf.Policy)
	for i := range p.conf.Routes {
		f(fmt.Sprintf("routes[%d].policy", i), &p.conf.Routes[i].Policy)
	}
}

// at is a finding about a setting, with the place where the setting is written.
func (p *checkup) at(path, format string, args ...any) string {
	return fmt.Sprintf("%s (%s, %s)", fmt.Sprintf(format, args...), path, p.conf.Origin(path))
}

func lookAtRetention(_ context.Context, p *checkup) (found []string) {
	p.policies(func(path string, c *config.Policy) {
		if kept := c.DefaultTTL.Duration(); kept < p.window && c.OnExpired != "reject" &&
			(path == "policy" || c.DefaultTTL != p.conf.Policy.DefaultTTL) {
			found = append(found, p.at(path+".default_ttl_s", "results are kept for %s, and clients may retry for %s",
				age.Short(kept), age.Short(p.window)))
		}
	})
	return found
}

func lookAtLimits(_ context.Context, p *checkup) (found []string) {
	if !p.lacksStore() {
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

func lookAtRoutes(_ context.Context, p *checkup) (found []string) {
	for i := range p.conf.Routes {
		r := &p.conf.Routes[i]
		method, _, named := strings.Cut(r.Match, " ")
		changes := !named || slices.Contains(r.Policy.EnabledMethods, method) && method != http.MethodGet &&
			method != http.MethodHead
		if changes && (r.Mode == "off" || r.Mode == "shadow") {
			found = append(found, p.at(fmt.Sprintf("routes[%d].mode", i), "%s is %s", r.Match, r.Mode))
		}
	}
	p.lacksGateway()
	for _, r := range p.routes {
		if r.Unprotected > 0 {
			found = append(found, fmt.Sprintf("%s: %s that change state ran without protection, as the gateway counts",
				cmp.Or(r.Match, "what no route matches"), some(r.Unprotected, "request")))
		}
	}
	return found
}

// lookForOpenDoors looks for settings that let a request run unprotected where it cannot be
// guarded, or has no key. A PUT or DELETE that is sent twice has its effect once, and needs none.
func lookForOpenDoors(_ context.Context, p *checkup) (found []string) {
	unkeyed := func(c *config.Policy, methods ...string) bool {
		return slices.ContainsFunc(methods, func(m string) bool {
			return slices.Contains(c.EnabledMethods, m) && !slices.Contains(c.RequiredMethods, m)
		})
	}
	own := &p.conf.Policy
	p.policies(func(path string, c *config.Policy) {
		if c.FailMode == "open" && (path == "policy" || own.FailMode != "open") {
			found = append(found, p.at(path+".fail_mode", "requests run unprotected while the store does not answer"))
		}
	})
	if unkeyed(own, http.MethodPost, http.MethodPatch) {
		found = append(found, p.at("policy.required_methods", "a POST or PATCH without a key runs unprotected"))
	}
	for i := range p.conf.Routes {
		r, path := &p.conf.Routes[i], fmt.Sprintf("routes[%d]", i)
		methods := []string{http.MethodPost, http.MethodPatch}
		if method, _, named := strings.Cut(r.Match, " "); named {
			methods = slices.DeleteFunc(methods, func(m string) bool { return m != method })
		}
		switch {
		case r.Mode == "optional" && len(methods) > 0:
			found = append(found, p.at(path+".mode", "%s is optional: a request without a key runs unprotected", r.Match))
		case r.Mode == "" && unkeyed(&r.Policy, methods...) && !slices.Equal(r.Policy.RequiredMethods, own.RequiredMethods):
			found = append(found, p.at(path+".policy.required_methods", "%s: a request without a key runs unprotected", r.Match))
		}
	}
	return found
}

func lookAtProxies(_ context.Context, p *checkup) (found []string) {
	for i, s := range p.conf.TrustedProxies {
		if strings.HasSuffix(s, "/0") {
			found = append(found, p.at(fmt.Sprintf("trusted_proxies[%d]", i),
				"%s is everyone: each client makes up its own address in X-Forwarded-For", s))
		}
	}
	return found
}

func lookAtScope(_ context.Context, p *checkup) []string {
	return sentences(ifTrue(p.conf.Unscoped(), "no scope is set: all callers share one bucket of keys"))
}

// lookForDoubleEffects asks the store, which knows those of all gateways. One in memory is in its
// gateway.
func lookForDoubleEffects(ctx context.Context, p *checkup) (found []string) {
	if !p.dsn().Persistent() {
		p.lacksGateway()
		return sentences(doubles(p.status.Double))
	}
	if p.lacksStore() {
		return nil
	}
	pepper, _ := config.ReadSecret(p.conf.Store.PepperFile) // what is wrong with it is found by config check
	e, err := stet.New(p.store.Store, stet.Config{Pepper: pepper})
	if err != nil {
		p.refused(err)
		return nil
	}
	open, err := e.Operator().DoubleEffects(ctx, maxFindings)
	if err != nil {
		p.cannot("the history could not be read: "+oneLine(err), "Look again when the store answers.")
	}
	for i := range open {
		found = append(found, fmt.Sprintf("%s of scope %s was executed twice: %s", cmp.Or(open[i].Tag, e.Tag(open[i].ID)), open[i].ID.Scope, open[i].Note.Evidence))
	}
	return found
}

// maxFindings is how many records one check names.
const maxFindings = 20

func lookAtUnstored(_ context.Context, p *checkup) []string {
	p.lacksGateway()
	return sentences(unstored(p.status.Unstored))
}

// fewBytes is how many different bytes a random token has at least.
const fewBytes = 12

func lookAtTokens(_ context.Context, p *checkup) (found []string) {
	found = sentences(ifTrue(unguarded(&p.conf.Admin) != "",
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
	tokens, err := adminTokens(&p.conf.Admin)
	p.refused(err)
	for _, t := range tokens {
		if !t.Expires.IsZero() && time.Until(t.Expires) < 0 {
			found = append(found, p.at("admin.tokens_file", "the token of %s has expired", t.Name))
		}
	}
	return found
}

// shortPepper is how many bytes it takes that all peppers cannot be tried.
const shortPepper = 16

func lookAtPepper(_ context.Context, p *checkup) []string {
	pepper, err := config.ReadSecret(p.conf.Store.PepperFile)
	p.refused(err)
	return sentences(ifTrue(len(pepper) > 0 && len(pepper) < shortPepper, p.at("store.pepper_file",
		"the pepper has %s, and can be guessed: then an id says which key it is of", plural(len(pepper), "byte"))))
}

// lookAtFiles looks at who may read them. Those that cannot be used are of config check.
func lookAtFiles(_ context.Context, p *checkup) (found []string) {
	broken, _ := errors.AsType[config.Errors](startable(p.conf))
	for _, e := range broken {
		if e.Path != "upstream" {
			p.refused(e)
		}
	}
	for _, warning := range p.conf.Warnings() {
		if warning.Path != "scope" {
			found = append(found, warning.Error())
		}
	}
	return found
}

func lookAtListeners(_ context.Context, p *checkup) (found []string) {
	all := listeners(p.conf)
	for i, a := range all {
		for _, b := range all[:i] {
			if collide(a.at, b.at) {
				found = append(found, p.at(a.path, "%s and %s are one address, and the gateway cannot start", b.path, a.path))
			}
		}
	}
	return found
}

func lookAtUpstream(ctx context.Context, p *checkup) []string {
	if p.conf.Upstream == "" {
		p.cannot("no upstream is set", "Give --upstream URL, and look again.")
		return nil
	}
	return sentences(oneLine(reach(ctx, p.conf.Upstream, listeners(p.conf)...)))
}

// lookAtProbe connects to where the probe asks, and asks nothing: that takes a key.
func lookAtProbe(ctx context.Context, p *checkup) []string {
	c := &p.conf.Reconcile
	switch {
	case c.Probe.URL != "":
		return sentences(oneLine(reach(ctx, c.Probe.URL)))
	case c.Webhook.SecretFile != "":
		return nil // the provider tells
	}
	return []string{p.at("reconcile.probe.url", "no probe is configured: each unknown outcome waits for a person")}
}

// renewIn is how many days before its end a certificate should be another one.
const renewIn = 14

func lookAtCertificate(_ context.Context, p *checkup) (found []string) {
	for path, t := range map[string]*config.TLS{"tls.cert_file": p.conf.TLS, "admin.tls.cert_file": p.conf.Admin.TLS} {
		end, err := current(t)
		left := int(time.Until(end).Hours() / 24)
		switch {
		case err != nil:
			found = append(found, p.at(path, "%s", oneLine(err)))
		case t != nil && left < renewIn:
			found = append(found, p.at(path, "the certificate ends in %s, on %s", plural(left, "day"), instant(end)))
		}
	}
	slices.Sort(found)
	return found
}

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
)

// Probe asks a URL, for an upstream that can say by key whether it has the
// effect.
type Probe struct {
	// URL with {key}, {scope}, {path} (of the request), {downstream_key}, {fence} (see
	// [stet.Head.Fence]) and {life_key} (see [stet.Head.LifeKey]), each filled in percent-encoded;
	// required. If that makes a path segment of dots alone, as a key ".." does, nothing is asked,
	// because it would be another URL. A key may be used again after its retention: where that can
	// be, ask by one of the last three, or look at the headers Stet-Attempt and Stet-Fence, which
	// each probe has as the request had them.
	URL     string
	Method  string      // default GET
	Header  http.Header // sent with each probe, such as an Authorization
	Found   []int       // statuses that mean that it happened; default 200
	Missing []int       // statuses that mean that there is no trace of it; default 404. All others say nothing
	// Status is that of the answer that retries get; 0 means the probe's own. The body and the
	// Content-Type of that answer are the probe's.
	Status  int
	MaxBody int64        // a longer body is not kept, and retries get the status alone; 0 means 1 MiB
	Client  *http.Client // default one that follows no redirects
}

var probeBounds = bounds.For[Probe](
	bounds.Number("Found[]", 200, 599),
	bounds.Number("Missing[]", 200, 599),
	bounds.Number("Status", 200, 599).Or("0 for the probe's own", 0),
	bounds.Number("MaxBody", 1, bounds.Huge).OrDefault(),
)

// direct follows no redirects: an answer from elsewhere is no evidence.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// places are what is filled in, and a brace that nothing closes.
var places = regexp.MustCompile(`\{[^}]*\}?`)

// Validate returns what is wrong with the settings.
func (p Probe) Validate() error {
	if err := probeBounds.Check(&p); err != nil {
		return err
	}
	for _, place := range places.FindAllString(p.URL, -1) {
		name, closed := strings.CutSuffix(place[len("{"):], "}")
		if !closed || !slices.Contains([]string{"key", "scope", "path", "downstream_key", "fence", "life_key"}, name) {
			return fmt.Errorf("the probe's URL has {%s}: it may have {key}, {scope}, {path}, {downstream_key}, {fence} and {life_key}", name)
		}
	}
	u, err := p.fill(&stet.Head{})
	switch {
	case errors.Is(err, errDots):
		return errors.New("the probe's URL has a path with . or .. in it")
	case err != nil:
		return errors.New("the probe's URL cannot be parsed")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("the probe's URL has to begin with http:// or https:// and a host")
	case !slices.ContainsFunc([]string{"{key}", "{downstream_key}", "{fence}", "{life_key}"}, func(name string) bool { return strings.Contains(p.URL, name) }):
		return errors.New("the probe's URL names no request: it needs {key} or {downstream_key}")
	}
	return nil
}

// errDots: dots cannot be percent-encoded so that they mean no path any more (RFC 3986 section
// 6.2.2.2).
var errDots = errors.New("its URL would have a path segment of dots, and so be another URL")

func (p Probe) fill(h *stet.Head) (*url.URL, error) {
	downstream := cmp.Or(h.DownstreamKey, string(h.Key))
	u, err := url.Parse(strings.NewReplacer("{key}", encode(string(h.Key)), "{scope}", encode(string(h.Scope)), "{path}", encode(h.Path),
		"{downstream_key}", encode(downstream), "{fence}", strconv.FormatInt(h.Fence(), 10), "{life_key}", h.LifeKey()).Replace(p.URL))
	if err != nil {
		return nil, errors.New("its URL cannot be asked")
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		segment = strings.NewReplacer("%2e", ".", "%2E", ".").Replace(segment)
		if segment != "" && strings.Trim(segment, ".") == "" {
			return nil, errDots
		}
	}
	return u, nil
}

// encode leaves nothing that has a meaning in a path or in a query.
func encode(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// Resolve is a [Resolver]. An error names no URL: it holds the key.
func (p Probe) Resolve(ctx context.Context, h stet.Head) (Finding, error) {
	if err := probeBounds.Check(&p); err != nil {
		return Finding{}, err
	}
	u, err := p.fill(&h)
	if err != nil {
		return Finding{}, fmt.Errorf("reconcile: probe: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, cmp.Or(p.Method, http.MethodGet), "", nil)
	if err != nil {
		return Finding{}, errors.New("reconcile: probe: its method cannot be used")
	}
	r.URL, r.Host = u, u.Host
	if p.Header != nil {
		r.Header = p.Header.Clone()
	}
	r.Header.Set("Stet-Attempt", strconv.Itoa(h.Attempt))
	r.Header.Set("Stet-Fence", strconv.FormatInt(h.Fence(), 10))
	w, err := cmp.Or(p.Client, direct).Do(r)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return Finding{}, fmt.Errorf("reconcile: probe: %w", err)
	}
	defer func() { _ = w.Body.Close() }()
	evidence := fmt.Sprintf("the probe was answered %d", w.StatusCode)
	switch {
	case listed(p.Found, w.StatusCode, http.StatusOK):
		return p.found(w, evidence)
	case listed(p.Missing, w.StatusCode, http.StatusNotFound):
		return Finding{Effect: Missing, Evidence: evidence, Status: w.StatusCode}, nil
	}
	return Finding{Evidence: evidence, Status: w.StatusCode}, nil
}

func listed(list []int, status, otherwise int) bool {
	return slices.Contains(list, status) || len(list) == 0 && status == otherwise
}

func (p Probe) found(w *http.Response, evidence string) (Finding, error) {
	limit := cmp.Or(p.MaxBody, 1<<20)
	body, err := io.ReadAll(io.LimitReader(w.Body, limit+1))
	if err != nil {
		return Finding{}, fmt.Errorf("reconcile: the probe's answer was cut off: %w", err)
	}
	f := Finding{Effect: Happened, Evidence: evidence, Status: w.StatusCode,
		Response: &stet.Response{Status: cmp.Or(p.Status, w.StatusCode), Body: body}}
	if t := w.Header.Get("Content-Type"); t != "" {
		f.Response.Header = []stet.Field{{Name: "Content-Type", Value: t}}
	}
	if int64(len(body)) > limit {
		f.Kept, f.Response.Body = stet.KeptStatus, nil
	}
	return f, nil
}

package admin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/store/memstore"
)

// conforming compares each answer of h, and the body of each change that is done, with the document
// at /openapi.json.
func conforming(t testing.TB, h http.Handler) http.Handler {
	d := openAPI(t, h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent bytes.Buffer
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &sent), r.Body}
		kept := &kept{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(kept, r)
		for _, fault := range d.faults(r, sent.Bytes(), kept) {
			t.Errorf("%s %s does not fit openapi.json: %s\n%s", r.Method, r.URL.Path, fault, &kept.body)
		}
	})
}

// kept is a response that is looked at afterwards.
type kept struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (k *kept) Unwrap() http.ResponseWriter { return k.ResponseWriter }

func (k *kept) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

func (k *kept) Write(p []byte) (int, error) {
	k.body.Write(p)
	return k.ResponseWriter.Write(p)
}

// object is a JSON object.
type object = map[string]any

// apiDocument is what /openapi.json says.
type apiDocument struct{ root object }

func openAPI(t testing.TB, h http.Handler) *apiDocument {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil))
	d := &apiDocument{}
	if err := json.Unmarshal(w.Body.Bytes(), &d.root); err != nil || d.root["openapi"] != "3.1.0" {
		t.Fatalf("/openapi.json: %d %v %.100s", w.Code, err, w.Body)
	}
	return d
}

// operation finds what is said of a request: the path with the fewest places fits best.
func (d *apiDocument) operation(method, path string) object {
	var best object
	places := math.MaxInt
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for template, item := range d.root["paths"].(object) {
		op, _ := item.(object)[strings.ToLower(method)].(object)
		if n, ok := matches(template, path); ok && op != nil && n < places {
			best, places = op, n
		}
	}
	return best
}

func matches(template, path string) (places int, ok bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return 0, false
	}
	for i := range want {
		switch {
		case strings.HasPrefix(want[i], "{") && got[i] != "":
			places++
		case want[i] != got[i]:
			return 0, false
		}
	}
	return places, true
}

func (d *apiDocument) faults(r *http.Request, sent []byte, k *kept) []string {
	media, op := k.Header().Get("Content-Type"), d.operation(r.Method, r.URL.EscapedPath())
	switch {
	case media == "application/problem+json":
		return d.compare(object{"$ref": "#/components/schemas/Problem"}, k.body.Bytes())
	case k.status >= 300:
		return nil // net/http's own
	case op == nil:
		return []string{"there is no such operation"}
	}
	answer, ok := op["responses"].(object)[fmt.Sprint(k.status)].(object)
	if !ok {
		return []string{fmt.Sprintf("the status %d is not one of its", k.status)}
	}
	content, _ := answer["content"].(object)
	if content == nil {
		if k.body.Len() > 0 {
			return []string{"it has no body"}
		}
		return nil
	}
	var all []string
	if of, ok := content[media].(object); ok {
		all = d.compare(of["schema"], k.body.Bytes())
	} else if !strings.Contains(fmt.Sprint(slices.Sorted(maps.Keys(content))), strings.Split(media, ";")[0]) {
		all = append(all, "it is not of type "+media)
	}
	if body, ok := op["requestBody"].(object); ok && r.URL.Path != "/hooks/reconcile" {
		for _, fault := range d.compare(body["content"].(object)["application/json"].(object)["schema"], sent) {
			all = append(all, "sent: "+fault)
		}
	}
	return all
}

func (d *apiDocument) compare(schema any, doc []byte) []string {
	if schema == nil {
		return nil
	}
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		return []string{err.Error()}
	}
	return d.fit(schema.(object), v, "")
}

// fit says what of v its schema does not allow. A member that the schema does not name is a fault,
// also where clients are to accept any.
func (d *apiDocument) fit(s object, v any, at string) (all []string) {
	if ref, ok := s["$ref"].(string); ok {
		return d.fit(d.root["components"].(object)["schemas"].(object)[strings.TrimPrefix(ref, "#/components/schemas/")].(object), v, at)
	}
	bad := func(what string) { all = append(all, fmt.Sprintf("%s is %v: %s", at, v, what)) }
	if !typed(s["type"], v) {
		bad(fmt.Sprint("not of type ", s["type"]))
		return all
	}
	if words, ok := s["enum"].([]any); ok && !slices.Contains(words, v) {
		bad(fmt.Sprint("none of ", words))
	}
	if s["format"] == "date-time" {
		if _, err := time.Parse(time.RFC3339, fmt.Sprint(v)); err != nil {
			bad("no instant")
		}
	}
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			all = append(all, d.fit(s["items"].(object), e, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case object:
		properties, _ := s["properties"].(object)
		others, _ := s["additionalProperties"].(object)
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				bad(fmt.Sprint("it lacks ", name))
			}
		}
		for name, e := range v {
			of, ok := properties[name].(object)
			switch {
			case ok:
				all = append(all, d.fit(of, e, at+"."+name)...)
			case others != nil:
				all = append(all, d.fit(others, e, at+"."+name)...)
			case properties != nil:
				bad("it has " + name)
			}
		}
	}
	return all
}

// typed reports whether v is of a type of JSON Schema, or of one in a list. nil is any.
func typed(of, v any) bool {
	if list, ok := of.([]any); ok {
		return slices.ContainsFunc(list, func(of any) bool { return typed(of, v) })
	}
	n, number := v.(float64)
	switch of {
	case nil:
		return true
	case "number":
		return number
	case "integer":
		return number && n == math.Trunc(n)
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "object":
		_, ok := v.(object)
		return ok
	}
	return false
}

// The document is one that generators of code read: each reference leads somewhere, each place of a
// path is a parameter, no two operations have the same id. It needs no token.
func TestOpenAPIIsSound(t *testing.T) {
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := openAPI(t, admin.New(e, admin.Config{Tokens: tokens()}))
	seen := map[string]bool{}
	schemas := d.root["components"].(object)["schemas"].(object)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case object:
			if ref, ok := v["$ref"].(string); ok && schemas[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
				t.Errorf("%s leads nowhere", ref)
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(d.root)
	for path, item := range d.root["paths"].(object) {
		for method, op := range item.(object) {
			id := op.(object)["operationId"].(string)
			if seen[id] {
				t.Errorf("two operations are %s", id)
			}
			seen[id] = true
			places := strings.Count(path, "{")
			for _, p := range list(op.(object)["parameters"]) {
				if p.(object)["in"] == "path" {
					places--
					if !strings.Contains(path, "{"+p.(object)["name"].(string)+"}") {
						t.Errorf("%s %s has no place for %v", method, path, p)
					}
				}
			}
			if places != 0 {
				t.Errorf("%s %s: not each place is a parameter", method, path)
			}
		}
	}
	if len(seen) < 25 {
		t.Errorf("there are only %d operations", len(seen))
	}
}

func list(v any) []any { l, _ := v.([]any); return l }

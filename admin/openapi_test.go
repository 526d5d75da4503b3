package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/memstore"
)

var update = flag.Bool("update", false, "write openapi.json")

// endpoint is what the OpenAPI document says of a route beside what its row has.
type endpoint struct {
	about string
	gives any // a value of the document of an action that answers by itself
}

type plainText string // an answer that is not JSON

var endpoints = map[string]endpoint{
	"GET /livez":                            {"Is it alive", plainText("text/plain")},
	"GET /readyz":                           {"Is it ready", plainText("text/plain")},
	"GET /api/v1/keys":                      {about: "List records"},
	"GET " + byKey:                          {about: "Show a record"},
	"DELETE " + byKey:                       {about: "Drop a stored result"},
	"POST " + byKey + "/resolve":            {about: "End an unknown outcome"},
	"POST " + byKey + "/release":            {about: "Say that nothing happened"},
	"POST " + byKey + "/extend":             {about: "Keep a result for longer"},
	"POST " + byKey + "/probe":              {about: "Ask the upstream"},
	"POST " + byKey + "/note":               {about: "Add to the audit trail"},
	"GET /api/v1/whoami":                    {"Who asks, and what they may do", Whoami{}},
	"GET /api/v1/store":                     {about: "Which store the records are in"},
	"POST /api/v1/store/accept":             {about: "Take the store as it is"},
	"GET /api/v1/audit":                     {about: "List audit entries"},
	"POST /api/v1/audit/erase":              {about: "Take out of audit entries whom they are about"},
	"GET /api/v1/bulk":                      {about: "List the latest jobs"},
	"POST /api/v1/bulk":                     {about: "Start a job"},
	"POST /api/v1/bulk/count":               {about: "Count the records of a job"},
	"GET /api/v1/bulk/{job}":                {about: "Show a job"},
	"GET /api/v1/bulk/{job}/report":         {"List the records that a job did not change, a line of JSON each", plainText("application/x-ndjson")},
	"POST /api/v1/bulk/{job}/stop":          {about: "Stop a job where it is"},
	"GET /api/v1/outbox":                    {about: "List messages"},
	"GET /api/v1/outbox/{message}":          {about: "Show a message"},
	"POST /api/v1/outbox/{message}/retry":   {about: "Deliver a message again"},
	"POST /api/v1/outbox/{message}/discard": {about: "Give a message up"},
	"POST /api/v1/outbox/{message}/confirm": {about: "Say that a message was delivered"},
	"POST /hooks/reconcile":                 {"Take a provider's signed notice", plainText("application/json")},
	"GET /metrics":                          {"Metrics for Prometheus", plainText("text/plain")},
	"GET /policy.json":                      {"The rules of the API's keys", policyDoc{}},
	"GET /openapi.json":                     {"This document", map[string]any{}},
	"GET /problems/":                        {"A page for each problem code", plainText("text/html")},
	"GET /api/v1/status":                    {about: "What needs a person, and how the parts are"},
	"GET /api/v1/incidents":                 {about: "List groups of unknown records"},
	"GET /api/v1/incidents/{incident}":      {about: "Show an incident with its records"},
	"GET /api/v1/find":                      {about: "Search by key, id, trace and the names of other systems"},
	"POST " + byKey + "/snooze":             {about: "Take an unknown record out of list and alert for a while"},
	"POST " + byKey + "/hand":               {about: "Hand a record to a name"},
	"GET /api/v1/gateways":                  {about: "List the processes that work on the store"},
	"GET /api/v1/routes":                    {about: "List what the requests of each route were told"},
	"GET /api/v1/config":                    {about: "List the effective configuration"},
}

type schema = map[string]any

func stringOf(about string, more ...any) schema {
	return with(schema{"type": "string", "description": about}, more...)
}

func with(s schema, more ...any) schema {
	for pair := range slices.Chunk(more, 2) {
		s[pair[0].(string)] = pair[1]
	}
	return s
}

// places are what parameters of paths and queries are.
var places = map[string]schema{
	"scope": stringOf("A scope"), "key": stringOf("A key, or a record's id"), "id": stringOf("A record's id", "pattern", "^k_[0-9a-f]{16}$"),
	"job": stringOf("A job's id"), "message": with(schema{"type": "integer", "description": "A message's number"}), "incident": stringOf("An incident's id"),
	"state": stringOf("A state's name"), "route": stringOf("A route's name"), "q": stringOf("A key, or what to search for"), "path": stringOf("A path, as requests had it"),
	"method": stringOf("A method"), "cause": stringOf("Why the record is unknown or free"), "trace": stringOf("A trace's id"),
	"downstream":   stringOf("The name that another system knows the effect by; only scope goes with it"),
	"escalated":    stringOf("Dead letters alone", "enum", []string{"1", "true"}),
	"older_than_s": {"type": "number", "minimum": 0, "description": "Only what is older than this"},
	"sort":         stringOf("The oldest first, not the newest", "enum", []string{"oldest"}),
	"cursor":       stringOf("The next_cursor of the page before"),
	"limit":        {"type": "integer", "minimum": 1, "maximum": stet.MaxLimit, "default": stet.DefaultLimit, "description": "How many are listed at most"},
	"keys":         {"type": "integer", "minimum": 1, "maximum": 500, "default": 500, "description": "How many of its records are shown at most"},
	"reveal":       stringOf("Also the key and what is stored, which the audit trail keeps", "enum", []string{"0", "1"}),
	"reason":       stringOf("Why; the audit trail keeps it"), "if_version": stringOf("Only while the record has this version"),
	"if_basis": stringOf("Only while the record has this basis", "pattern", "^[0-9a-f]{16}$"), "notice": stringOf("The id of the job that asked for it, or a notice's webhook-id"),
	"who": stringOf("A name in the audit trail"), "action": stringOf("What was done"),
	"since": stringOf("Not before this instant", "format", "date-time"), "until": stringOf("Before this instant", "format", "date-time"),
	"dead": stringOf("Dead and unknown messages alone", "enum", []string{"1", "true"}), "topic": stringOf("A topic"),
	"quick": stringOf("Only where an index answers: the records are not walked", "enum", []string{"1"}),
	"span":  stringOf("Of the series", "enum", []string{"hour", "day"}), "with": stringOf("To whom records were handed"),
}

// words are what some types can be.
var words = map[reflect.Type][]string{
	reflect.TypeFor[operate.Action]():   {"release", "resolve", "probe", "snooze", "hand", "delete", "extend"},
	reflect.TypeFor[operate.JobState](): {"running", "completed", "stopped", "interrupted", "newer"},
	reflect.TypeFor[outbox.State]():     operate.OutboxStates,
}

// TestOpenAPI holds openapi.json to the routes and to the types of their documents.
func TestOpenAPI(t *testing.T) {
	g := &openAPI{T: t, schemas: map[string]any{}, comments: commentsOf(t, ".", "../operate", "../outbox"), paths: map[string]map[string]any{}}
	for _, rt := range routes {
		if rt.method == "" {
			continue
		}
		e, ok := endpoints[rt.method+" "+rt.path]
		if !ok {
			t.Errorf("%s %s is in no row of endpoints, in openapi_test.go: add one", rt.method, rt.path)
			continue
		}
		g.add(&rt, rt.path, e)
		if verb, ok := strings.CutPrefix(rt.path, byKey); ok {
			g.add(&rt, byID+verb, e)
		}
	}
	for name := range endpoints {
		method, path, _ := strings.Cut(name, " ")
		if g.paths[path][strings.ToLower(method)] == nil {
			t.Errorf("%s is described, and no route has it", name)
		}
	}
	bearer := schema{"bearer": schema{"type": "http", "scheme": "bearer", "description": "On loopback and through a Unix socket none is needed, if no token is configured."}}
	want, err := json.MarshalIndent(schema{"openapi": "3.1.0",
		"info": schema{"title": "Stet admin API", "version": "v1", "description": "What operators do with records. Errors are problem documents (RFC 9457). Every answer has the header " + Marker + ": 1.",
			"license": schema{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		"security": []any{schema{"bearer": []string{}}}, "paths": g.paths,
		"components": schema{"schemas": g.schemas, "securitySchemes": bearer}}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if want = append(want, '\n'); *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, openAPIDocument) {
		t.Error("openapi.json is not of these routes and types: go test ./admin -run TestOpenAPI -update")
	}
}

// openAPI is the document as it grows.
type openAPI struct {
	*testing.T
	paths    map[string]map[string]any
	schemas  map[string]any
	comments map[string]string // of types, and of fields: package.Type.Field
}

func (g *openAPI) add(rt *route, path string, e endpoint) {
	about := "Takes the role " + rt.role.String() + "."
	if rt.role == anyone {
		about = "Takes no token."
	}
	op := schema{"operationId": operationID(rt.method, path), "summary": e.about, "description": about}
	if rt.role == anyone {
		op["security"] = []any{}
	}
	var params []any
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		params = append(params, g.parameter(m[1], "path"))
	}
	if rt.query != nil {
		for _, f := range reflect.VisibleFields(rt.query) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous {
				params = append(params, g.parameter(name, "query"))
			}
		}
	}
	if params != nil {
		op["parameters"] = params
	}
	switch {
	case rt.body != nil:
		op["requestBody"] = schema{"required": true, "content": schema{"application/json": schema{"schema": g.sent(rt.body)}}}
	case rt.method == http.MethodPost:
		op["requestBody"] = schema{"required": true, "content": schema{"application/json": schema{"schema": schema{"type": "object"}}}}
	}
	answer, status, gives := schema{"description": "Done"}, http.StatusOK, rt.gives
	switch doc := e.gives.(type) {
	case plainText:
		answer["content"] = schema{string(doc): schema{}}
	case nil:
		if gives == reflect.TypeFor[operate.Started]() {
			status = http.StatusAccepted
		}
	default:
		gives = reflect.TypeOf(doc)
	}
	switch {
	case gives != nil:
		answer["content"] = schema{"application/json": schema{"schema": g.of(gives)}}
	case answer["content"] == nil:
		status = http.StatusNoContent
	}
	op["responses"] = schema{fmt.Sprint(status): answer,
		"default": schema{"description": "A problem", "content": schema{"application/problem+json": schema{"schema": g.of(reflect.TypeFor[operate.Problem]())}}}}
	if g.paths[path] == nil {
		g.paths[path] = map[string]any{}
	}
	g.paths[path][strings.ToLower(rt.method)] = op
}

// operationID is for generators of code, which make it the name of a function.
func operationID(method, path string) string {
	id := strings.ToLower(method)
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(strings.TrimPrefix(path, "/api/v1"), -1) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

func (g *openAPI) parameter(name, in string) schema {
	s, ok := places[name]
	if !ok {
		g.Errorf("the parameter %s is not in places, in openapi_test.go", name)
	}
	s = maps.Clone(s)
	p := schema{"name": name, "in": in, "description": s["description"], "schema": s}
	delete(s, "description")
	if in == "path" {
		p["required"] = true
	}
	return p
}

// sent is what a body may be: a member that is not known is refused.
func (g *openAPI) sent(t reflect.Type) schema {
	s := g.of(t)
	if name, ok := strings.CutPrefix(fmt.Sprint(s["$ref"]), "#/components/schemas/"); ok {
		g.schemas[name].(schema)["additionalProperties"] = false
	}
	return s
}

// of is the schema of a type. Structs are components, by their names.
func (g *openAPI) of(t reflect.Type) schema {
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return schema{"type": "string", "contentEncoding": "base64"}
	case t == reflect.TypeFor[operate.Parameters]():
		return g.of(reflect.TypeFor[operate.Filter]())
	case kind == reflect.Pointer:
		return g.of(t.Elem())
	case kind == reflect.Slice:
		return schema{"type": "array", "items": g.of(t.Elem())}
	case kind == reflect.Map:
		return schema{"type": "object", "additionalProperties": g.of(t.Elem())}
	case kind == reflect.Interface:
		return schema{}
	case kind == reflect.String && words[t] != nil:
		return schema{"type": "string", "enum": words[t]}
	case kind == reflect.String:
		return schema{"type": "string"}
	case kind == reflect.Bool:
		return schema{"type": "boolean"}
	case kind == reflect.Float64:
		return schema{"type": "number"}
	case kind >= reflect.Int && kind <= reflect.Uint64:
		return schema{"type": "integer"}
	case kind != reflect.Struct:
		g.Fatalf("%s has no schema", t)
	}
	name := strings.TrimSuffix(strings.ToUpper(t.Name()[:1])+t.Name()[1:], "Doc")
	if _, known := g.schemas[name]; !known {
		s := schema{"type": "object"}
		g.schemas[name] = s // before its members: one may be of its own type
		properties, required := schema{}, []string{}
		g.members(t, properties, &required)
		s["properties"] = properties
		if len(required) > 0 {
			s["required"] = required
		}
		if about := g.comments[t.String()]; about != "" {
			s["description"] = about
		}
	}
	return schema{"$ref": "#/components/schemas/" + name}
}

func (g *openAPI) members(t reflect.Type, into schema, required *[]string) {
	for f := range t.Fields() {
		if f.Anonymous {
			g.members(f.Type, into, required)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		s := g.of(f.Type)
		switch {
		case strings.Contains(options, "string"):
			s = schema{"type": "string", "pattern": "^[0-9]+$"}
		case name == "if_version":
			s = schema{"type": []string{"string", "integer"}}
		}
		if about := g.comments[t.String()+"."+f.Name]; about != "" {
			s["description"] = about
		}
		into[cmp.Or(name, f.Name)] = s
		if !strings.Contains(options, "omit") {
			*required = append(*required, cmp.Or(name, f.Name))
		}
	}
}

// commentsOf reads what is written about types and their fields.
func commentsOf(t *testing.T, dirs ...string) map[string]string {
	all := map[string]string{}
	for _, dir := range dirs {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				decl, ok := n.(*ast.GenDecl)
				if !ok {
					return true
				}
				for _, spec := range decl.Specs {
					typed, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					doc := typed.Doc
					if len(decl.Specs) == 1 {
						doc = decl.Doc
					}
					name := tree.Name.Name + "." + typed.Name.Name
					all[name] = plain(doc)
					if fields, ok := typed.Type.(*ast.StructType); ok {
						for _, f := range fields.Fields.List {
							for _, field := range f.Names {
								all[name+"."+field.Name] = cmp.Or(plain(f.Doc), plain(f.Comment))
							}
						}
					}
				}
				return true
			})
		}
	}
	return all
}

// plain is a comment without the brackets of its links.
func plain(c *ast.CommentGroup) string {
	return regexp.MustCompile(`\[([\w.*]+)\]`).ReplaceAllString(strings.Join(strings.Fields(c.Text()), " "), "$1")
}

// What the document says of queries and bodies is what the handlers read: of a name that is not
// known they say which there are.
func TestOpenAPINamesWhatIsRead(t *testing.T) {
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := New(e, Config{Config: operate.Config{Jobs: operate.NewJobs(), Outbox: noLetters{}}, Policy: func() Policy { return Policy{} }})
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(openAPIDocument, &doc); err != nil {
		t.Fatal(err)
	}
	ask := func(rt route, query, body string) (detail string) {
		r := httptest.NewRequest(rt.method, "http://localhost"+regexp.MustCompile(`\{\w+\}`).ReplaceAllString(rt.path, "1")+query, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var p operate.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil && w.Code >= 300 {
			t.Fatalf("%s %s%s: %d %s", rt.method, rt.path, query, w.Code, w.Body)
		}
		return p.Detail
	}
	list := regexp.MustCompile(`there is no such (?:parameter: |member; there are )(.*)`)
	for _, rt := range routes {
		var want []string
		said := ""
		switch {
		case rt.method == http.MethodPost && rt.role != anyone && (rt.body == nil || rt.body.Kind() != reflect.Struct):
			t.Errorf("%s %s: its body is no struct", rt.method, rt.path)
		case rt.body != nil:
			said = ask(rt, "", `{"qqqqqqqq":1}`)
			for f := range doc.Components.Schemas[rt.body.Name()].Properties {
				want = append(want, f)
			}
		case rt.query != nil && rt.query != reflect.TypeFor[none]():
			said = ask(rt, "?qqqqqqqq=1", "")
			for _, p := range doc.Paths[rt.path][strings.ToLower(rt.method)].Parameters {
				if p.In == "query" {
					want = append(want, p.Name)
				}
			}
		default:
			continue
		}
		m := list.FindStringSubmatch(said)
		if m == nil {
			t.Errorf("%s %s says not which there are: %s", rt.method, rt.path, said)
			continue
		}
		got := slices.Sorted(slices.Values(strings.Split(strings.ReplaceAll(m[1], " and ", ", "), ", ")))
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s %s reads %q, and openapi.json has %q", rt.method, rt.path, got, want)
		}
	}
}

// noLetters is an outbox without messages.
type noLetters struct{ operate.Outbox }

func (noLetters) List(context.Context, outbox.Query) ([]outbox.Stored, error) { return nil, nil }

func (noLetters) Counts(context.Context) (map[outbox.State]int64, error) { return nil, nil }

func (noLetters) Show(context.Context, int64) (outbox.Stored, error) {
	return outbox.Stored{}, stet.ErrNotFound
}

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stet-dev/stet/store/memstore"
)

// message is one of an example, with its line in the document. Those sent and received alternate.
type message struct {
	at    int
	sent  bool
	lines []string
}

// examples are the sections of docs/protocols.md: each has a configuration and a conversation.
func examples(doc string) (names []string, configs map[string]string, talks map[string][]message) {
	configs, talks = map[string]string{}, map[string][]message{}
	section, block, at := "", "", 0
	for line := range strings.Lines(doc) {
		at++
		line = strings.TrimSuffix(line, "\n")
		if title, is := strings.CutPrefix(line, "## "); is {
			section = title
			names = append(names, title)
			continue
		}
		if language, is := strings.CutPrefix(line, "```"); is {
			block = language
			continue
		}
		switch block {
		case "yaml":
			configs[section] += line + "\n"
		case "http":
			sent := line[0] == '>'
			talk := talks[section]
			if len(talk) == 0 || talk[len(talk)-1].sent != sent {
				talk = append(talk, message{at: at, sent: sent})
			}
			last := &talk[len(talk)-1]
			last.lines = append(last.lines, strings.TrimPrefix(line[1:], " "))
			talks[section] = talk
		}
	}
	return names, configs, talks
}

func (m *message) parts() (first string, header http.Header, body string) {
	header = http.Header{}
	for i, line := range m.lines[1:] {
		if line == "" {
			body = strings.Join(m.lines[i+2:], "\n")
			break
		}
		name, value, _ := strings.Cut(line, ": ")
		header.Set(name, value)
	}
	return m.lines[0], header, body
}

// protocols is an API that speaks all of them.
func protocols(effects map[string]int) http.Handler {
	mux := http.NewServeMux()
	did := func(w http.ResponseWriter, r *http.Request, status int) {
		effects[r.URL.Path]++
		w.WriteHeader(status)
	}
	mux.HandleFunc("/reports", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Payment") == "" {
			w.WriteHeader(http.StatusPaymentRequired)
			return
		}
		did(w, r, http.StatusCreated)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Dpop"), "without") {
			w.Header().Set("DPoP-Nonce", "n-1")
			w.Header().Set("Stet-Outcome", "not-executed")
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		did(w, r, http.StatusOK)
	})
	mux.HandleFunc("/orders", func(w http.ResponseWriter, r *http.Request) { did(w, r, http.StatusCreated) })
	mux.HandleFunc("/rpc", func(w http.ResponseWriter, r *http.Request) {
		var call struct{ ID int }
		_ = json.NewDecoder(r.Body).Decode(&call)
		did(w, r, http.StatusOK)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":"paid"}`, call.ID)
	})
	mux.HandleFunc("/graphql", func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Query string }
		if _ = json.NewDecoder(r.Body).Decode(&asked); asked.Query == "" {
			w.Header().Set("Stet-Outcome", "not-executed")
			_, _ = io.WriteString(w, `{"errors":[{"message":"PersistedQueryNotFound"}]}`)
			return
		}
		did(w, r, http.StatusOK)
		_, _ = io.WriteString(w, `{"data":{"pay":"ok"}}`)
	})
	mux.HandleFunc("/files/1", func(w http.ResponseWriter, r *http.Request) { did(w, r, http.StatusNoContent) })
	mux.Handle("/pay", http.RedirectHandler("/pay/", http.StatusPermanentRedirect))
	mux.HandleFunc("/pay/", func(w http.ResponseWriter, r *http.Request) { did(w, r, http.StatusCreated) })
	return mux
}

// Each example of the page is as it says, and each key has one effect (Q02, Q10, Q11, Q12, Q17).
func TestProtocols(t *testing.T) {
	doc, err := os.ReadFile("../../docs/protocols.md")
	if err != nil {
		t.Fatal(err)
	}
	names, configs, talks := examples(string(doc))
	if len(names) < 8 {
		t.Fatalf("there are %d sections", len(names))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			effects := map[string]int{}
			api := httptest.NewServer(protocols(effects))
			defer api.Close()
			h := front(t, memstore.New(memstore.Config{}), api.URL, configs[name])
			keys := map[string]bool{}
			talk := talks[name]
			for i := 0; i+1 < len(talk); i += 2 {
				asked, want := talk[i], talk[i+1]
				if !asked.sent || want.sent {
					t.Fatalf("line %d: a request has to come before its answer", asked.at)
				}
				line, header, body := asked.parts()
				if header.Get("Content-Encoding") == "gzip" {
					var packed bytes.Buffer
					z := gzip.NewWriter(&packed)
					_, _ = io.WriteString(z, body)
					_ = z.Close()
					body = packed.String()
				}
				method, target, _ := strings.Cut(line, " ")
				r := httptest.NewRequest(method, target, strings.NewReader(body))
				r.Header = header
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				status, expected, text := want.parts()
				if code, _, _ := strings.Cut(status, " "); code != strconv.Itoa(w.Code) || text != "" && w.Body.String() != text {
					t.Errorf("line %d: %d, %q", want.at, w.Code, w.Body)
				}
				for field := range expected {
					if w.Header().Get(field) != expected.Get(field) {
						t.Errorf("line %d: %s: %q", want.at, field, w.Header().Get(field))
					}
				}
				if replayed := w.Header().Get("Idempotent-Replayed"); replayed != expected.Get("Idempotent-Replayed") {
					t.Errorf("line %d: replayed: %q", want.at, replayed)
				}
				if w.Code < 300 {
					keys[header.Get("Idempotency-Key")] = true
				}
			}
			done := 0
			for _, n := range effects {
				done += n
			}
			if done != len(keys) || done == 0 {
				t.Errorf("%d effects of %d keys", done, len(keys))
			}
		})
	}
}

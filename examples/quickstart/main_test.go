package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSecondAnswerIsTheFirst(t *testing.T) {
	mux, err := routes()
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(mux)
	defer srv.Close()
	post := func() (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/charges", strings.NewReader(`{"amount": 1099}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", `"a-key-of-yours"`)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	status, first := post()
	again, second := post()
	if status != http.StatusCreated || again != status || second != first {
		t.Fatalf("first %d %q, again %d %q", status, first, again, second)
	}
}

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/memstore"
)

// C14, C16: what is set for the way to the upstream holds there.
func TestUpstreamSettings(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kept := make(chan time.Duration, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				if r, err := http.ReadRequest(in); err == nil && r.Method == http.MethodPut {
					fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
					began := time.Now()
					_, _ = in.ReadByte()
					kept <- time.Since(began)
				}
				_, _ = in.ReadByte() // and there is no answer
			}()
		}
	}()
	defer l.Close()
	upstream := "http://" + l.Addr().String()
	h := front(t, memstore.New(memstore.Config{}), upstream, "upstream_timeout_s: 0.2\n")
	if w := call(h, http.MethodGet, "", ""); w.Code != http.StatusGatewayTimeout {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	h = front(t, memstore.New(memstore.Config{}), upstream, "upstream_idle_timeout_s: 0.1\n")
	if w := call(h, http.MethodPut, "k", ""); w.Code != http.StatusNoContent {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	tier.Took(t, "the end of an idle connection", <-kept, 3*time.Second)
}

// An API that is down is in the status of its gateway, in its metrics and in its log, until it
// answers again. The gateway stays ready.
func TestStatusOfAnAPIThatIsDown(t *testing.T) { // N07
	t.Chdir(t.TempDir())
	addr := freePort(t)
	start := func() (stop func()) {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		srv, done := &http.Server{Handler: http.NotFoundHandler()}, make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		return func() { _ = srv.Close(); <-done }
	}
	gate := serve(t, "--upstream", "http://"+addr)
	series := `idem_upstream_up{instance="` + addr + `",upstream="default"}`
	check := func(ends exit, says string, known bool, up float64) {
		t.Helper()
		status, screen, text := ran(t, "status", "--admin", "http://"+gate.Admin)
		if status != ends || !strings.Contains(screen, says) || strings.Contains(screen, "upstream") != (says != "") {
			t.Fatalf("stet status ends with %d: %s%s", status, text, screen)
		}
		if got, there := gate.metrics(t)[series]; there != known || got != up {
			t.Fatalf("idem_upstream_up is %v, and there: %t", got, there)
		}
	}
	get := func(url string, want int) {
		t.Helper()
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); res.StatusCode != want {
			t.Fatalf("%s: %d %s", url, res.StatusCode, body)
		}
	}
	check(exitFine, "", false, 0) // nothing was tried

	stop := start()
	get("http://"+gate.Listen, http.StatusNotFound)
	check(exitFine, "", true, 1)

	stop()
	for range 3 {
		get("http://"+gate.Listen, http.StatusBadGateway)
	}
	check(exitFindings, addr+": no connection to it has come about since 2", true, 0)
	get("http://"+gate.Admin+"/readyz", http.StatusOK)
	if _, _, text := ran(t, "status", "--admin", "http://"+gate.Admin); !strings.Contains(text, "to be looked at: the API "+addr+": no connection") {
		t.Error(text)
	}

	defer start()()
	get("http://"+gate.Listen, http.StatusNotFound)
	check(exitFine, "", true, 1)
	if log := gate.stderr.text(); strings.Count(log, "the upstream cannot be connected to") != 1 || strings.Count(log, "the upstream answers again") != 1 {
		t.Error(log)
	}
}

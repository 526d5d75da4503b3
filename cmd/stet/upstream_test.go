package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
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

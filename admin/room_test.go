package admin_test

import (
	"context"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/store/memstore"
)

// holding is a store that reads large bodies when it may.
type holding struct {
	stet.Store
	reads chan struct{} // one for each that is being read
	goOn  chan struct{}
}

func (s *holding) Unwrap() stet.Store { return s.Store }

func (s *holding) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if stet.MaxBody(ctx) > stet.SmallBody {
		s.reads <- struct{}{}
		<-s.goOn
	}
	return s.Store.Get(ctx, id)
}

// Large answers that operators look at have a bound of their own.
func TestLargeAnswersAreShownWhenThereIsRoom(t *testing.T) { // C11
	s := &holding{memstore.New(memstore.Config{}), make(chan struct{}, 10), make(chan struct{})}
	d := newDesk(t, admin.Config{}, s)
	made, err := d.engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "k"}})
	if err == nil {
		err = made.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201, Body: make([]byte, 20<<20)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan int, 1)
	go func() {
		res, _ := d.get("/api/v1/keys/s/k?reveal=1")
		first <- res.StatusCode
	}()
	<-s.reads
	d.refused("/api/v1/keys/s/k?reveal=1", 429, "rate-limited")
	if res, _ := d.get("/api/v1/keys/s/k"); res.Header.Get("Retry-After") != "1" {
		t.Errorf("%d without Retry-After", res.StatusCode)
	}
	close(s.goOn)
	if status := <-first; status != 200 {
		t.Errorf("the first: %d", status)
	}
	if res, body := d.get("/api/v1/keys/s/k?reveal=1"); res.StatusCode != 200 || len(body) < 20<<20 {
		t.Errorf("then: %d, %d bytes", res.StatusCode, len(body))
	}
}

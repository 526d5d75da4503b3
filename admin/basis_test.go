package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// touched is a store where others write once, after a record was read.
type touched struct {
	*memstore.Store
	next func()
}

func (s *touched) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	r, err := s.Store.Get(ctx, id)
	if do := s.next; do != nil {
		s.next = nil
		do()
	}
	return r, err
}

// A decision stands while probes go on, also one that writes while the change is made, and not
// where what it rests on is another.
func TestEveryChangeHonoursIfBasis(t *testing.T) {
	s := &touched{Store: memstore.New(memstore.Config{})}
	e := must(stet.New(s, stet.Config{Pepper: []byte("pepper")}))
	w := &ward{T: t, engine: e, Handler: admin.New(e, admin.Config{Config: operate.Config{Settle: stet.Never}})}
	for i, c := range [][2]string{
		{"resolve", `"reason":"x","outcome":"completed","status":200`},
		{"release", `"reason":"x"`},
		{"note", `"reason":"x"`},
		{"snooze", `"reason":"x","for_s":60`},
		{"hand", `"to":"ben"`},
	} {
		id := w.unknown("s", fmt.Sprint("k", i), "", "timeout").ID()
		path := "/api/v1/keys/" + e.Tag(id)
		at := fmt.Sprintf(`{%s,"if_basis":%q}`, c[1], w.head(id).Basis())
		probe := func() { w.probed(id, time.Hour) }
		probe()
		s.next = probe
		w.ask("POST", path+"/"+c[0], at, 200, nil)
		if s.next != nil || w.head(id).Probes != 2 {
			t.Errorf("%s: no probe came between", c[0])
		}
		id = w.unknown("s", fmt.Sprint("other", i), "", "timeout").ID()
		for _, other := range []string{`"0123456789abcdef"`, fmt.Sprintf(`"0123456789abcdef","if_version":"%d"`, w.head(id).Version)} {
			w.ask("POST", "/api/v1/keys/"+e.Tag(id)+"/"+c[0], fmt.Sprintf(`{%s,"if_basis":%s}`, c[1], other), 409, nil)
		}
		for _, none := range []string{`""`, `"x"`, `1`, `null`} {
			w.ask("POST", "/api/v1/keys/"+e.Tag(id)+"/"+c[0], fmt.Sprintf(`{%s,"if_basis":%s}`, c[1], none), 400, nil)
		}
	}
	done := w.unknown("s", "done", "", "timeout").ID()
	path := "/api/v1/keys/" + e.Tag(done)
	w.ask("POST", path+"/resolve", `{"reason":"x","outcome":"completed","status":200}`, 200, nil)
	basis := w.head(done).Basis()
	w.ask("POST", path+"/probe", fmt.Sprintf(`{"if_basis":%q}`, basis), 409, nil) // there is no probe
	w.ask("POST", path+"/extend", fmt.Sprintf(`{"reason":"x","seconds":1e8,"if_basis":%q}`, basis), 200, nil)
	w.ask("DELETE", path+"?reason=x&if_basis=", "", 400, nil)
	w.ask("DELETE", path+"?reason=x&if_basis="+basis, "", 409, nil)
	w.ask("DELETE", path+"?reason=x&if_basis="+w.head(done).Basis(), "", 204, nil)
}

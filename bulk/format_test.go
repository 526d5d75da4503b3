package bulk_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/store/memstore"
)

// A job that another version has written, with a format, a member or an action that this one does
// not know, is left as it is: what is not known may say which records are spared. A job from before
// there were formats goes on.
func TestAJobOfANewerVersionIsLeftAlone(t *testing.T) { // K13
	for name, c := range map[string]struct {
		old, new string
		runs     bool
	}{
		"without a format":        {`"Format":1,`, ``, true},
		"a newer format":          {`"Format":1,`, `"Format":2,`, false},
		"a member of the job":     {`"Format":1,`, `"Format":1,"Sample":2,`, false},
		"a member of the order":   {`"Action":"delete"`, `"Action":"delete","Except":["key-00003"]`, false},
		"a member, and no format": {`"Format":1,`, `"Sample":2,`, false},
		"a member of the query":   {`"Action":"delete","Query":{`, `"Action":"delete","Query":{"Tenant":"t2",`, false},
		"an action":               {`"Action":"delete"`, `"Action":"archive"`, false},
		"no action":               {`"Action":"delete"`, `"Action":""`, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New(memstore.Config{})
				d := newDesk(t, s)
				const n = 20
				d.completed(0, n)
				job := d.start(bulk.Order{Action: bulk.Delete, Query: results, Expect: n})
				key := stet.ID{Scope: stet.OwnScope, Key: stet.Key(job.ID)}
				r, err := s.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				doc := strings.Replace(string(r.Request), c.old, c.new, 1)
				if doc == string(r.Request) {
					t.Fatalf("nothing to replace in %s", doc)
				}
				h := r.Head
				h.Version++
				if h, err = s.Replace(t.Context(), r.Version, h, &stet.Body{Request: []byte(doc)}); err != nil {
					t.Fatal(err)
				}
				ctx, end := context.WithCancel(t.Context())
				var loop sync.WaitGroup
				loop.Go(func() { _ = d.jobs.Run(ctx) })
				time.Sleep(10 * time.Minute)
				end()
				loop.Wait()
				if c.runs {
					d.is(job.ID, bulk.Completed, n, 0, 0)
					return
				}
				if err := d.jobs.Work(t.Context(), job.ID); !errors.Is(err, bulk.ErrNewer) {
					t.Errorf("Work says %v", err)
				}
				for i := range n {
					if d.state(i) != stet.Completed {
						t.Fatalf("record %d was changed", i)
					}
				}
				now, err := s.Get(t.Context(), key)
				if err != nil || now.Version != h.Version {
					t.Errorf("the job was written to: %v", err)
				}
				if got := d.get(job.ID); got.State != bulk.Newer || got.ID != job.ID || got.CreatedAt.IsZero() {
					t.Errorf("it is shown as %+v", got)
				}
				if all, err := d.jobs.Recent(t.Context()); err != nil || len(all) != 1 || all[0].State != bulk.Newer {
					t.Errorf("recent are %+v, %v", all, err)
				}
				if _, err := d.jobs.Stop(t.Context(), job.ID, why); !errors.Is(err, stet.ErrState) || !strings.Contains(err.Error(), "newer") {
					t.Errorf("Stop says %v", err)
				}
			})
		})
	}
}

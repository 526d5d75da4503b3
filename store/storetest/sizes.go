package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stet-dev/stet"
)

var sizeLaws = []law{
	{"sizes", "a record that is as large as the store says that it takes is stored", asLarge},
	{"too large",
		"a record that is larger than the store takes is refused with ErrRefused and changes nothing; what others write meanwhile is stored",
		tooLarge},
}

// largestBody is the largest body that a test writes.
const largestBody = 64 << 20

// sizes are what the store says that it takes. Bodies that are too large for a test have no bound.
func (x *bench) sizes() stet.Sizes {
	s, ok := stet.As[stet.Sizer](x.store)
	if !ok {
		x.t.Skip("the store tells no sizes")
	}
	z := s.Sizes()
	if z.Body > largestBody {
		z.Body = 0
	}
	return z
}

// text is a name that no index makes shorter.
func text(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x", rand.Uint64())
	}
	return b.String()[:n]
}

// noise is a body that nothing makes shorter.
func noise(n int64) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func asLarge(t testing.TB, x *bench) { // K08, K18
	z := x.sizes()
	var ids []stet.ID
	if z.Scope > 0 || z.Key > 0 {
		ids = append(ids, stet.ID{Scope: stet.Scope(text(max(z.Scope, 1))), Key: stet.Key(text(max(z.Key, 1)))})
	}
	if z.Names > 0 {
		ids = append(ids, stet.ID{Scope: stet.Scope(text(z.Names / 2)), Key: stet.Key(text(z.Names - z.Names/2))})
	}
	for _, id := range append(ids, running("k").ID) {
		r := running("")
		r.ID = id
		made := x.create(r)
		body := &stet.Body{Response: &stet.Response{Status: 201, Body: noise(z.Body)}}
		x.replace(made.Head, body, func(h *stet.Head) {
			completed(h)
			h.Note = &stet.Note{Who: "w", Why: "its entry has the names, too"}
		})
		if got := x.get(id); got.Response == nil || !bytes.Equal(got.Response.Body, body.Response.Body) {
			t.Errorf("with names of %d and %d bytes and a body of %d bytes another one comes back", len(id.Scope), len(id.Key), z.Body)
		}
	}
}

func tooLarge(t testing.TB, x *bench) { // K08
	z := x.sizes()
	spoil := map[string]func(r *stet.Record){}
	if n := z.Key; n > 0 {
		spoil["key"] = func(r *stet.Record) { r.Key = stet.Key(text(2 * n)) }
	}
	if n := z.Scope; n > 0 {
		spoil["scope"] = func(r *stet.Record) { r.Scope = stet.Scope(text(2 * n)) }
	}
	if n := z.Names; n > 0 {
		spoil["names"] = func(r *stet.Record) { r.Key = stet.Key(text(2 * n)) }
	}
	if n := z.Body; n > 0 {
		spoil["body"] = func(r *stet.Record) { r.Request = noise(2 * n) }
	}
	if len(spoil) == 0 {
		t.Skip("the store takes what a test can write")
	}
	made := x.create(running("made"))
	for what, how := range spoil {
		r := running("large")
		how(&r)
		x.besides(what, func() {
			if _, err := x.store.Create(x.ctx, r); !errors.Is(err, stet.ErrRefused) {
				t.Errorf("Create with a %s that is too large: %v, want ErrRefused", what, err)
			}
			if r.Request == nil {
				return
			}
			h := made.Head
			h.Version = draw()
			if _, err := x.store.Replace(x.ctx, made.Version, h, &r.Body); !errors.Is(err, stet.ErrRefused) {
				t.Errorf("Replace with a %s that is too large: %v, want ErrRefused", what, err)
			}
		})
		if _, err := x.store.Get(x.ctx, r.ID); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("after a %s that is too large, Get: %v, want ErrNotFound", what, err)
		}
	}
	if got := x.get(made.ID); got.Version != made.Version {
		t.Error("what was refused has replaced a record")
	}
}

// besides calls refused, several times, while others write.
func (x *bench) besides(what string, refused func()) {
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(refused)
	}
	for i := range 32 {
		wg.Go(func() {
			made, err := x.store.Create(x.ctx, running(fmt.Sprint("beside-", what, i)))
			if err != nil {
				x.t.Errorf("Create beside a %s that is too large: %v", what, err)
				return
			}
			h := made.Head
			h.Version = draw()
			completed(&h)
			if _, err := x.store.Replace(x.ctx, made.Version, h, &stet.Body{Response: &stet.Response{Status: 201}}); err != nil {
				x.t.Errorf("Replace beside a %s that is too large: %v", what, err)
			}
		})
	}
	wg.Wait()
}

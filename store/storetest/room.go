package storetest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

var roomLaws = []law{
	{"room",
		"a body that takes more memory than the context has room for is left, by Get and by Create, which say how much it takes; with room for that it is whole",
		room},
	{"room bound", "so it is within a transaction", roomBound},
}

// large are bodies with what is large in one place, and in all of them.
func large() map[string]stet.Body {
	const n = 3 * stet.SmallBody
	answer := func(body []byte) *stet.Response {
		return &stet.Response{Status: 201, Header: []stet.Field{{Name: "Content-Type", Value: "text/plain"}}, Body: body}
	}
	return map[string]stet.Body{
		"noise":    {Response: answer(noise(n))},
		"zeros":    {Response: answer(make([]byte, n))},
		"half":     {Response: answer(append(make([]byte, n), noise(n)...))},
		"header":   {Response: &stet.Response{Status: 201, Header: []stet.Field{{Name: "X-Large", Value: string(bytes.Repeat([]byte("x"), n))}}}},
		"request":  {Request: noise(n)},
		"progress": {Response: answer([]byte("short")), Progress: noise(n + 1)},
		"all":      {Response: answer(noise(n + 2)), Request: noise(n), Progress: noise(n + 1)},
	}
}

func room(t testing.TB, x *bench) { // C11
	for key, b := range large() {
		r := running(key)
		made := x.create(r)
		x.replace(made.Head, &b, completed)
		x.fits(r, b)
	}
	small := running("small")
	small.Body = stet.Body{Response: &stet.Response{Status: 201, Header: []stet.Field{{Name: "A", Value: "b"}}, Body: []byte("short")}, Request: []byte("r")}
	x.create(small)
	for op, look := range x.looks(small) {
		if got := look(stet.WithMaxBody(x.ctx, stet.SmallBody)); got.Left != 0 {
			t.Errorf("%s: a small body is left: %+v", op, got.Body)
		} else {
			x.shows(op, got, got.Head, small.Body)
		}
	}
}

func roomBound(t testing.TB, x *bench) { // C11
	_ = ability[stet.Binder](t, x)
	r := running("outside")
	b := large()["all"]
	x.replace(x.create(r).Head, &b, completed)
	tx := x.begin()
	tx.fits(r, b)
	mine := running("inside")
	mine.Body = b
	tx.create(mine)
	tx.fits(mine, b)
}

// looks are the ways to look at a record.
func (x *bench) looks(r stet.Record) map[string]func(ctx context.Context) stet.Record {
	return map[string]func(ctx context.Context) stet.Record{
		"Get": func(ctx context.Context) stet.Record {
			got, err := x.store.Get(ctx, r.ID)
			if err != nil {
				x.t.Fatalf("Get of %s: %v", r.Key, err)
			}
			return got
		},
		"Create": func(ctx context.Context) stet.Record {
			again := running(string(r.Key))
			got, err := x.store.Create(ctx, again)
			if !errors.Is(err, stet.ErrExists) {
				x.t.Fatalf("Create of %s: %v", r.Key, err)
			}
			return got
		},
	}
}

// fits checks that a large body is left, whatever room there is, until there is enough.
func (x *bench) fits(r stet.Record, want stet.Body) {
	x.t.Helper()
	size := bodyBytes(&want)
	for op, look := range x.looks(r) {
		if got := look(stet.WithMaxBody(x.ctx, 1000)); got.Left <= 1000 { // before it was read whole
			x.t.Errorf("%s of %s with room for 1000: %d bytes are said to be left, and it has %d", op, r.Key, got.Left, size)
		}
		whole := look(x.ctx)
		x.shows(op, whole, whole.Head, want)
		for _, most := range []int64{0, 1, 1000, stet.SmallBody, size / 2, size - 1} {
			got := look(stet.WithMaxBody(x.ctx, most))
			x.shows(op, got, whole.Head, stet.Body{})
			if got.Left <= most || got.Left > 2*size+stet.SmallBody {
				x.t.Errorf("%s of %s with room for %d: %d bytes are said to be left, and it has %d", op, r.Key, most, got.Left, size)
			}
		}
		most := int64(stet.SmallBody)
		got := look(stet.WithMaxBody(x.ctx, most))
		for tries := 0; got.Left > most && tries < 3; tries++ { // what is compressed may tell its size only when it is looked at
			most = got.Left
			got = look(stet.WithMaxBody(x.ctx, most))
		}
		if x.shows(op, got, whole.Head, want); most < size {
			x.t.Errorf("%s of %s: it is read with room for %d bytes, and has %d", op, r.Key, most, size)
		}
	}
}

// shows compares a record with what it has to be, and does not print large bodies.
func (x *bench) shows(op string, got stet.Record, h stet.Head, b stet.Body) {
	x.t.Helper()
	h.AsOf = got.AsOf
	sameRecord(x.t, stet.Record{Head: got.Head}, stet.Record{Head: h})
	if !bytes.Equal(codec.AppendBody(nil, &got.Body), codec.AppendBody(nil, &b)) {
		x.t.Errorf("%s of %s: a body with %d bytes is shown as another one with %d", op, h.Key, bodyBytes(&b), bodyBytes(&got.Body))
	}
}

// bodyBytes is what b holds.
func bodyBytes(b *stet.Body) int64 {
	n := len(b.Request) + len(b.Progress)
	if b.Response != nil {
		n += len(b.Response.Body)
		for _, f := range b.Response.Header {
			n += len(f.Name) + len(f.Value)
		}
	}
	return int64(n)
}

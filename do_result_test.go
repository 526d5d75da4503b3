package stet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

type chargeResult struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

// refundResult has the members of a charge: its JSON tells nothing.
type refundResult struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

type base struct{ ID string }

// allowed has what makes its way through JSON, or was said not to.
type allowed struct {
	base
	Charge  *chargeResult
	At      time.Time
	Big     *big.Int
	Raw     json.RawMessage
	Any     any
	Bytes   []byte
	Counts  map[int]float64
	Next    *allowed
	Skipped func() `json:"-"`
	//lint:ignore U1000 it has no bytes that could be lost
	hidden struct{}
	//lint:ignore U1000 it is said to be no part of the result
	cache int `json:"-"`
	_     int
}

type hides struct {
	ID string
	//lint:ignore U1000 it would be lost
	amount int
}

type oneWay int

func (oneWay) MarshalJSON() ([]byte, error) { return []byte(`"paid"`), nil }

// asymmetric reads something else than it writes.
type asymmetric struct{}

func (asymmetric) MarshalJSON() ([]byte, error)  { return []byte(`"x"`), nil }
func (*asymmetric) UnmarshalJSON(b []byte) error { return fmt.Errorf("cannot read %d bytes", len(b)) }

// twice runs Do twice with one key, and returns both results.
func twice[T any](h *house, key string, result T) (first, second stet.Result[T], errs [2]error, runs int) {
	run := func(context.Context, *stet.Claim) (T, error) { runs++; return result, nil }
	first, errs[0] = stet.DoResult(h.t.Context(), h.Engine, request(key), run)
	second, errs[1] = stet.DoResult(h.t.Context(), h.Engine, request(key), run)
	return first, second, errs, runs
}

func same[T any](h *house, name string, result, want T) {
	h.t.Helper()
	first, second, errs, runs := twice(h, name, result)
	if errs != [2]error{} || runs != 1 {
		h.t.Errorf("%s: %v, %d runs", name, errs, runs)
	}
	if !reflect.DeepEqual(first.Value, second.Value) || !reflect.DeepEqual(first.Value, want) {
		h.t.Errorf("%s: first %#v, then %#v; want %#v", name, first.Value, second.Value, want)
	}
}

// The first caller gets what the later ones get, whatever JSON makes of it.
func TestDoReturnsWhatIsReplayed(t *testing.T) { // K09
	bubble(t, stet.Config{}, func(h *house) {
		same[any](h, "a large number", int64(9007199254740993), json.Number("9007199254740993"))
		same(h, "in a map", map[string]any{"n": uint64(math.MaxUint64)}, map[string]any{"n": json.Number("18446744073709551615")})
		same[any](h, "a struct in any", chargeResult{"ch_1", 7}, map[string]any{"id": "ch_1", "amount": json.Number("7")})
		same(h, "a time", time.Now(), time.Now().UTC().Round(0))
		same(h, "nothing", (*chargeResult)(nil), nil)
		same(h, "bytes that are no text", []byte("\xff\xfe"), []byte("\xff\xfe"))
		same(h, "the replacement character", "a\ufffd", "a\ufffd")
		same(h, "JSON of others", json.RawMessage(`{"a":"\ufffd"}`), json.RawMessage(`{"a":"\ufffd"}`))
		same(h, "a pointer's method", map[string]*big.Int{"n": big.NewInt(7)}, map[string]*big.Int{"n": big.NewInt(7)})
		same(h, "said not to be a part", allowed{Skipped: func() {}, cache: 7}, allowed{Raw: json.RawMessage("null")})
	})
}

// A type of which something would be lost, or whose replays would fail, is refused before the
// effect, and leaves no record.
func TestDoRefusesWhatCannotBeReplayed(t *testing.T) { // K09
	bubble(t, stet.Config{}, func(h *house) {
		refused[error](h, "an interface")
		refused[fmt.Stringer](h, "an interface")
		refused[map[string]error](h, "an interface")
		refused[chan int](h, "chan")
		refused[func()](h, "func")
		refused[complex128](h, "complex128")
		refused[hides](h, "hides.amount")
		refused[[]*hides](h, "[].amount")
		refused[struct{ A struct{ B func() } }](h, "A.B")
		refused[struct{ *base }](h, "base")
		refused[oneWay](h, "MarshalJSON")
		refused[map[string]big.Int](h, "MarshalJSON") // its method is its pointer's, which a map's value has not
		refused[map[float64]int](h, "float64")
		refused[struct{ U strings.Builder }](h, "U.addr is not exported")
	})
}

func refused[T any](h *house, says string) {
	h.t.Helper()
	q := request("refused")
	_, err := stet.Do(h.t.Context(), h.Engine, q, func(context.Context, *stet.Claim) (none T, err error) {
		h.t.Errorf("%s: it was run", reflect.TypeFor[T]())
		return none, nil
	})
	if err == nil || !strings.Contains(err.Error(), says) {
		h.t.Errorf("%s: %v, which does not say %q", reflect.TypeFor[T](), err, says)
	}
	if _, err := h.Get(h.t.Context(), q.ID); !errors.Is(err, stet.ErrNotFound) {
		h.t.Errorf("%s left a record: %v", reflect.TypeFor[T](), err)
	}
}

// A result that turns out not to be storable is of an effect that has happened: the record says
// that it is done, no retry runs, and the first caller has its result with the error.
func TestAResultThatCannotBeStoredIsDone(t *testing.T) { // K09
	bubble(t, stet.Config{}, func(h *house) {
		unstorable(h, "NaN", math.NaN())
		unstorable(h, "an infinity in any", map[string]any{"n": math.Inf(1)})
		unstorable[any](h, "a func in any", func() {})
		unstorable(h, "no UTF-8", "caf\xe9")
		unstorable(h, "no UTF-8 in a field", &chargeResult{ID: "caf\xe9"})
		unstorable(h, "no UTF-8 in a name", map[string]any{"caf\xe9": 1})
		unstorable[any](h, "no UTF-8 in any", []any{map[string]string{"a": "caf\xe9"}})
		unstorable(h, "no way back", asymmetric{})
	})
}

func unstorable[T any](h *house, name string, result T) {
	h.t.Helper()
	first, second, errs, runs := twice(h, name, result)
	if runs != 1 || second.Replayed {
		h.t.Errorf("%s: %d runs, %+v", name, runs, second)
	}
	for _, err := range errs {
		if !errors.Is(err, stet.ErrNoResult) || strings.Contains(err.Error(), "caf") {
			h.t.Errorf("%s: %v", name, err)
		}
	}
	if refused, ok := errors.AsType[*stet.Refused](errs[1]); !ok || refused.Verdict != stet.Replay {
		h.t.Errorf("%s, again: %v", name, errs[1])
	}
	if fmt.Sprintf("%v", first.Value) != fmt.Sprintf("%v", result) || first.Replayed {
		h.t.Errorf("%s: the first caller got %v", name, first)
	}
	if r := h.record(name); r.State != stet.Completed || r.Kept != stet.KeptStatus || r.Response != nil {
		h.t.Errorf("%s: %s, %d, %+v", name, r.State, r.Kept, r.Response)
	}
}

// One key is one operation's, whatever state its record is in.
func TestAKeyIsOneOperations(t *testing.T) { // K09
	mismatched := func(h *house, key, operation string) {
		h.t.Helper()
		q := request(key)
		q.Operation = operation
		v, err := stet.Do(h.t.Context(), h.Engine, q, func(context.Context, *stet.Claim) (refundResult, error) {
			h.t.Errorf("%s: the refund was run", key)
			return refundResult{}, nil
		})
		refused, _ := errors.AsType[*stet.Refused](err)
		if refused == nil || refused.Verdict != stet.Mismatch || !slices.Equal(refused.Mismatch, []string{"operation"}) || v != (refundResult{}) {
			h.t.Errorf("%s as %q: %+v, %v", key, operation, v, err)
		}
	}
	bubble(t, stet.Config{}, func(h *house) {
		charging := func(key string, then func(c *stet.Claim) error) {
			_, _ = stet.Do(h.t.Context(), h.Engine, request(key), func(_ context.Context, c *stet.Claim) (chargeResult, error) {
				return chargeResult{"ch_1", 7}, then(c)
			})
		}
		charging("done", func(*stet.Claim) error { return nil })
		mismatched(h, "done", "")
		mismatched(h, "done", "refund")
		charging("free", func(c *stet.Claim) error { c.NotExecuted("declined"); return errDeclined })
		mismatched(h, "free", "")
		charging("unknown", func(*stet.Claim) error { return errDeclined })
		mismatched(h, "unknown", "")
		charging("running", func(*stet.Claim) error { mismatched(h, "running", ""); return nil })
	})
	bubble(t, stet.Config{}, func(h *house) { // types that say nothing are told by the name that is given
		q := request("k")
		q.Operation = "charge"
		run := func(context.Context, *stet.Claim) (string, error) { return "ch_1", nil }
		if _, err := stet.Do(h.t.Context(), h.Engine, q, run); err != nil {
			h.t.Fatal(err)
		}
		mismatched(h, "k", "refund")
		if got, err := stet.Do(h.t.Context(), h.Engine, q, run); got != "ch_1" || err != nil {
			h.t.Errorf("%q, %v", got, err)
		}
		q.Operation = strings.Repeat("x", stet.MaxOperation+1)
		if _, err := stet.Do(h.t.Context(), h.Engine, q, run); err == nil {
			h.t.Error("a name without end")
		}
	})
}

// A request that waits is told when the key has become another operation's meanwhile.
func TestAWaiterIsOfItsOperation(t *testing.T) { // K09
	bubble(t, stet.Config{}, func(h *house) {
		q := request("k")
		q.Operation = "charge"
		h.begin(q, stet.Execute)
		waited := make(chan stet.Decision)
		go func() {
			q.Wait = 30 * time.Second
			d, _ := h.Begin(h.t.Context(), q)
			waited <- d
		}()
		after(time.Second)
		r := h.record("k")
		prev := r.Version
		r.Version, r.State, r.Status, r.DueIn, r.Head.Meta = prev^2, stet.Completed, 200, time.Hour, map[string]string{" operation": "refund"}
		if _, err := h.store.Replace(h.t.Context(), prev, r.Head, &stet.Body{Response: &stet.Response{Status: 200}}); err != nil {
			h.t.Fatal(err)
		}
		if d := <-waited; d.Verdict != stet.Mismatch || !slices.Equal(d.Mismatch, []string{"operation"}) {
			h.t.Errorf("%s, %q", d.Verdict, d.Mismatch)
		}
	})
}

// An operation outlives a request that takes the key over by hand, and names none.
func TestAnOperationStays(t *testing.T) { // K09
	bubble(t, stet.Config{}, func(h *house) {
		q := request("k")
		q.Operation = "charge"
		d := h.begin(q, stet.Execute)
		d.Claim.NotExecuted("declined")
		h.settle(d.Claim)
		h.settle(h.begin(request("k"), stet.Execute).Claim)
		q.Operation = "refund"
		h.begin(q, stet.Mismatch)
	})
}

// What a former version stored has no operation: it is replayed to those who can read all of it.
func TestDoReplaysFormerResults(t *testing.T) { // K09
	bubble(t, stet.Config{}, func(h *house) {
		d := h.begin(request("k"), stet.Execute) // as Do did: without a name, and with the JSON of the result
		if err := d.Claim.Settle(h.t.Context(), stet.Outcome{Response: stet.Response{Status: 200, Body: []byte(`{"id":"ch_1","amount":7}`)}}); err != nil {
			h.t.Fatal(err)
		}
		never := func(context.Context, *stet.Claim) (chargeResult, error) { panic("it was run again") }
		if got, err := stet.DoResult(h.t.Context(), h.Engine, request("k"), never); err != nil || !got.Replayed || got.Value != (chargeResult{"ch_1", 7}) {
			h.t.Errorf("%+v, %v", got, err)
		}
		type receipt struct {
			ID string `json:"id"`
		}
		got, err := stet.DoResult(h.t.Context(), h.Engine, request("k"), func(context.Context, *stet.Claim) (receipt, error) { panic("it was run again") })
		if err == nil || got.Value != (receipt{}) || strings.Contains(err.Error(), "ch_1") {
			h.t.Errorf("a result of which a part would be lost: %+v, %v", got, err)
		}
	})
}

// A run that takes longer than its result is kept leaves one that can be asked for: stored in time,
// or when the store is back.
func TestARunLongerThanItsRetention(t *testing.T) { // K18, X04
	policy := stet.Policy{Execution: stet.Never, Rules: stet.Rules{Retain: time.Hour, FromCreation: true}}
	for name, away := range map[string]bool{"in time": false, "the store was away": true} {
		bubble(t, stet.Config{Policy: policy}, func(h *house) {
			runs := 0
			run := func(context.Context, *stet.Claim) (string, error) {
				after(2 * time.Hour)
				if runs++; away {
					h.store.Down()
				}
				return "paid", nil
			}
			if _, err := stet.Do(h.t.Context(), h.Engine, request("k"), run); (err != nil) != away {
				h.t.Errorf("%s: %v", name, err)
			}
			after(10 * time.Second)
			h.store.Up()
			after(10 * time.Second)
			if r := h.record("k"); r.State != stet.Completed || r.DueAt.Sub(r.CompletedAt) != 15*time.Minute {
				h.t.Errorf("%s: %s, kept for %s", name, r.State, r.DueAt.Sub(r.CompletedAt))
			}
			if got, err := stet.Do(h.t.Context(), h.Engine, request("k"), run); got != "paid" || err != nil || runs != 1 {
				h.t.Errorf("%s: %q, %v, %d runs", name, got, err, runs)
			}
		})
	}
}

// A name that begins with a space is Stet's own in Meta.
func TestOwnNamesInMeta(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		q := request("k")
		q.Meta = map[string]string{"a": "b"}
		q.Operation = "charge"
		h.begin(q, stet.Execute)
		r := h.record("k")
		if len(q.Meta) != 1 || r.Meta["a"] != "b" || r.Operation() != "charge" {
			h.t.Errorf("%q, %q", q.Meta, r.Meta)
		}
		q.Meta = map[string]string{" operation": "x"}
		if _, err := h.Begin(h.t.Context(), q); err == nil {
			h.t.Error("a caller has given Stet's own name")
		}
	})
}

package compare

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func entries(all ...Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// books makes entries of "id amount" or "id amount currency".
func books(t *testing.T, lines ...string) (all []Entry) {
	t.Helper()
	for _, line := range lines {
		var e Entry
		if n, err := fmt.Sscan(line+" EUR", &e.ID, &e.Amount, &e.Currency); n != 3 {
			t.Fatal(line, err)
		}
		all = append(all, e)
	}
	return all
}

func told(d Difference) string {
	s := d.Kind.String() + ":"
	for _, e := range []*Entry{d.Ledger, d.Provider} {
		if e != nil {
			s += fmt.Sprintf(" %s %d %s", e.ID, e.Amount, e.Currency)
		}
	}
	return s
}

func TestBooks(t *testing.T) { // S1-39: the provider's ledger and the own one, once a day
	for name, c := range map[string]struct{ ledger, provider, want []string }{
		"both empty":        {},
		"equal":             {[]string{"a 1", "b 2"}, []string{"a 1", "b 2"}, nil},
		"only here":         {[]string{"a 1", "b 2", "c 3"}, []string{"b 2"}, []string{"ledger only: a 1 EUR", "ledger only: c 3 EUR"}},
		"only there":        {[]string{"b 2"}, []string{"a 1", "b 2", "c 3"}, []string{"provider only: a 1 EUR", "provider only: c 3 EUR"}},
		"nothing here":      {nil, []string{"a 1"}, []string{"provider only: a 1 EUR"}},
		"nothing there":     {[]string{"a 1"}, nil, []string{"ledger only: a 1 EUR"}},
		"another amount":    {[]string{"a 1"}, []string{"a 2"}, []string{"differs: a 1 EUR a 2 EUR"}},
		"another currency":  {[]string{"a 1 EUR"}, []string{"a 1 USD"}, []string{"differs: a 1 EUR a 1 USD"}},
		"charged twice":     {[]string{"a 1", "b 1"}, []string{"a 1", "a 1", "b 1"}, []string{"twice by the provider: a 1 EUR"}},
		"booked thrice":     {[]string{"a 1", "a 1", "a 2"}, []string{"a 1"}, []string{"twice in the ledger: a 1 EUR", "twice in the ledger: a 2 EUR"}},
		"twice on both":     {[]string{"a 1", "a 1"}, []string{"a 1", "a 1"}, []string{"twice in the ledger: a 1 EUR", "twice by the provider: a 1 EUR"}},
		"twice, and absent": {[]string{"b 1"}, []string{"a 1", "a 1"}, []string{"provider only: a 1 EUR", "twice by the provider: a 1 EUR", "ledger only: b 1 EUR"}},
		"order is of bytes": {[]string{"B 1", "a 1"}, []string{"Z 1", "a 1"}, []string{"ledger only: B 1 EUR", "provider only: Z 1 EUR"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for d, err := range Books(entries(books(t, c.ledger...)...), entries(books(t, c.provider...)...)) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, told(d))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

var errCut = errors.New("connection reset")

func TestBooksSaysWhereItEnded(t *testing.T) {
	cut := func(yield func(Entry, error) bool) {
		_ = yield(Entry{ID: "b"}, nil) && yield(Entry{}, errCut)
	}
	for name, c := range map[string]struct {
		ledger, provider iter.Seq2[Entry, error]
		differences      int
		is               error
		text             string
	}{
		"the ledger fails":      {cut, entries(books(t, "a 0", "c 0")...), 2, errCut, "the ledger's"},
		"the provider fails":    {entries(books(t, "a 0", "c 0")...), cut, 2, errCut, "the provider's"},
		"the ledger unordered":  {entries(books(t, "b 0", "a 0")...), entries(), 1, ErrUnordered, `the ledger's "a" comes after "b"`},
		"the provider is, late": {entries(books(t, "a 0")...), entries(books(t, "b 0", "c 0", "b 0")...), 3, ErrUnordered, "the provider's"},
	} {
		t.Run(name, func(t *testing.T) {
			var ended error
			n := 0
			for d, err := range Books(c.ledger, c.provider) {
				switch {
				case ended != nil:
					t.Fatalf("it went on with %v, %v", d, err)
				case err != nil:
					ended = err
				default:
					n++
				}
			}
			if !errors.Is(ended, c.is) || !strings.Contains(fmt.Sprint(ended), c.text) || n != c.differences {
				t.Errorf("%d differences, then %v", n, ended)
			}
		})
	}
}

func TestBooksStopsBothSides(t *testing.T) {
	stopped := 0
	endless := func(prefix string) iter.Seq2[Entry, error] {
		return func(yield func(Entry, error) bool) {
			defer func() { stopped++ }()
			for i := 0; yield(Entry{ID: fmt.Sprintf("%s%09d", prefix, i)}, nil); i++ {
			}
		}
	}
	for range Books(endless("a"), endless("b")) {
		break
	}
	if stopped != 2 {
		t.Errorf("%d sides were stopped", stopped)
	}
}

// Whatever the two sides hold, what is reported turns one into the other, and nothing else is reported.
func TestBooksAreComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() (all []Entry) {
		for range r.IntN(12) {
			all = append(all, Entry{ID: string(rune('a' + r.IntN(6))), Amount: r.Int64N(2)})
		}
		slices.SortStableFunc(all, func(x, y Entry) int { return strings.Compare(x.ID, y.ID) })
		return all
	}
	for range 5000 {
		ledger, provider := draw(), draw()
		have := slices.Clone(ledger)
		take := func(all []Entry, e Entry) []Entry {
			i := slices.Index(all, e)
			if i < 0 {
				t.Fatalf("%v is not in %v", e, all)
			}
			return slices.Delete(all, i, i+1)
		}
		var extra []Entry
		for d, err := range Books(entries(ledger...), entries(provider...)) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Ledger != nil {
				have = take(have, *d.Ledger)
			}
			if d.Provider != nil {
				extra = append(extra, *d.Provider)
			}
			if d.Kind == Differs && (d.Ledger.ID != d.Provider.ID || *d.Ledger == *d.Provider) {
				t.Fatalf("%+v", d)
			}
		}
		have = append(have, extra...)
		for _, e := range provider {
			have = take(have, e)
		}
		if len(have) > 0 {
			t.Fatalf("%v and %v: %v is not accounted for", ledger, provider, have)
		}
	}
}

package bounds

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

type level uint8

type settings struct {
	Lease  time.Duration
	Many   int
	Part   float64
	Level  level
	Large  uint64
	Levels []level
	Inner  *inner
	List   []inner
	Name   string
	Sum    [4]byte
	Took   time.Duration
	embedded
	unseen int
}

type inner struct{ Status int }

type embedded struct{ Pause time.Duration }

func rows() []Row {
	return []Row{
		Duration("Lease", Short, Long).OrDefault().Or("Never", -1),
		Number("Many", 1, 10),
		Fraction("Part", 0.1, 1).OrDefault(),
		Number("Level", 0, 3),
		Number("Large", 0, Many),
		Number("Levels[]", 0, 3),
		Number("Inner.Status", 200, 599),
		Number("List[].Status", 200, 599),
		Free("Took", "it is an answer"),
		Duration("Pause", 0, time.Minute),
	}
}

func valid() settings {
	return settings{Many: 1, Levels: []level{1}, Inner: &inner{200}, List: []inner{{200}, {201}}, unseen: -1}
}

func TestCheck(t *testing.T) { // K12
	table := For[settings](rows()...)
	for _, c := range []struct {
		change func(s *settings)
		want   string // "": it is taken
	}{
		{func(*settings) {}, ""},
		{func(s *settings) { s.Lease = time.Hour }, ""},
		{func(s *settings) { s.Lease = Short }, ""},
		{func(s *settings) { s.Lease = Long }, ""},
		{func(s *settings) { s.Lease = -1 }, ""},
		{func(s *settings) { s.Took = math.MinInt64 }, ""},
		{func(s *settings) { s.Inner = nil }, ""},
		{func(s *settings) { s.List, s.Levels = nil, nil }, ""},
		{func(s *settings) { s.Lease = 24 }, "bounds: settings.Lease is 24ns; it has to be from 1ms to 876000h0m0s, or 0 for the default, or Never"},
		{func(s *settings) { s.Lease = -2 }, "Lease is -2ns; "},
		{func(s *settings) { s.Lease = math.MaxInt64 }, "Lease is 2562047h47m16.854775807s; "},
		{func(s *settings) { s.Many = 0 }, "settings.Many is 0; it has to be from 1 to 10"},
		{func(s *settings) { s.Part = math.NaN() }, "settings.Part is NaN; it has to be from 0.1 to 1, or 0 for the default"},
		{func(s *settings) { s.Part = 1.1 }, "Part is 1.1; "},
		{func(s *settings) { s.Level = 4 }, "Level is 4; it has to be from 0 to 3"},
		{func(s *settings) { s.Large = math.MaxUint64 }, "Large is 18446744073709551615; it has to be from 0 to 1073741824"},
		{func(s *settings) { s.Levels = []level{1, 9} }, "Levels[] is 9; it has to be from 0 to 3"},
		{func(s *settings) { s.Inner = &inner{42} }, "Inner.Status is 42; it has to be from 200 to 599"},
		{func(s *settings) { s.List[1].Status = 1000 }, "List[].Status is 1000; it has to be from 200 to 599"},
		{func(s *settings) { s.Pause = time.Hour }, "Pause is 1h0m0s; it has to be from 0s to 1m0s"},
	} {
		s := valid()
		c.change(&s)
		err := table.Check(&s)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if e, ok := errors.AsType[*Error](err); err != nil && (!ok || !strings.Contains(c.want, e.Field)) {
			t.Errorf("%v is of the field %v", err, e)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = table.Check(&settings{Many: 1}) }); n > 1 {
		t.Errorf("a check allocates %v times", n)
	}
}

func TestRowsOfNoField(t *testing.T) { // K12
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "has no field Gone") {
			t.Errorf("it said %s", said)
		}
	}()
	For[settings](Number("Gone", 0, 1))
}

// heard is a TB that keeps what it is told.
type heard []string

func (h *heard) Helper()                           {}
func (h *heard) Errorf(format string, args ...any) { *h = append(*h, fmt.Sprintf(format, args...)) }

func (h *heard) expect(t *testing.T, wants ...string) {
	t.Helper()
	if len(*h) != len(wants) {
		t.Errorf("heard %q", *h)
		return
	}
	for i, want := range wants {
		if !strings.Contains((*h)[i], want) {
			t.Errorf("heard %q, want %q", (*h)[i], want)
		}
	}
}

func TestCovers(t *testing.T) { // K12
	var h heard
	Covers(&h, For[settings](rows()...))
	h.expect(t)
	Covers(&h, For[settings](append(rows()[2:8:8], Free("Took", ""), Duration("Pause", 0, 1), Free("Name", "it is a text"))...))
	h.expect(t, `settings.Lease is a number that has no bounds: add a row to the struct's bounds.For, such as bounds.Duration("Lease", `,
		"settings.Many is a number", "Took is free for no reason", "Name has a row, and is no number")
}

func TestNumbersWithoutAUnit(t *testing.T) { // K12
	type pause struct{ Pause time.Duration }
	var h heard
	Covers(&h, For[pause](Duration("Pause", 1, Long)))
	h.expect(t, "pause.Pause takes a number without a unit")
	h = nil
	Covers(&h, For[pause](Duration("Pause", 0, Long)))
	h.expect(t)
}

func TestRefuses(t *testing.T) { // K12
	table := For[settings](rows()...)
	check := func(s settings) error { return table.Check(&s) }
	var h heard
	Refuses(&h, table, valid, check)
	h.expect(t)

	Refuses(&h, table, valid, func(s settings) error { s.Level = 0; return check(s) })
	h.expect(t, "settings.Level: 4 is taken")

	h = nil
	Refuses(&h, table, valid, func(s settings) error {
		if err := check(s); err != nil && s.Level > 3 {
			return fmt.Errorf("%w, so to say", &Error{text: "it is not valid"})
		}
		return errors.Join(check(s), errors.New("something is missing"))
	})
	h.expect(t, "settings.Level: 4 is refused without its name")

	h = nil
	Refuses(&h, table, func() settings { s := valid(); s.Inner, s.List = nil, nil; return s }, check)
	h.expect(t, "Inner.Status cannot be tried", "List[].Status cannot be tried")

	h = nil
	Refuses(&h, table, func() settings { return settings{} }, func(s settings) error { s.Inner = &inner{}; return check(s) })
	if len(h) == 0 || !strings.Contains(h[0], "what is valid is refused") {
		t.Errorf("heard %q", h)
	}
}

// A row by itself is for the path of a request: a value within its bounds costs no memory.
func TestRowsCostNothing(t *testing.T) { // K12
	row := Number("Status", 200, 599).OrDefault()
	if n := testing.AllocsPerRun(100, func() { _ = row.Check(201) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if row.Check(0) != nil || row.Check(199) == nil || row.Check(600) == nil {
		t.Error("it does not keep to its bounds")
	}
}

package walk

import (
	"slices"
	"strconv"
	"testing"
)

func TestPage(t *testing.T) {
	for _, c := range []struct {
		most, look int
		want       []int
		next       string
	}{
		{10, 100, []int{0, 3, 6, 9}, ""},
		{4, 100, []int{0, 3, 6, 9}, ""},
		{2, 100, []int{0, 3}, "5"}, // rows that are not selected cost no page
		{10, 5, []int{0, 3}, "4"},
		{10, 10, []int{0, 3, 6, 9}, ""},
	} {
		p := Page[int, int]{Most: c.most, Look: c.look}
		for row := 0; row < 10 && p.Add(row, row, row%3 == 0); row++ {
		}
		if !slices.Equal(p.Rows, c.want) || p.Next(strconv.Itoa) != c.next {
			t.Errorf("%+v: %v, next %q", c, p.Rows, p.Next(strconv.Itoa))
		}
		read := Page[int, int]{Most: c.most, Look: c.look}
		for row := 0; row < 10 && read.Takes(row); row++ {
			if row%3 == 0 {
				read.Rows = append(read.Rows, row)
			}
		}
		if next, _ := strconv.Atoi(read.Next(strconv.Itoa)); read.More && (next != read.Last || len(read.Rows) > c.most) {
			t.Errorf("%+v, read: %v, next %d", c, read.Rows, next)
		}
	}
}

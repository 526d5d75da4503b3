package walk

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestPages(t *testing.T) {
	errAway := errors.New("away")
	pages := func(fail int) func(after string) ([]int, string, error) {
		return func(after string) ([]int, string, error) {
			n, _ := strconv.Atoi(after)
			switch {
			case n == fail:
				return nil, "", errAway
			case n == 3:
				return []int{n}, "", nil
			}
			return []int{n}, strconv.Itoa(n + 1), nil
		}
	}
	for _, c := range []struct {
		fail, breakAt int
		want          []int
		err           error
	}{
		{-1, -1, []int{0, 1, 2, 3}, nil},
		{2, -1, []int{0, 1}, errAway},
		{0, -1, nil, errAway},
		{-1, 1, []int{0, 1}, nil},
	} {
		var got []int
		var failed error
		for page, err := range Pages(pages(c.fail)) {
			got, failed = append(got, page...), err
			if len(page) > 0 && page[0] == c.breakAt {
				break
			}
		}
		if !slices.Equal(got, c.want) || !errors.Is(failed, c.err) || (c.err == nil) != (failed == nil) {
			t.Errorf("%+v: %v, %v", c, got, failed)
		}
	}
}

func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, w := time.Now(), NewWorkers(3)
		for range 9 {
			if !w.Go(t.Context(), func() { time.Sleep(time.Second) }) {
				t.Error("it did not run")
			}
		}
		if w.Wait(); time.Since(began) != 3*time.Second {
			t.Errorf("nine functions of a second, three at a time, took %s", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 3 {
			w.Go(ctx, func() { time.Sleep(time.Hour) })
		}
		if began = time.Now(); w.Go(ctx, func() { t.Error("it ran") }) || time.Since(began) != time.Second {
			t.Errorf("the context ended after a second, and it waited for %s", time.Since(began))
		}
		if w.Wait(); w.Go(ctx, func() { t.Error("it ran") }) {
			t.Error("the context was over")
		}
	})
}

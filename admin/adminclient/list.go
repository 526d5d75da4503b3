package adminclient

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"strconv"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
)

// List is one of the API's lists, with its filter. Nothing is asked before one of its methods is
// called.
type List[T any] struct {
	client     *Client
	path, name string
	query      url.Values
}

// Raw returns the same list, of documents as they are sent: they may have members that this version
// does not know.
func (l List[T]) Raw() List[json.RawMessage] {
	return List[json.RawMessage](l)
}

// Page reads a page after a cursor, "" for the first, of up to limit rows, 0 for the API's default.
// The list ends with the page whose next is "". A page before it may be short, or empty: a store
// looks through a bounded number of records for each.
func (l List[T]) Page(ctx context.Context, cursor string, limit int) (rows []T, next string, err error) {
	q := maps.Clone(l.query)
	set(q, "cursor", cursor)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	err = list(ctx, l.client, l.path+"?"+q.Encode(), l.name, &rows, &next)
	return rows, next, err
}

// list reads the list at a path, by its name, and the cursor of its next page, unless it has no
// pages.
func list(ctx context.Context, c *Client, path, name string, rows any, next *string) error {
	var doc map[string]json.RawMessage
	if err := c.Get(ctx, path, &doc); err != nil {
		return err
	}
	err := json.Unmarshal(doc[name], rows)
	if err == nil && next != nil {
		err = json.Unmarshal(doc["next_cursor"], next)
	}
	if err != nil {
		return fmt.Errorf("the list %s cannot be read: %w", name, err)
	}
	return nil
}

// Take follows the pages after a cursor until it has limit rows, or there are no more.
func (l List[T]) Take(ctx context.Context, cursor string, limit int) (rows []T, next string, err error) {
	rows, next = []T{}, cursor
	for {
		page, after, err := l.Page(ctx, next, min(limit-len(rows), stet.MaxLimit))
		if err != nil {
			return rows, next, err
		}
		if rows, next = append(rows, page...), after; len(rows) >= limit || next == "" {
			return rows, next, nil
		}
	}
}

// All follows the pages to the end of the list. An error is the last that it yields.
func (l List[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		pages := walk.Pages(func(after string) ([]T, string, error) { return l.Page(ctx, after, stet.MaxLimit) })
		for rows, err := range pages {
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

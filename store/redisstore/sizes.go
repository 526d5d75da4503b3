package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/stet-dev/stet"
)

// tooLong is the server's answer to an argument that it does not read. It closes the connection
// behind that, and what others have sent over it gets no answer: see [Store.fits].
const tooLong = "Protocol error: invalid bulk length"

const (
	bulkSetting = "proto-max-bulk-len"
	bulkDefault = 512 << 20
)

// largest is how many bytes of an argument the server reads. Where it does not say so, as in a
// cluster and at some providers, that is the default.
func (s *Store) largest(ctx context.Context) int {
	got, err := s.client.Do(ctx, "", []string{"CONFIG", "GET", bulkSetting}, nil)
	if err != nil {
		return bulkDefault
	}
	if n, err := strconv.Atoi(setting(first(got), bulkSetting)); err == nil && n > 0 {
		return n
	}
	return bulkDefault
}

// setting returns a setting from the answer to CONFIG GET, which is a map over RESP3 and a list
// over RESP2.
func setting(answer any, name string) string {
	var value any
	switch answer := answer.(type) {
	case map[string]any:
		value = answer[name]
	case map[any]any:
		value = answer[name]
	case []any:
		if len(answer) == 2 {
			value = answer[1]
		}
	}
	text, _ := value.(string)
	return text
}

// fits refuses to send a record that the server does not read to its end.
func (s *Store) fits(args []string) error {
	if size := len(args[0]); size > s.most {
		return fmt.Errorf("%w: nothing was sent: the record takes %d bytes, and the server's %s is %d", stet.ErrRefused, size, bulkSetting, s.most)
	}
	return nil
}

// Sizes implements [stet.Sizer].
func (s *Store) Sizes() stet.Sizes {
	const head = 64 << 10
	return stet.Sizes{Body: int64(s.most - head), Setting: fmt.Sprintf("the server's %s (%d)", bulkSetting, s.most)}
}

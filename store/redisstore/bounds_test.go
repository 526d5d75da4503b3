package redisstore

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-dev/stet/internal/bounds"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	bounds.Refuses(t, configBounds, func() Config { return Config{} }, func(c Config) error {
		_, err := Open(t.Context(), away{}, c)
		return err
	})
}

type away struct{}

func (away) Do(context.Context, string, []string, func(any) [][]string) ([]any, error) {
	return nil, errors.New("away")
}

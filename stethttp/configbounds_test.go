package stethttp

import (
	"testing"

	"github.com/stet-dev/stet"
	within "github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/store/memstore"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	valid := func() Config { return Config{NoStoreStatus: []int{503}} }
	within.Refuses(t, configBounds, valid, func(c Config) error { _, err := New(e, SingleTenant, c); return err })
	within.Refuses(t, limitsBounds, func() LimitsConfig { return LimitsConfig{} }, func(c LimitsConfig) error {
		_, err := New(e, SingleTenant, Config{Limits: NewLimits(c)})
		l := NewLimits(LimitsConfig{MaxKeys: 7})
		if set := l.Set(c); (set == nil) != (err == nil) || set != nil && l.Config().MaxKeys != 7 {
			t.Errorf("New: %v, Set: %v, and then %+v", err, set, l.Config())
		}
		return err
	})
}

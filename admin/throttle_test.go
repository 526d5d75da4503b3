package admin

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// However many addresses try, so many are remembered: those that did it last.
func TestGuessersAreBounded(t *testing.T) { // D11
	synctest.Test(t, func(t *testing.T) {
		var throttle Throttle
		at := func(i int) netip.Prefix {
			return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		}
		for i := range maxGuessers + 10 {
			throttle.take(at(i), false)
			time.Sleep(time.Millisecond)
		}
		from := throttle.from
		if len(from) != maxGuessers || from[at(9)] != nil || from[at(10)] == nil || from[at(maxGuessers+9)] == nil {
			t.Errorf("%d are remembered", len(from))
		}
	})
}

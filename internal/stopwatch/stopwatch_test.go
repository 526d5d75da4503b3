package stopwatch

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off, on := Start(false), Start(true)
		time.Sleep(time.Second)
		if got := Since(off); got != 0 {
			t.Errorf("one that is not wanted says %s", got)
		}
		if got := Since(on); got != time.Second {
			t.Errorf("after a second it says %s", got)
		}
	})
}

package tierstore

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

func stamped() stet.Head {
	at := func(us int64) time.Time { return time.UnixMicro(us).UTC() }
	return stet.Head{Version: 1<<63 - 1, State: stet.Completed, Note: &stet.Note{Who: "o", Why: "\x00", Evidence: "ch_1", Notice: "msg_1"},
		Rules:     stet.Rules{Retain: time.Hour, KeepExpired: 1, FromCreation: true, OnLapse: stet.LapseReexecute},
		CreatedAt: at(1_763_000_000_000_001), UpdatedAt: at(2), CompletedAt: at(3), DueAt: at(-4), AsOf: at(5)}
}

func TestStampRoundTrip(t *testing.T) {
	bare := stet.Head{Version: 1, State: stet.Running}
	for _, want := range []stet.Head{stamped(), bare} {
		var got stet.Head
		rest, ok := cutStamp(append(appendStamp(nil, &want), "rest"...), &got)
		if !ok || string(rest) != "rest" || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %q, %v; want %+v", got, rest, ok, want)
		}
	}
}

// Whatever a cache holds, it is read or refused, and never by half.
func FuzzCutStamp(f *testing.F) {
	h := stamped()
	whole := appendStamp(nil, &h)
	f.Add(whole)
	for i := range whole {
		f.Add(whole[:i])
		if _, ok := cutStamp(whole[:i], &stet.Head{}); ok {
			f.Errorf("%d of %d bytes are a stamp", i, len(whole))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h stet.Head
		rest, ok := cutStamp(b, &h)
		if !ok {
			return
		}
		var again stet.Head
		if _, ok := cutStamp(append(appendStamp(nil, &h), rest...), &again); !ok || !reflect.DeepEqual(h, again) {
			t.Errorf("%x is %+v, and then %+v", b, h, again)
		}
		if !bytes.HasSuffix(b, rest) {
			t.Error("what follows is not what followed")
		}
	})
}

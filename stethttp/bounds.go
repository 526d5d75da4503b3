package stethttp

import (
	"math"

	"github.com/stet-dev/stet"
	within "github.com/stet-dev/stet/internal/bounds"
)

var configBounds = within.For[Config](
	within.Free("Policy", "it checks itself"),
	within.Free("Fingerprint", "it checks itself"),
	within.Free("Limits", "they were checked when they were made"),
	within.Number("Mode", 0, int64(ModeRequired)),
	within.Duration("MinTTL", within.Short, within.Long).OrDefault(),
	within.Duration("MaxTTL", within.Short, within.Long).OrDefault(),
	within.Number("Waiting", 0, int64(Accepted)),
	within.Duration("WaitTimeout", within.Short, within.Long).OrDefault(),
	within.Duration("RetryAfterMax", within.Short, within.Long).OrDefault(),
	within.Number("On5xx", 0, int64(UnknownFailure)),
	within.Number("OnPanic", 0, int64(PanicReplay)),
	within.Number("OnOversize", 0, int64(OmitBody)),
	within.Number("MaxBody", 1, within.Huge).OrDefault().Or("math.MaxInt64 for no limit", math.MaxInt64),
	within.Number("MaxResponse", 1, within.Huge).OrDefault().Or("math.MaxInt64 for no limit", math.MaxInt64),
	within.Number("MaxHeader", 1, within.Huge).OrDefault(),
	within.Duration("BodyTimeout", within.Short, within.Long).OrDefault().Or("stet.Never", stet.Never),
	within.Duration("MaxRequestAge", within.Short, within.Long).Or("0 for no limit", 0),
	within.Number("NoStoreStatus[]", 300, 599), // a 2xx says that something happened
	within.Number("Status.Mismatch", 400, 499).Or("0 for the problem's own", 0),
	within.Number("Status.InvalidKey", 400, 499).Or("0 for the problem's own", 0),
	within.Number("Key.Syntax", 0, int64(stet.Opaque)),
	within.Number("Key.MinLen", 1, within.Many).OrDefault(),
	within.Number("Key.MaxLen", 1, within.Many).OrDefault(),
	within.Number("Replay.Markers", 0, int64(NoMarkers)),
	within.Number("Errors", 0, int64(PlainErrors)),
)

var limitsBounds = within.For[LimitsConfig](
	within.Number("MaxBufferedBytes", 1, within.Huge).OrDefault(),
	within.Fraction("SharePerScope", 0, 1), // 0 for the default
	within.Number("SmallReserve", 1, within.Huge).OrDefault(),
	within.Number("MaxTargetBytes", 1, within.Many).OrDefault(),
	within.Number("MaxScopeBytes", 1, within.Many).OrDefault(),
	within.Fraction("NewKeysPerSecond", 0, within.Many), // 0 for no limit, as in the next ones
	within.Number("Burst", 0, within.Many),
	within.Fraction("LookupsPerSecond", 0, within.Many),
	within.Number("MaxKeysPerScope", 0, within.Many),
	within.Number("MaxKeys", 0, within.Many),
	within.Fraction("UnauthenticatedPerSecond", 0, within.Many),
	within.Number("Replicas", 1, within.Many).OrDefault(),
)

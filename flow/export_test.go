package flow

const (
	DefaultBackoff = defaultBackoff
	MaxBackoff     = maxBackoff
	DefaultSettle  = defaultSettle
	DefaultEvery   = defaultEvery
	MaxState       = maxState
)

var ErrStateTooBig = errStateTooBig

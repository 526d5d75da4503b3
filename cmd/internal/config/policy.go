package config

// Policy is how requests are guarded. What is not set comes from the profile.
type Policy struct {
	Profile         string   `yaml:"profile" default:"default" enum:"default|ietf|stripe|stripe-v2|seed-strict|gateway-compat" doc:"a published dialect; every key below beats it" reload:"live"`
	EnabledMethods  []string `yaml:"enabled_methods" dialect:"" default:"POST,PUT,PATCH,DELETE" doc:"other methods always pass" reload:"live"`
	RequiredMethods []string `yaml:"required_methods" dialect:"" default:"POST,PATCH" doc:"without a key: 400 missing-key" reload:"live"`
	MethodOverride  string   `yaml:"method_override" dialect:"" default:"ignore" enum:"ignore|refuse" doc:"X-HTTP-Method-Override and the like: refuse them where they name another enabled method" reload:"live"`

	DefaultTTL Seconds `yaml:"default_ttl_s" dialect:"" default:"86400" min:"0.001" doc:"how long a result is replayed" reload:"live"`
	MinTTL     Seconds `yaml:"min_ttl_s" dialect:"" default:"3600" min:"0.001" doc:"the client's Idempotency-TTL is clamped to these" reload:"live"`
	MaxTTL     Seconds `yaml:"max_ttl_s" dialect:"" default:"2592000" min:"0.001" reload:"live"`
	TTLFrom    string  `yaml:"ttl_from" dialect:"" default:"completion" enum:"completion|creation" reload:"live"`

	WaitPolicy       string  `yaml:"wait_policy" dialect:"" default:"no-wait" enum:"no-wait|wait|accepted" doc:"while it runs: 409 at once, the first answer, or 202 at once" reload:"live"`
	WaitTimeout      Seconds `yaml:"wait_timeout_s" dialect:"" default:"30" min:"0.001" doc:"then 409" reload:"live"`
	ExecutionTimeout Seconds `yaml:"execution_timeout_s" dialect:"" default:"30" min:"0" doc:"then 504 and an unknown outcome; 0 is no limit" reload:"live"`
	Lease            Seconds `yaml:"lease_s" dialect:"" default:"60" min:"0.01" doc:"how long a run lives without a sign of life" reload:"live"`
	RetryAfterMax    Seconds `yaml:"retry_after_max_s" dialect:"" default:"30" min:"1" reload:"live"`

	OnLeaseExpiry     string  `yaml:"on_lease_expiry" dialect:"" default:"unknown" enum:"unknown|resume|reexecute" doc:"reexecute may run an effect twice; resume needs a recovery point" reload:"live"`
	On5xx             string  `yaml:"on_5xx" dialect:"" default:"replay" enum:"replay|release|unknown" doc:"what a 5xx means where the upstream does not say" reload:"live"`
	OnPanic           string  `yaml:"on_panic" dialect:"" default:"unknown" enum:"unknown|release|replay" reload:"live"`
	OnOversize        string  `yaml:"on_oversize" dialect:"" default:"tombstone" enum:"tombstone|omit-body" doc:"what is kept of a response over the limits" reload:"live"`
	OnExpired         string  `yaml:"on_expired" dialect:"" default:"execute" enum:"execute|reject" doc:"reject: expired records are kept keep_expired_s" reload:"live"`
	KeepExpired       Seconds `yaml:"keep_expired_s" dialect:"" default:"2592000" min:"0.001" reload:"live"`
	OnCompleteFailure string  `yaml:"on_complete_failure" dialect:"" default:"answer" enum:"answer|withhold" doc:"when a result cannot be stored" reload:"live"`
	FailMode          string  `yaml:"fail_mode" dialect:"" default:"closed" enum:"closed|open" doc:"open runs unprotected without the store; answers then say so" reload:"live"`

	MaxBodyBytes     int64   `yaml:"max_body_bytes" dialect:"" default:"1048576" min:"1" unit:"bytes" reload:"live"`
	MaxResponseBytes int64   `yaml:"max_response_bytes" dialect:"" default:"1048576" min:"1" unit:"bytes" reload:"live"`
	MaxHeaderBytes   int64   `yaml:"max_header_bytes" dialect:"" default:"65536" min:"1" doc:"of the stored response headers" unit:"bytes" reload:"live"`
	MaxRequestAge    Seconds `yaml:"max_request_age_s" dialect:"" default:"0" min:"0" doc:"over 0: Idempotency-First-Sent is required; older is 412 request-too-old" reload:"live"`
	EarlyData        bool    `yaml:"early_data" dialect:"" default:"false" doc:"true: a keyed request with Early-Data: 1 gets 425" reload:"live"`
	NoStoreStatus    []int   `yaml:"no_store_status" dialect:"" default:"401,403,407,408,425,429" min:"400" max:"599" doc:"statuses that say nothing happened" unit:"HTTP status" reload:"live"`

	Status      Status      `yaml:"status" dialect:""`
	Key         Key         `yaml:"key" dialect:""`
	Fingerprint Fingerprint `yaml:"fingerprint" dialect:"" doc:"what makes two requests the same"`
	Replay      Replay      `yaml:"replay" dialect:""`
	UpstreamKey string      `yaml:"upstream_key" dialect:"" default:"string" enum:"string|bare|off" doc:"how the key is forwarded" reload:"live"`
}

// Status are the layer's own statuses that dialects change.
type Status struct {
	Mismatch   int `yaml:"mismatch" default:"422" min:"400" max:"499" unit:"HTTP status" reload:"live"`
	InvalidKey int `yaml:"invalid_key" default:"400" min:"400" max:"499" unit:"HTTP status" reload:"live"`
}

// Key says which keys are accepted.
type Key struct {
	Header  string `yaml:"header" default:"Idempotency-Key" nonempty:"" reload:"live"`
	Syntax  string `yaml:"syntax" default:"lenient" enum:"lenient|sf-string|opaque" doc:"lenient: quoted or bare" reload:"live"`
	MinLen  int    `yaml:"min_len" default:"1" min:"1" unit:"bytes" reload:"live"`
	MaxLen  int    `yaml:"max_len" default:"255" min:"1" max:"65536" unit:"bytes" reload:"live"`
	Pattern string `yaml:"pattern" doc:"a regular expression (RE2) the whole key has to match" reload:"live"`
}

// Fingerprint says what is compared.
type Fingerprint struct {
	Body    string   `yaml:"body" default:"auto" enum:"auto|jcs|raw|fields" reload:"live"`
	Fields  []string `yaml:"fields" doc:"JSON pointers that count, with body: fields" reload:"live"`
	Exclude []string `yaml:"exclude" doc:"JSON pointers that do not count" reload:"live"`
	Headers []string `yaml:"headers" doc:"request headers that count" reload:"live"`
	Decode  bool     `yaml:"decode" default:"false" doc:"true: look inside Content-Encoding: gzip" reload:"live"`
}

// Replay shapes replays.
type Replay struct {
	KeepSetCookie bool     `yaml:"keep_set_cookie" default:"false" reload:"live"`
	DropHeaders   []string `yaml:"drop_headers" doc:"besides those that are never replayed" reload:"live"`
	Markers       string   `yaml:"markers" default:"both" enum:"both|replayed|replay|none" doc:"Idempotent-Replayed, Idempotent-Replay" reload:"live"`
}

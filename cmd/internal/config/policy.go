package config

// Policy is how requests are guarded. What is not set comes from the profile.
type Policy struct {
	Profile         string   `yaml:"profile" default:"default" enum:"default|ietf|stripe|stripe-v2|seed-strict|gateway-compat" doc:"a published dialect; every setting below overrides it" reload:"live"`
	EnabledMethods  []string `yaml:"enabled_methods" is:"EnabledMethods" dialect:"" default:"POST,PUT,PATCH,DELETE" doc:"methods that are guarded; other methods always pass" reload:"live"`
	RequiredMethods []string `yaml:"required_methods" is:"RequiredMethods" dialect:"" default:"POST,PATCH" doc:"methods that need a key; a request without one gets 400 missing-key" reload:"live"`
	MethodOverride  string   `yaml:"method_override" is:"RefuseOverride=refuse" dialect:"" default:"ignore" enum:"ignore|refuse" doc:"what to do with X-HTTP-Method-Override, X-Original-URL and the like where they name another enabled method or another target" reload:"live"`

	DefaultTTL Seconds `yaml:"default_ttl_s" is:"Policy.Retain" dialect:"" default:"86400" min:"0.001" doc:"how long a result is kept and replayed" reload:"live"`
	MinTTL     Seconds `yaml:"min_ttl_s" is:"MinTTL" dialect:"" default:"3600" min:"0.001" doc:"minimum for the client's Idempotency-TTL" reload:"live"`
	MaxTTL     Seconds `yaml:"max_ttl_s" is:"MaxTTL" dialect:"" default:"2592000" min:"0.001" doc:"maximum for it" reload:"live"`
	TTLFrom    string  `yaml:"ttl_from" is:"Policy.FromCreation=creation" dialect:"" default:"completion" enum:"completion|creation" doc:"instant that the retention counts from" reload:"live"`

	WaitPolicy       string  `yaml:"wait_policy" is:"Waiting" dialect:"" default:"no-wait" enum:"no-wait|wait|accepted" doc:"what a duplicate of a running request gets: 409 at once, the first answer, or 202 at once" reload:"live"`
	WaitTimeout      Seconds `yaml:"wait_timeout_s" is:"WaitTimeout" dialect:"" default:"30" min:"0.001" doc:"maximum time that a duplicate waits, then 409" reload:"live"`
	ExecutionTimeout Seconds `yaml:"execution_timeout_s" is:"Policy.Execution" dialect:"" default:"30" min:"0" doc:"maximum time of an execution; then 504, and the outcome is unknown; 0: no limit" reload:"live"`
	Lease            Seconds `yaml:"lease_s" is:"Policy.Lease" dialect:"" default:"60" min:"0.01" doc:"how long a reservation holds without a heartbeat of its process" reload:"live"`
	RetryAfterMax    Seconds `yaml:"retry_after_max_s" is:"RetryAfterMax" dialect:"" default:"30" min:"1" doc:"maximum for Retry-After" reload:"live"`

	OnLeaseExpiry     string         `yaml:"on_lease_expiry" is:"Policy.OnLapse" dialect:"" default:"unknown" enum:"unknown|resume|reexecute" doc:"what a retry finds when the lease has ended: reexecute may run an effect twice; resume needs a recovery point" reload:"live"`
	On5xx             string         `yaml:"on_5xx" is:"On5xx" dialect:"" default:"replay" enum:"replay|release|unknown" doc:"what a 5xx means if the upstream does not state the outcome" reload:"live"`
	StatusOutcome     map[int]string `yaml:"status_outcome" is:"StatusOutcome" dialect:"" min:"200" max:"599" enum:"completed|unknown|not-executed" example:"{502: unknown, 503: unknown, 504: unknown}" doc:"what single statuses mean if the upstream does not state the outcome, before no_store_status and on_5xx; as the example if it is not given and on_5xx is replay, because a proxy in between says these, too" reload:"live"`
	TrustHeader       string         `yaml:"trust_header" is:"TrustHeader" dialect:"" example:"X-Served-By-Api" doc:"response header that the API sets on each of its answers; without it an answer is a proxy's, and the outcome is unknown; empty: none" reload:"live"`
	OnPanic           string         `yaml:"on_panic" is:"OnPanic" dialect:"" default:"unknown" enum:"unknown|release|replay" doc:"what a panic of the handler means" reload:"live"`
	OnOversize        string         `yaml:"on_oversize" is:"OnOversize" dialect:"" default:"tombstone" enum:"tombstone|omit-body" doc:"what is kept of a response that exceeds the limits" reload:"live"`
	OnExpired         string         `yaml:"on_expired" dialect:"" default:"execute" enum:"execute|reject" doc:"what a retry after the retention gets; reject keeps expired records for keep_expired_s" reload:"live"`
	KeepExpired       Seconds        `yaml:"keep_expired_s" is:"Policy.KeepExpired" dialect:"" default:"2592000" min:"0.001" doc:"how long expired records are kept with on_expired: reject" reload:"live"`
	OnCompleteFailure string         `yaml:"on_complete_failure" is:"Withhold=withhold" dialect:"" default:"answer" enum:"answer|withhold" doc:"whether the client gets a result that cannot be stored" reload:"live"`
	FailMode          string         `yaml:"fail_mode" is:"FailOpen=open" dialect:"" default:"closed" enum:"closed|open" doc:"open executes without protection when the store does not answer, and says so in the answer" reload:"live"`

	MaxBodyBytes     int64   `yaml:"max_body_bytes" is:"MaxBody" dialect:"" default:"1048576" min:"1" doc:"maximum size of a guarded request's body; a larger one gets 413" unit:"bytes" reload:"live"`
	MaxResponseBytes int64   `yaml:"max_response_bytes" is:"MaxResponse" dialect:"" default:"1048576" min:"1" doc:"maximum size of a response body that is stored" unit:"bytes" reload:"live"`
	MaxHeaderBytes   int64   `yaml:"max_header_bytes" is:"MaxHeader" dialect:"" default:"65536" min:"1" doc:"maximum size of the stored response headers" unit:"bytes" reload:"live"`
	MaxRequestAge    Seconds `yaml:"max_request_age_s" is:"MaxRequestAge" dialect:"" default:"0" min:"0" doc:"maximum age of a request; above 0, Idempotency-First-Sent is required; an older request, or one sent more than five minutes ahead of this clock, gets 412 request-too-old" reload:"live"`
	EarlyData        bool    `yaml:"early_data" is:"EarlyData" dialect:"" default:"false" doc:"true: a keyed request with Early-Data: 1 gets 425" reload:"live"`
	NoStoreStatus    []int   `yaml:"no_store_status" is:"NoStoreStatus" dialect:"" default:"401,403,407,408,421,425,429" min:"300" max:"599" doc:"statuses that mean that nothing happened; they are not stored" unit:"HTTP status" reload:"live"`

	Status      status      `yaml:"status" dialect:""`
	Key         key         `yaml:"key" dialect:""`
	Fingerprint fingerprint `yaml:"fingerprint" dialect:"" doc:"which parts of two requests are compared"`
	Replay      replay      `yaml:"replay" dialect:""`
	UpstreamKey string      `yaml:"upstream_key" dialect:"" default:"string" enum:"string|bare|off" doc:"how the key is forwarded to the upstream" reload:"live"`
}

// status are the layer's own statuses that dialects change.
type status struct {
	Mismatch   int `yaml:"mismatch" is:"Status.Mismatch" default:"422" min:"400" max:"499" doc:"status of key-reused" unit:"HTTP status" reload:"live"`
	InvalidKey int `yaml:"invalid_key" is:"Status.InvalidKey" default:"400" min:"400" max:"499" doc:"status of invalid-key" unit:"HTTP status" reload:"live"`
}

// key says which keys are accepted.
type key struct {
	Header  string `yaml:"header" is:"KeyHeader" default:"Idempotency-Key" nonempty:"" doc:"header that holds the key" reload:"live"`
	Syntax  string `yaml:"syntax" is:"Key.Syntax" default:"lenient" enum:"lenient|sf-string|opaque" doc:"form of keys; lenient accepts quoted and bare ones" reload:"live"`
	MinLen  int    `yaml:"min_len" is:"Key.MinLen" default:"1" min:"1" doc:"minimum length of a key" unit:"bytes" reload:"live"`
	MaxLen  int    `yaml:"max_len" is:"Key.MaxLen" default:"255" min:"1" max:"65536" doc:"maximum length of a key" unit:"bytes" reload:"live"`
	Pattern string `yaml:"pattern" doc:"regular expression (RE2) that the whole key must match" reload:"live"`
}

// fingerprint says what is compared.
type fingerprint struct {
	Body    string   `yaml:"body" is:"Fingerprint.Body" default:"auto" enum:"auto|jcs|raw|fields" doc:"how bodies are compared: by their media type, as RFC 8785 has it, byte by byte, or by fields alone" reload:"live"`
	Fields  []string `yaml:"fields" is:"Fingerprint.Fields" doc:"JSON pointers of the members that are compared, with body: fields" reload:"live"`
	Exclude []string `yaml:"exclude" is:"Fingerprint.Exclude" doc:"JSON pointers of members that are not compared" reload:"live"`
	Names   []string `yaml:"exclude_fields" is:"Fingerprint.ExcludeFields" doc:"names of fields of queries and forms that are not compared" reload:"live"`
	Headers []string `yaml:"headers" is:"Fingerprint.Headers" doc:"request headers that are compared" reload:"live"`
	Host    bool     `yaml:"host" is:"Fingerprint.Host" default:"false" doc:"true: the host that a request is for is compared, as it always is on routes that have one" reload:"live"`
	Decode  bool     `yaml:"decode" is:"Fingerprint.Decode" default:"false" doc:"true: bodies with Content-Encoding: gzip are compared decoded" reload:"live"`
}

// replay shapes replays.
type replay struct {
	KeepSetCookie bool     `yaml:"keep_set_cookie" is:"Replay.KeepSetCookie" default:"false" doc:"true: Set-Cookie is replayed" reload:"live"`
	DropHeaders   []string `yaml:"drop_headers" is:"Replay.DropHeaders" doc:"headers that are not replayed, besides those that never are" reload:"live"`
	Markers       string   `yaml:"markers" is:"Replay.Markers" default:"both" enum:"both|replayed|replay|none" doc:"which of Idempotent-Replayed and Idempotent-Replay a replay carries" reload:"live"`
}

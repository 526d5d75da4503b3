package config

// File is a configuration. Tags:
//
//	yaml     the key; a struct's keys are known, all others are errors
//	default  the value without one
//	enum     the words it may be, separated by |
//	min, max the range of a number
//	nonempty it cannot be set to ""
//	dialect  `config init` comments it out: given, it would beat the profile
//	later    known, and refused when used: what this build cannot do yet
//	example  what `config init` shows for a setting without a default
//	doc      one line for people
type File struct {
	Listen            string   `yaml:"listen" default:":8080" nonempty:"" doc:"where clients connect; port 0 picks a free one"`
	Upstream          string   `yaml:"upstream" example:"http://127.0.0.1:3000" doc:"the API behind the gateway"`
	ReadHeaderTimeout Seconds  `yaml:"read_header_timeout_s" default:"10" min:"0.001" doc:"for a request's header to arrive, and for a TLS handshake"`
	ReadTimeout       Seconds  `yaml:"read_timeout_s" default:"30" min:"0.001" doc:"for the whole body; over it: 408 request-timeout, nothing reserved"`
	WriteTimeout      Seconds  `yaml:"write_timeout_s" default:"30" min:"0.001" doc:"for a client to take the next 64 KiB of an answer; one that does not is cut off"`
	UpstreamTimeout   Seconds  `yaml:"upstream_timeout_s" default:"60" min:"0" doc:"for the header of an answer to a request that passes by, 504 after it, and while draining for its body; guarded ones have execution_timeout_s; 0: no limit"`
	UpstreamIdle      Seconds  `yaml:"upstream_idle_timeout_s" default:"4" min:"0.001" doc:"for a connection to the upstream without a request: less than the upstream's own; an upstream's Keep-Alive: timeout=N lowers it"`
	TLS               *TLS     `yaml:"tls" doc:"optional; HTTP/2 comes with it"`
	H2C               bool     `yaml:"h2c" default:"false" doc:"HTTP/2 without TLS"`
	Replicas          int      `yaml:"replicas" default:"1" min:"1" doc:"gateways on this store; over 1 refuses memory:, file: and sqlite:"`
	StrictCoverage    bool     `yaml:"strict_coverage" default:"false" doc:"true: a state-changing request that no route matches is refused (400 route-not-covered)"`
	TrustedProxies    []string `yaml:"trusted_proxies" doc:"addresses or CIDR ranges; what others say in X-Forwarded-* and Forwarded is removed"`
	ProblemBase       string   `yaml:"problem_base" default:"https://stet-dev.github.io/stet/problems/" nonempty:"" doc:"problem types are this and their code"`
	LogLevel          string   `yaml:"log_level" default:"info" enum:"debug|info|warn|error" doc:"info has a line per execution; debug one per request"`

	CORS      CORS      `yaml:"cors" doc:"of the gateway's own answers; the API's are its own"`
	Admin     Admin     `yaml:"admin"`
	Store     Store     `yaml:"store"`
	Scope     Scope     `yaml:"scope" doc:"whose request it is: at most one; a request without it gets 401"`
	Policy    Policy    `yaml:"policy"`
	Limits    Limits    `yaml:"limits" doc:"0 is no limit"`
	Metrics   Metrics   `yaml:"metrics"`
	Keeper    Keeper    `yaml:"keeper" doc:"the loops that keep the store tidy"`
	Reconcile Reconcile `yaml:"reconcile"`
	Routes    []Route   `yaml:"routes" doc:"ServeMux patterns; the most specific one wins, and its keys beat the policy above"`
}

// CORS lets scripts of other origins read the gateway's own answers.
type CORS struct {
	AllowOrigins []string `yaml:"allow_origins" example:"https://shop.example" doc:"as browsers send them, or \"*\" alone; their scripts can read code and Retry-After"`
}

// TLS is the certificate clients are shown, and what theirs are checked against.
type TLS struct {
	CertFile     string `yaml:"cert_file" nonempty:"required" example:"cert.pem" doc:"PEM, leaf first"`
	KeyFile      string `yaml:"key_file" nonempty:"required" example:"key.pem" doc:"PEM"`
	ClientCAFile string `yaml:"client_ca_file" doc:"clients need a certificate of one of these authorities"`
}

// Admin is the operators' listener.
type Admin struct {
	Listen     string   `yaml:"listen" default:"127.0.0.1:8081" nonempty:"" doc:"off loopback a token is required"`
	TokenFile  string   `yaml:"token_file" doc:"one admin token, one line"`
	TokensFile string   `yaml:"tokens_file" doc:"or {\"NAME\": {\"sha256\": \"hex\", \"role\": \"viewer|operator|admin\"}}"`
	Hosts      []string `yaml:"hosts" doc:"names the Host header may have, besides localhost and IP literals"`
}

// Store is where records live.
type Store struct {
	DSN                string  `yaml:"dsn" default:"sqlite:stet.db" nonempty:"" doc:"memory:, file:DIR, sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, mysql:// likewise, redis://HOST or redis+cluster://HOST,HOST"`
	Timeout            Seconds `yaml:"timeout_s" default:"2" min:"0.001" doc:"how long one decision may wait for the store"`
	PepperFile         string  `yaml:"pepper_file" doc:"secret behind the ids in logs and lists; without it who guesses a key can recognise it"`
	ListenDSN          string  `yaml:"listen_dsn" doc:"Postgres behind a transaction pooler: a direct DSN for wake-ups"`
	Cache              string  `yaml:"cache" doc:"in front of the store: memory:?max_bytes=N, redis://HOST/1 or redis+cluster://HOST,HOST; answers replays, decides nothing"`
	CacheTTL           Seconds `yaml:"cache_ttl_s" default:"60" min:"0.001" doc:"how long a deleted result may still be replayed by other gateways"`
	CacheInFlight      bool    `yaml:"cache_in_flight" default:"false" doc:"true: the cache also knows what runs, and turns duplicates away"`
	EncryptionKeysFile string  `yaml:"encryption_keys_file" doc:"encrypts what is stored; the file: {\"primary\": \"k2\", \"keys\": {\"k1\": \"base64\", \"k2\": \"base64\"}}, of 32 bytes each"`
	EncryptionAccept   bool    `yaml:"encryption_accept_plain" default:"false" doc:"true: reads what was stored before encryption was switched on"`
	AllowVolatile      bool    `yaml:"allow_volatile" default:"false" doc:"true: takes a server whose settings may lose records, such as a Redis that evicts or a Postgres without fsync; otherwise it is refused"`
}

// Scope says whose a request is. Without any there is one scope, "default".
type Scope struct {
	Header     string  `yaml:"header" nonempty:"" example:"X-Tenant-Id" doc:"set by a trusted proxy; the value as sent"`
	APIKey     *APIKey `yaml:"api_key" doc:"long-lived keys; only a hash of the field value is kept"`
	JWT        *JWT    `yaml:"jwt" later:"scopes from JWTs" doc:"claims, percent-encoded, joined by /"`
	ClientCert bool    `yaml:"client_cert" default:"false" doc:"the hash of the TLS client certificate"`
}

// APIKey derives the scope from a credential.
type APIKey struct {
	Header string `yaml:"header" nonempty:"required" example:"X-Api-Key"`
}

// JWT derives the scope from a verified token.
type JWT struct {
	JWKSURL  string   `yaml:"jwks_url"`
	Issuer   string   `yaml:"issuer"`
	Audience string   `yaml:"audience"`
	Claims   []string `yaml:"claims"`
}

// Limits bound what clients may use up.
type Limits struct {
	MaxBufferedBytes      int64   `yaml:"max_buffered_bytes" default:"268435456" min:"1" doc:"held in memory for requests and responses, in total; an eighth of it is for bodies of up to 16 KiB"`
	SharePerScope         float64 `yaml:"share_per_scope" default:"0.5" min:"0.01" max:"1" doc:"of max_buffered_bytes that one scope may hold"`
	MaxTargetBytes        int     `yaml:"max_target_bytes" default:"8192" min:"1" doc:"of a request's target; over it: 400 invalid-target"`
	MaxScopeBytes         int     `yaml:"max_scope_bytes" default:"1024" min:"1" doc:"a scope that is longer is none: 401"`
	MaxRequestHeaderBytes int     `yaml:"max_request_header_bytes" default:"65536" min:"1024" doc:"request line and header, to which up to 4 KiB are added; over it: 431"`
	NewKeysPerSecond      float64 `yaml:"new_keys_per_second" default:"0" min:"0"`
	Burst                 int     `yaml:"burst" default:"0" min:"0" doc:"of new keys at once; 0: one second's worth"`
	MaxKeysPerScope       int     `yaml:"max_keys_per_scope" default:"0" min:"0" doc:"a key counts while its record is stored"`
	MaxKeys               int     `yaml:"max_keys" default:"0" min:"0" doc:"in all scopes together"`
	LookupsPerSecond      float64 `yaml:"lookups_per_second" default:"0" min:"0" doc:"keyed requests answered 409 or 422: somebody may be guessing"`
	Unauthenticated       float64 `yaml:"unauthenticated_per_second" default:"100" min:"0" doc:"401s of one remote address, behind trusted_proxies the client's; over it: 429"`
}

// Metrics shape what /metrics serves.
type Metrics struct {
	ScopeTopK int `yaml:"scope_top_k" default:"0" min:"0" later:"metrics by scope" doc:"0: scopes are never a label"`
}

// Keeper paces the loops beside the requests.
type Keeper struct {
	SweepInterval Seconds `yaml:"sweep_interval_s" default:"10" min:"0.01" doc:"between two looks for runs whose lease is over"`
	ReapInterval  Seconds `yaml:"reap_interval_s" default:"60" min:"0.01" doc:"between two looks for records whose retention is over"`
	ReapBatch     int     `yaml:"reap_batch" default:"500" min:"1" max:"10000" doc:"records removed at a time; a pause as long as that took follows"`
}

// Reconcile finds out what became of unknown outcomes.
type Reconcile struct {
	Interval  Seconds `yaml:"interval_s" default:"10" min:"0.001"`
	MaxProbes int     `yaml:"max_probes" default:"8" min:"1"`
	Probe     Probe   `yaml:"probe" doc:"asks the upstream"`
	Webhook   Webhook `yaml:"webhook" doc:"POST /hooks/reconcile, signed"`
}

// Probe asks the upstream what became of a key.
type Probe struct {
	URL           string  `yaml:"url" doc:"{key} {scope} {path} {downstream_key}, percent-encoded"`
	Method        string  `yaml:"method" default:"GET"`
	FoundStatus   []int   `yaml:"found_status" default:"200" min:"100" max:"599"`
	MissingStatus []int   `yaml:"missing_status" default:"404" min:"100" max:"599"`
	Settle        Seconds `yaml:"settle_s" default:"300" min:"0" doc:"missing counts as proof only so long after the attempt ended; 0: never"`
	Respond       Respond `yaml:"respond"`
}

// Respond is the status of an answer found by a probe.
type Respond struct {
	Status int `yaml:"status" default:"0" min:"0" max:"599" doc:"0: the probe's own"`
}

// Webhook lets a provider tell.
type Webhook struct {
	SecretFile string `yaml:"secret_file"`
	Listen     string `yaml:"listen" doc:"its own listener"`
}

// Route is a policy of its own for some requests.
type Route struct {
	Match        string `yaml:"match" nonempty:"required" example:"POST /v1/payments" doc:"a ServeMux pattern, matched only: paths reach the upstream byte for byte"`
	Mode         string `yaml:"mode" enum:"off|shadow|optional|required" doc:"replaces required_methods here"`
	MatchEncoded bool   `yaml:"match_encoded" default:"false" doc:"true: match also matches the decoded path, for an upstream to which %2F is a slash"`
	Policy       Policy `yaml:"policy"`
}

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
//	init     what `config init` sets, where something has to be set and nothing is a good default
//	example  what `config init` shows for a setting without a default
//	doc      one line for people
//	unit     of a number, where its type is not [Seconds]
//	secret   never shown: all of it, or the password of a "dsn", or of a "url" also what its query has beside placeholders
//	or       another key that may be given instead: it names a file that holds the value
//	reload   whether SIGHUP puts another value in force: live, or restart; a section's settings say it for themselves
//	why      it takes a restart
//	public   the file it names holds no secret
//	file     it names a file, and whether SIGHUP puts other contents in force: live, or restart
type File struct {
	Listen            string   `yaml:"listen" default:":8080" nonempty:"" doc:"where clients connect; port 0 picks a free one" reload:"restart" why:"an address is bound once"`
	Upstream          string   `yaml:"upstream" init:"http://127.0.0.1:3000" doc:"the API behind the gateway" reload:"live"`
	ReadHeaderTimeout Seconds  `yaml:"read_header_timeout_s" default:"10" min:"0.001" doc:"for a request's header to arrive, and for a TLS handshake" reload:"restart" why:"net/http takes it once"`
	ReadTimeout       Seconds  `yaml:"read_timeout_s" default:"30" min:"0.001" doc:"for the whole body; over it: 408 request-timeout, nothing reserved" reload:"live"`
	WriteTimeout      Seconds  `yaml:"write_timeout_s" default:"30" min:"0.001" doc:"for a client to take the next 64 KiB of an answer; one that does not is cut off" reload:"live"`
	UpstreamTimeout   Seconds  `yaml:"upstream_timeout_s" default:"60" min:"0" doc:"for the header of an answer to a request that passes by, 504 after it, and while draining for its body; guarded ones have execution_timeout_s; 0: no limit" reload:"live"`
	UpstreamIdle      Seconds  `yaml:"upstream_idle_timeout_s" default:"4" min:"0.001" doc:"for a connection to the upstream without a request: less than the upstream's own; an upstream's Keep-Alive: timeout=N lowers it" reload:"live"`
	DrainDelay        Seconds  `yaml:"drain_delay_s" default:"0" min:"0" doc:"after SIGTERM /readyz says 503 and requests are still served for so long, until load balancers have seen it" reload:"live"`
	TLS               *TLS     `yaml:"tls" doc:"optional; HTTP/2 comes with it" reload:"restart" why:"a listener has TLS from the start or never"`
	H2C               bool     `yaml:"h2c" default:"false" doc:"HTTP/2 without TLS" reload:"restart" why:"the listener is made once"`
	Replicas          int      `yaml:"replicas" default:"1" min:"1" doc:"gateways on this store; over 1 refuses memory:, file: and sqlite:" unit:"gateways" reload:"live"`
	StrictCoverage    bool     `yaml:"strict_coverage" default:"false" doc:"true: a state-changing request that no route matches is refused (400 route-not-covered)" reload:"live"`
	TrustedProxies    []string `yaml:"trusted_proxies" doc:"addresses or CIDR ranges; what others say in X-Forwarded-* and Forwarded is removed" reload:"live"`
	ProblemBase       string   `yaml:"problem_base" default:"https://stet-dev.github.io/stet/problems/" nonempty:"" doc:"problem types are this and their code" reload:"live"`
	LogLevel          string   `yaml:"log_level" default:"info" enum:"debug|info|warn|error" doc:"info has a line per execution; debug one per request" reload:"live"`

	CORS      CORS      `yaml:"cors" doc:"of the gateway's own answers; the API's are its own"`
	Admin     Admin     `yaml:"admin"`
	Store     Store     `yaml:"store"`
	Scope     Scope     `yaml:"scope" doc:"whose request it is: one of these, or single_tenant; a request without it gets 401"`
	Policy    Policy    `yaml:"policy"`
	Limits    Limits    `yaml:"limits" doc:"0 is no limit"`
	Metrics   Metrics   `yaml:"metrics"`
	Keeper    Keeper    `yaml:"keeper" doc:"the loops that keep the store tidy"`
	Reconcile Reconcile `yaml:"reconcile"`
	Console   Console   `yaml:"console"`
	Routes    []Route   `yaml:"routes" doc:"ServeMux patterns; the most specific one wins, and its keys beat the policy above" reload:"live"`
}

// CORS lets scripts of other origins read the gateway's own answers.
type CORS struct {
	AllowOrigins []string `yaml:"allow_origins" example:"https://shop.example" doc:"as browsers send them, or \"*\" alone; their scripts can read code and Retry-After" reload:"live"`
}

// TLS is the certificate clients are shown, and what theirs are checked against.
type TLS struct {
	CertFile     string `yaml:"cert_file" public:"" nonempty:"required" example:"cert.pem" doc:"PEM, leaf first" file:"live" reload:"live"`
	KeyFile      string `yaml:"key_file" nonempty:"required" example:"key.pem" doc:"PEM" file:"live" reload:"live"`
	ClientCAFile string `yaml:"client_ca_file" public:"" doc:"clients need a certificate of one of these authorities" file:"live" reload:"live"`
}

// Admin is the operators' listener.
type Admin struct {
	Listen        string   `yaml:"listen" default:"127.0.0.1:8081" doc:"off loopback a token is required; \"\" with socket: the socket alone" reload:"restart" why:"an address is bound once"`
	Socket        string   `yaml:"socket" doc:"path of a Unix socket that only the gateway's user can open; unix:PATH is its address for operators' commands" reload:"restart" why:"a socket is bound once"`
	TLS           *TLS     `yaml:"tls" doc:"of listen; the socket has none" reload:"restart" why:"a listener has TLS from the start or never"`
	TokenFile     string   `yaml:"token_file" doc:"one admin token, one line; stet token new makes one" file:"live" reload:"live"`
	TokensFile    string   `yaml:"tokens_file" public:"" doc:"or {\"NAME\": {\"sha256\": \"hex\", \"role\": \"viewer|operator|admin\", \"scopes\": [\"acme\", \"shop-*\"]}}; without scopes: all" file:"live" reload:"live"`
	MinTokenBytes int      `yaml:"min_token_bytes" default:"20" min:"1" doc:"of the token in token_file: a shorter one is refused; that of a hash is not known" unit:"bytes" reload:"live"`
	Hosts         []string `yaml:"hosts" doc:"names the Host header may have, besides localhost and IP literals" reload:"live"`
}

// Store is where records live.
type Store struct {
	DSN                string  `yaml:"dsn" default:"sqlite:stet.db" nonempty:"" doc:"memory:, file:DIR, sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, mysql:// likewise, redis://HOST, redis+cluster://HOST,HOST or redis+sentinel://HOST,HOST/NAME" secret:"dsn" or:"dsn_file" reload:"restart" why:"the store is opened once"`
	DSNFile            string  `yaml:"dsn_file" doc:"or a file with the DSN in its one line" reload:"restart" file:"restart" why:"the store is opened once"`
	Timeout            Seconds `yaml:"timeout_s" default:"2" min:"0.001" doc:"how long one decision may wait for the store" reload:"restart" why:"the engine takes it once"`
	PepperFile         string  `yaml:"pepper_file" doc:"secret behind the ids in logs and lists; without it who guesses a key can recognise it" file:"restart" reload:"restart" why:"stored ids are made with it"`
	ListenDSN          string  `yaml:"listen_dsn" doc:"Postgres behind a transaction pooler: a direct DSN for wake-ups" secret:"dsn" reload:"restart" why:"the store is opened once"`
	Cache              string  `yaml:"cache" doc:"in front of the store: memory:?max_bytes=N, redis://HOST/1 or redis+cluster://HOST,HOST; answers replays, decides nothing" secret:"dsn" reload:"restart" why:"the store is opened once"`
	CacheTTL           Seconds `yaml:"cache_ttl_s" default:"60" min:"0.001" doc:"how long a deleted result may still be replayed by other gateways" reload:"restart" why:"the store is opened once"`
	CacheInFlight      bool    `yaml:"cache_in_flight" default:"false" doc:"true: the cache also knows what runs, and turns duplicates away" reload:"restart" why:"the store is opened once"`
	EncryptionKeysFile string  `yaml:"encryption_keys_file" doc:"encrypts what is stored; the file: {\"primary\": \"k2\", \"keys\": {\"k1\": \"base64\", \"k2\": \"base64\"}}, of 32 bytes each" file:"live" reload:"restart" why:"only the contents of the file can change while the store is open"`
	EncryptionAccept   bool    `yaml:"encryption_accept_plain" default:"false" doc:"true: reads what was stored before encryption was switched on" reload:"restart" why:"the store is opened once"`
	AllowVolatile      bool    `yaml:"allow_volatile" default:"false" doc:"true: takes a server whose settings may lose records, such as a Redis that evicts or a Postgres without fsync; otherwise it is refused" reload:"restart" why:"the store is opened once"`
}

// Scope says whose a request is. Without any there is one scope, "default".
type Scope struct {
	Header     string  `yaml:"header" nonempty:"" example:"X-Tenant-Id" doc:"set by a trusted proxy; the value as sent" reload:"live"`
	APIKey     *APIKey `yaml:"api_key" doc:"long-lived keys; only a hash of the field value is kept" reload:"live"`
	JWT        *JWT    `yaml:"jwt" later:"scopes from JWTs" doc:"claims, percent-encoded, joined by /" reload:"live"`
	ClientCert bool    `yaml:"client_cert" default:"false" doc:"the hash of the TLS client certificate" reload:"live"`

	SingleTenant bool     `yaml:"single_tenant" default:"false" doc:"true: all callers are one, and may get each other's answers; without it and the above there is a warning" reload:"live"`
	Parts        []string `yaml:"parts" enum:"route" doc:"[route]: a key counts for its route alone, so that it may be used on each" reload:"live"`
}

// APIKey derives the scope from a credential.
type APIKey struct {
	Header string `yaml:"header" nonempty:"required" example:"X-Api-Key" reload:"live"`
}

// JWT derives the scope from a verified token.
type JWT struct {
	JWKSURL  string   `yaml:"jwks_url" reload:"live"`
	Issuer   string   `yaml:"issuer" reload:"live"`
	Audience string   `yaml:"audience" reload:"live"`
	Claims   []string `yaml:"claims" reload:"live"`
}

// Limits bound what clients may use up.
type Limits struct {
	MaxBufferedBytes      int64   `yaml:"max_buffered_bytes" default:"268435456" min:"1" doc:"held in memory for requests and responses, in total; an eighth of it is for bodies of up to 16 KiB" unit:"bytes" reload:"live"`
	SharePerScope         float64 `yaml:"share_per_scope" default:"0.5" min:"0.01" max:"1" doc:"of max_buffered_bytes that one scope may hold" unit:"share" reload:"live"`
	MaxTargetBytes        int     `yaml:"max_target_bytes" default:"8192" min:"1" doc:"of a request's target; over it: 400 invalid-target" unit:"bytes" reload:"live"`
	MaxScopeBytes         int     `yaml:"max_scope_bytes" default:"1024" min:"1" doc:"a scope that is longer is none: 401" unit:"bytes" reload:"live"`
	MaxRequestHeaderBytes int     `yaml:"max_request_header_bytes" default:"65536" min:"1024" doc:"request line and header, to which up to 4 KiB are added; over it: 431" unit:"bytes" reload:"restart" why:"net/http takes it once"`
	NewKeysPerSecond      float64 `yaml:"new_keys_per_second" default:"0" min:"0" unit:"keys/s" reload:"live"`
	Burst                 int     `yaml:"burst" default:"0" min:"0" doc:"of new keys at once; 0: one second's worth" unit:"keys" reload:"live"`
	MaxKeysPerScope       int     `yaml:"max_keys_per_scope" default:"0" min:"0" doc:"a key counts while its record is stored" unit:"records" reload:"live"`
	MaxKeys               int     `yaml:"max_keys" default:"0" min:"0" doc:"in all scopes together" unit:"records" reload:"live"`
	LookupsPerSecond      float64 `yaml:"lookups_per_second" default:"0" min:"0" doc:"keyed requests answered 409 or 422: somebody may be guessing" unit:"requests/s" reload:"live"`
	Unauthenticated       float64 `yaml:"unauthenticated_per_second" default:"100" min:"0" doc:"401s of one remote address, behind trusted_proxies the client's; over it: 429" unit:"requests/s" reload:"live"`
}

// Metrics shape what /metrics serves.
type Metrics struct {
	ScopeTopK int `yaml:"scope_top_k" default:"0" min:"0" later:"metrics by scope" doc:"0: scopes are never a label" unit:"scopes" reload:"restart" why:"series are made once"`
}

// Console is what operators see in a browser.
type Console struct {
	TraceURL string `yaml:"trace_url" later:"the console" doc:"where a trace is shown, with {trace_id} in it" reload:"live"`
}

// Keeper paces the loops beside the requests.
type Keeper struct {
	SweepInterval Seconds `yaml:"sweep_interval_s" default:"10" min:"0.01" doc:"between two looks for runs whose lease is over" reload:"live"`
	ReapInterval  Seconds `yaml:"reap_interval_s" default:"60" min:"0.01" doc:"between two looks for records whose retention is over" reload:"live"`
	ReapBatch     int     `yaml:"reap_batch" default:"500" min:"1" max:"10000" doc:"records removed at a time; a pause as long as that took follows" unit:"records" reload:"live"`
}

// Reconcile finds out what became of unknown outcomes.
type Reconcile struct {
	Interval  Seconds `yaml:"interval_s" default:"10" min:"0.001" reload:"live"`
	MaxProbes int     `yaml:"max_probes" default:"8" min:"1" unit:"probes" reload:"live"`
	Probe     Probe   `yaml:"probe" doc:"asks the upstream"`
	Webhook   Webhook `yaml:"webhook" doc:"POST /hooks/reconcile, signed"`
}

// Probe asks the upstream what became of a key.
type Probe struct {
	URL           string  `yaml:"url" doc:"{key} {scope} {path} {downstream_key}, percent-encoded" secret:"url" reload:"live"`
	HeadersFile   string  `yaml:"headers_file" doc:"headers of the probe, such as Authorization: one Name: value a line; its values are never shown" file:"live" reload:"live"`
	Method        string  `yaml:"method" default:"GET" reload:"live"`
	FoundStatus   []int   `yaml:"found_status" default:"200" min:"100" max:"599" unit:"HTTP status" reload:"live"`
	MissingStatus []int   `yaml:"missing_status" default:"404" min:"100" max:"599" unit:"HTTP status" reload:"live"`
	Settle        Seconds `yaml:"settle_s" default:"300" min:"0" doc:"missing counts as proof only so long after the attempt ended; 0: never" reload:"live"`
	Respond       Respond `yaml:"respond"`
}

// Respond is the status of an answer found by a probe.
type Respond struct {
	Status int `yaml:"status" default:"0" min:"0" max:"599" doc:"0: the probe's own" unit:"HTTP status" reload:"live"`
}

// Webhook lets a provider tell.
type Webhook struct {
	SecretFile string `yaml:"secret_file" file:"live" reload:"live"`
	Listen     string `yaml:"listen" doc:"its own listener" reload:"restart" why:"an address is bound once"`
}

// Route is a policy of its own for some requests.
type Route struct {
	Match        string `yaml:"match" nonempty:"required" example:"POST /v1/payments" doc:"a ServeMux pattern, matched only: paths reach the upstream byte for byte" reload:"live"`
	Mode         string `yaml:"mode" enum:"off|shadow|optional|required" example:"required" doc:"replaces required_methods here" reload:"live"`
	MatchEncoded bool   `yaml:"match_encoded" default:"false" doc:"true: match also matches the decoded path, for an upstream to which %2F is a slash" reload:"live"`
	Policy       Policy `yaml:"policy" example:"{ wait_policy: wait }" doc:"any key of the policy above"`
}

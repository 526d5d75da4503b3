package config

import "fmt"

// File is a configuration. All that is known of a setting stands in its tags; everything else is a
// walk over them:
//
//	yaml     key in the file; a key without a field is an error
//	default  value if none is given
//	enum     permitted words, separated by |
//	min, max range of a number, within those that all settings of its type have
//	nonempty "" is refused; "required": it must be given
//	dialect  `config init` comments it out, because a given value overrides the profile
//	later    known, but refused when used: this build does not have it yet
//	init     value that `config init` writes where there is no good default
//	example  value that `config init` shows for a setting without a default
//	doc      meaning, in one line
//	is       field of [stethttp.Config] that a setting of a policy stands for
//	unit     what a number counts, unless its type is [Seconds]
//	secret   never shown; "dsn": only its password, "url": also its query without placeholders
//	or       key of a setting that names a file with the value
//	reload   live: SIGHUP puts another value in force; restart: the next start does
//	why      why it takes a restart
//	public   the file that it names holds no secret
//	file     it names a file; live or restart, as with reload, for other contents of the file
type File struct {
	Listen            string   `yaml:"listen" default:":8080" nonempty:"" doc:"address that clients connect to; port 0 picks a free one" reload:"restart" why:"an address is bound once"`
	Upstream          string   `yaml:"upstream" init:"http://127.0.0.1:3000" doc:"URL of the API behind the gateway, without a path; h2c:// for HTTP/2 without TLS" reload:"live"`
	ReadHeaderTimeout Seconds  `yaml:"read_header_timeout_s" default:"10" min:"0.001" doc:"maximum time for a request's header to arrive, and for a TLS handshake" reload:"restart" why:"net/http takes it once"`
	ReadTimeout       Seconds  `yaml:"read_timeout_s" default:"30" min:"0.001" doc:"maximum time for the whole body to arrive; a slower one gets 408 request-timeout, and nothing is reserved" reload:"live"`
	WriteTimeout      Seconds  `yaml:"write_timeout_s" default:"30" min:"0.001" doc:"maximum time for a client to read the next 64 KiB of an answer; a slower one is disconnected" reload:"live"`
	UpstreamTimeout   Seconds  `yaml:"upstream_timeout_s" default:"60" min:"0" doc:"maximum time for the upstream to send the header of its answer to an unguarded request, then 504; while the gateway shuts down, also for the body; guarded requests have execution_timeout_s; 0: no limit" reload:"live"`
	UpstreamIdle      Seconds  `yaml:"upstream_idle_timeout_s" default:"4" min:"0.001" doc:"how long an idle connection to the upstream is kept; set it below the upstream's own limit; Keep-Alive: timeout=N of the upstream lowers it" reload:"live"`
	LateAnswer        Seconds  `yaml:"late_answer_s" default:"0" min:"0" doc:"how long the gateway reads on for the answer to a guarded request after execution_timeout_s, so that it becomes the result; 0: for lease_s of its route" reload:"live"`
	EmptyBody         string   `yaml:"empty_body" default:"chunked" enum:"chunked|length" doc:"how a guarded request without a body is sent over HTTP/1: chunked, which no proxy in between sends again by itself; or length (Content-Length: 0), for an API that cannot read chunks; after a 411 the gateway sends once more with a length, and remembers it" reload:"live"`
	DrainDelay        Seconds  `yaml:"drain_delay_s" default:"0" min:"0" doc:"after SIGTERM, how long /readyz answers 503 while requests are still served, so that load balancers notice" reload:"live"`
	TLS               *TLS     `yaml:"tls" doc:"certificate of the clients' listener; without this section it has no TLS; HTTP/2 comes with TLS" reload:"restart" why:"a listener has TLS from the start or never"`
	H2C               bool     `yaml:"h2c" default:"false" doc:"true: HTTP/2 without TLS" reload:"restart" why:"the listener is made once"`
	Replicas          int      `yaml:"replicas" default:"1" min:"1" doc:"number of gateways that share this store; more than 1 refuses memory:, file: and sqlite:" unit:"gateways" reload:"live"`
	StrictCoverage    bool     `yaml:"strict_coverage" default:"false" doc:"true: a state-changing request that no route matches is refused with 400 route-not-covered" reload:"live"`
	TrustedProxies    []string `yaml:"trusted_proxies" doc:"addresses or CIDR ranges of proxies whose X-Forwarded-* and Forwarded are kept; those of other clients are removed" reload:"live"`
	ProblemBase       string   `yaml:"problem_base" default:"https://stet-dev.github.io/stet/problems/" nonempty:"" doc:"problem types are this URL followed by the problem's code" reload:"live"`
	LogLevel          string   `yaml:"log_level" default:"info" enum:"debug|info|warn|error" doc:"info logs each execution, debug each request" reload:"live"`

	CORS      cors      `yaml:"cors" doc:"for the gateway's own answers; the API's answers are passed on as they are"`
	Admin     Admin     `yaml:"admin"`
	Store     Store     `yaml:"store"`
	Scope     Scope     `yaml:"scope" doc:"where a request's scope comes from: set one of these, or single_tenant; a request without a scope gets 401"`
	Policy    Policy    `yaml:"policy"`
	Limits    limits    `yaml:"limits" doc:"bounds on what clients can use; 0 is no limit"`
	Metrics   metrics   `yaml:"metrics"`
	Keeper    keeper    `yaml:"keeper" doc:"background loops that remove expired records and end abandoned runs"`
	Audit     audit     `yaml:"audit" doc:"the history of what operators and background loops did"`
	Reconcile Reconcile `yaml:"reconcile"`
	Console   console   `yaml:"console"`
	Routes    []Route   `yaml:"routes" doc:"policies for some requests; the most specific pattern wins, and its settings override the policy above" reload:"live"`
}

// cors lets scripts of other origins read the gateway's own answers.
type cors struct {
	AllowOrigins []string `yaml:"allow_origins" example:"https://shop.example" doc:"origins as browsers send them, or \"*\" alone; their scripts can read the problem's code and Retry-After" reload:"live"`
}

// TLS is the certificate clients are shown, and what theirs are checked against.
type TLS struct {
	CertFile     string `yaml:"cert_file" public:"" nonempty:"required" example:"cert.pem" doc:"certificate chain in PEM, leaf first" file:"live" reload:"live"`
	KeyFile      string `yaml:"key_file" nonempty:"required" example:"key.pem" doc:"the certificate's key in PEM" file:"live" reload:"live"`
	ClientCAFile string `yaml:"client_ca_file" public:"" doc:"PEM certificates of authorities; with it, clients need a certificate of one of them" file:"live" reload:"live"`
}

// Admin is the operators' listener.
type Admin struct {
	Title         string   `yaml:"title" example:"production eu-1" doc:"name of this installation, such as production eu-1, which operators see on every page" reload:"live"`
	Listen        string   `yaml:"listen" default:"127.0.0.1:8081" doc:"address that operators connect to; outside loopback a token is required; \"\" together with socket: only the socket" reload:"restart" why:"an address is bound once"`
	Socket        string   `yaml:"socket" doc:"path of a Unix socket that only the gateway's user can open; operators' commands reach it with --admin unix:PATH" reload:"restart" why:"a socket is bound once"`
	TLS           *TLS     `yaml:"tls" doc:"certificate of admin.listen; the socket has no TLS" reload:"restart" why:"a listener has TLS from the start or never"`
	TokenFile     string   `yaml:"token_file" doc:"file with one token of role admin, in one line; stet token new makes one" file:"live" reload:"live"`
	TokensFile    string   `yaml:"tokens_file" public:"" doc:"instead of token_file: a file with {\"NAME\": {\"sha256\": \"hex\", \"role\": \"viewer|operator|admin\", \"scopes\": [\"acme\", \"shop-*\"]}}; without scopes a token is for all" file:"live" reload:"live"`
	MinTokenBytes int      `yaml:"min_token_bytes" default:"20" min:"1" doc:"minimum length of the token in token_file; the lengths of hashed tokens are not known" unit:"bytes" reload:"live"`
	Hosts         []string `yaml:"hosts" doc:"host names that operators' requests may use, besides localhost and IP addresses" reload:"live"`
}

// Store is where records live.
type Store struct {
	DSN                string  `yaml:"dsn" default:"sqlite:stet.db" nonempty:"" doc:"memory:, file:DIR, sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, mysql:// likewise, redis://HOST, redis+cluster://HOST,HOST or redis+sentinel://HOST,HOST/NAME" secret:"dsn" or:"dsn_file" reload:"restart" why:"the store is opened once"`
	DSNFile            string  `yaml:"dsn_file" doc:"instead of dsn: a file that holds the DSN in one line" reload:"restart" file:"restart" why:"the store is opened once"`
	Timeout            Seconds `yaml:"timeout_s" default:"2" min:"0.001" doc:"maximum time that one decision waits for the store; then the request is refused" reload:"restart" why:"the engine takes it once"`
	PepperFile         string  `yaml:"pepper_file" doc:"file with a secret that ids in logs and lists are derived with; without it, a guessed key can be recognised by its id" file:"restart" reload:"restart" why:"stored ids are made with it"`
	ListenDSN          string  `yaml:"listen_dsn" doc:"for Postgres behind a transaction pooler: a DSN that bypasses the pooler, for notifications" secret:"dsn" reload:"restart" why:"the store is opened once"`
	Cache              string  `yaml:"cache" default:"auto" doc:"cache before the store: memory:?max_bytes=67108864, redis://HOST/1 or redis+cluster://HOST,HOST; off: none; auto: memory: over file:, sqlite: and redis:, else none; it answers replays and decides nothing" secret:"dsn" reload:"restart" why:"the store is opened once"`
	CacheTTL           Seconds `yaml:"cache_ttl_s" default:"5" min:"0.001" doc:"maximum time that a result is still replayed from a cache after another process has deleted it" reload:"restart" why:"the store is opened once"`
	CacheInFlight      bool    `yaml:"cache_in_flight" default:"false" doc:"true: the cache also knows which keys are running, and refuses their duplicates" reload:"restart" why:"the store is opened once"`
	EncryptionKeysFile string  `yaml:"encryption_keys_file" doc:"file with the keys that stored records are encrypted with: {\"primary\": \"k2\", \"keys\": {\"k1\": \"base64\", \"k2\": \"base64\"}}, 32 bytes each; without it nothing is encrypted" file:"live" reload:"restart" why:"only the contents of the file can change while the store is open"`
	EncryptionAccept   bool    `yaml:"encryption_accept_plain" default:"false" doc:"true: records that were stored before encryption was switched on can be read" reload:"restart" why:"the store is opened once"`
	Expect             string  `yaml:"expect" example:"st_ABCDEFGHJKLMNPQRSTUV" doc:"the store's id, as stet store show shows it: no key is new in another store, such as an empty one at the same address" reload:"restart" why:"the store is opened once"`
	AllowVolatile      bool    `yaml:"allow_volatile" default:"false" doc:"true: a server whose settings may lose records is accepted, such as a Redis that evicts or a Postgres without fsync; otherwise it is refused" reload:"restart" why:"the store is opened once"`
}

// Scope says whose a request is. Without any there is one scope, "default".
type Scope struct {
	Header     string  `yaml:"header" nonempty:"" example:"X-Tenant-Id" doc:"header that a trusted proxy sets; its value is the scope" reload:"live"`
	APIKey     *apiKey `yaml:"api_key" doc:"the scope is a hash of a long-lived API key" reload:"live"`
	JWT        *jwt    `yaml:"jwt" later:"scopes from JWTs" doc:"the scope is the claims of a token, percent-encoded and joined by /" reload:"live"`
	ClientCert bool    `yaml:"client_cert" default:"false" doc:"true: the scope is a hash of the client's TLS certificate" reload:"live"`

	SingleTenant bool     `yaml:"single_tenant" default:"false" doc:"true: all callers share one scope, and may get each other's answers; without this and the above there is a warning" reload:"live"`
	Parts        []string `yaml:"parts" enum:"route|host" doc:"[route]: a key counts for its route only, so that the same key can be used on several routes; [host]: for the host that the request is for; both: [route, host]" reload:"live"`
}

// apiKey derives the scope from a credential.
type apiKey struct {
	Header string `yaml:"header" nonempty:"required" example:"X-Api-Key" doc:"header that holds the API key" reload:"live"`
}

// jwt derives the scope from a verified token.
type jwt struct {
	JWKSURL  string   `yaml:"jwks_url" doc:"URL of the issuer's keys" reload:"live"`
	Issuer   string   `yaml:"issuer" doc:"required issuer" reload:"live"`
	Audience string   `yaml:"audience" doc:"required audience" reload:"live"`
	Claims   []string `yaml:"claims" doc:"claims that make the scope" reload:"live"`
}

// limits bound what clients may use up.
type limits struct {
	MaxBufferedBytes      int64   `yaml:"max_buffered_bytes" default:"268435456" min:"16384" doc:"memory for all requests and responses that are held; an eighth of it is reserved for bodies of up to 16 KiB" unit:"bytes" reload:"live"`
	SharePerScope         float64 `yaml:"share_per_scope" default:"0.5" min:"0.01" max:"1" doc:"share of max_buffered_bytes that one scope can hold" unit:"share" reload:"live"`
	MaxUnstoredBytes      int64   `yaml:"max_unstored_bytes" default:"67108864" min:"1" doc:"memory for what happened and the store has not taken yet; beyond it, new executions are refused with 503 store-unavailable" unit:"bytes" reload:"restart" why:"the engine takes it once"`
	MaxTargetBytes        int     `yaml:"max_target_bytes" default:"8192" min:"1" doc:"maximum length of a request's target; a longer one gets 400 invalid-target" unit:"bytes" reload:"live"`
	MaxScopeBytes         int     `yaml:"max_scope_bytes" default:"1024" min:"1" doc:"maximum length of a scope; a longer one gets 401" unit:"bytes" reload:"live"`
	MaxRequestHeaderBytes int     `yaml:"max_request_header_bytes" default:"65536" min:"1024" doc:"maximum size of request line and header, of which up to 4 KiB more are read; a larger one gets 431" unit:"bytes" reload:"restart" why:"net/http takes it once"`
	NewKeysPerSecond      float64 `yaml:"new_keys_per_second" default:"0" min:"0" doc:"rate of new keys of one scope" unit:"keys/s" reload:"live"`
	Burst                 int     `yaml:"burst" default:"0" min:"0" doc:"number of new keys that a scope can use at once; 0: as many as in one second" unit:"keys" reload:"live"`
	MaxKeysPerScope       int     `yaml:"max_keys_per_scope" default:"0" min:"0" doc:"maximum number of stored records of one scope" unit:"records" reload:"live"`
	MaxKeys               int     `yaml:"max_keys" default:"0" min:"0" doc:"maximum number of stored records of all scopes together" unit:"records" reload:"live"`
	LookupsPerSecond      float64 `yaml:"lookups_per_second" default:"0" min:"0" doc:"rate of requests of one scope that are answered 409 or 422, which may be guesses" unit:"requests/s" reload:"live"`
	Unauthenticated       float64 `yaml:"unauthenticated_per_second" default:"100" min:"0" doc:"rate of 401s of one client address; above it 429; behind trusted_proxies the client's address is the forwarded one" unit:"requests/s" reload:"live"`
}

// metrics shape what /metrics serves.
type metrics struct {
	ScopeTopK int `yaml:"scope_top_k" default:"0" min:"0" later:"metrics by scope" doc:"number of scopes that have their own series; 0: none" unit:"scopes" reload:"restart" why:"series are made once"`
}

// console is what operators see in a browser.
type console struct {
	TraceURL string `yaml:"trace_url" example:"https://traces.example/{trace_id}" doc:"URL of a page that shows a trace, with {trace_id} in it" reload:"live"`
}

// keeper paces the loops beside the requests.
type keeper struct {
	SweepInterval Seconds `yaml:"sweep_interval_s" default:"10" min:"0.01" doc:"interval between two searches for runs whose lease has ended" reload:"live"`
	ReapInterval  Seconds `yaml:"reap_interval_s" default:"60" min:"0.01" doc:"interval between two searches for records whose retention has ended" reload:"live"`
	ReapBatch     int     `yaml:"reap_batch" default:"500" min:"1" max:"10000" doc:"number of records removed at a time; each removal is followed by a pause of the same duration" unit:"records" reload:"live"`
}

// audit bounds the history.
type audit struct {
	RetainDays int `yaml:"retain_days" default:"0" min:"0" max:"36500" doc:"after how many days an entry of the audit trail is removed; 0: never" unit:"days" reload:"live"`
}

// Reconcile finds out what became of unknown outcomes.
type Reconcile struct {
	Interval  Seconds `yaml:"interval_s" default:"10" min:"0.001" doc:"interval between two searches for records that are due for a probe" reload:"live"`
	MaxProbes int     `yaml:"max_probes" default:"8" min:"1" doc:"maximum number of probes of a record; then it is a dead letter" unit:"probes" reload:"live"`
	Probe     probe   `yaml:"probe" doc:"request that asks the upstream about an unknown outcome"`
	Webhook   Webhook `yaml:"webhook" doc:"signed notices at POST /hooks/reconcile"`
}

// probe asks the upstream what became of a key.
type probe struct {
	URL           string  `yaml:"url" doc:"URL with {key} {scope} {path} {downstream_key} {fence} {life_key}, which are percent-encoded; empty: the upstream is not asked" secret:"url" reload:"live"`
	HeadersFile   string  `yaml:"headers_file" doc:"file with headers of the probe, such as Authorization, one Name: value per line; the values are never shown" file:"live" reload:"live"`
	Method        string  `yaml:"method" default:"GET" doc:"method of the probe" reload:"live"`
	FoundStatus   []int   `yaml:"found_status" default:"200" min:"200" max:"599" doc:"statuses that say that it happened" unit:"HTTP status" reload:"live"`
	MissingStatus []int   `yaml:"missing_status" default:"404" min:"200" max:"599" doc:"statuses that say that there is no trace of it" unit:"HTTP status" reload:"live"`
	Settle        Seconds `yaml:"settle_s" default:"300" min:"0" doc:"how long after the end of the attempt missing_status becomes proof that nothing happened; 0: never" reload:"live"`
	Respond       respond `yaml:"respond"`
}

// Shown is the URL as it is shown to those who may not see secrets.
func (p *probe) Shown() string { return redactURL(p.URL) }

// respond is the status of an answer found by a probe.
type respond struct {
	Status int `yaml:"status" default:"0" min:"0" max:"599" doc:"status of the answer that retries get; 0: that of the probe" unit:"HTTP status" reload:"live"`
}

// checkStatus returns an error if retries could not be given the answer's status.
func (p *probe) checkStatus() error {
	if s := p.Respond.Status; s != 0 && s < 200 {
		return fmt.Errorf("%d is too little: at least 200, or 0 for that of the probe", s)
	}
	return nil
}

// Webhook lets a provider tell.
type Webhook struct {
	SecretFile string `yaml:"secret_file" doc:"file with the secrets that notices are signed with, one per line; empty: no notices are taken" file:"live" reload:"live"`
	Listen     string `yaml:"listen" doc:"address of a listener of its own; empty: the notices come to the admin listener" reload:"restart" why:"an address is bound once"`
}

// Route is a policy of its own for some requests.
type Route struct {
	Match        string `yaml:"match" nonempty:"required" example:"POST /v1/payments" doc:"ServeMux pattern of the requests; paths are forwarded unchanged" reload:"live"`
	Mode         string `yaml:"mode" enum:"off|shadow|optional|required" example:"required" doc:"replaces required_methods for these requests" reload:"live"`
	MatchEncoded bool   `yaml:"match_encoded" default:"false" doc:"true: the pattern is also compared with the decoded path, for an upstream to which %2F is a slash" reload:"live"`
	Policy       Policy `yaml:"policy" example:"{ wait_policy: wait }" doc:"any setting of the policy above"`
}

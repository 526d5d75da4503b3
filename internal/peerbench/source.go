package peerbench

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
)

// source is the middleware that many tutorials show: a script marks the key as pending, the
// response is cached after it was sent. It knows no fingerprint, no lease that is renewed and no
// fence; that is what it saves.
type source struct {
	rdb  *redis.Client
	next http.Handler
}

const (
	pending    = "PENDING"
	pendingTTL = 15 // seconds
	cachedTTL  = 24 * time.Hour
)

var checkAndSet = redis.NewScript(`
local have = redis.call('get', KEYS[1])
if have == false then
  redis.call('set', KEYS[1], ARGV[1], 'EX', ARGV[2])
  return ''
end
return have`)

type cached struct {
	Status int         `json:"statusCode"`
	Header http.Header `json:"headers"`
	Body   []byte      `json:"body"`
}

// recorder keeps what the handler writes.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := "idem:" + r.Header.Get("X-Tenant-Id") + ":" + r.Header.Get("Idempotency-Key")
	have, err := checkAndSet.Run(r.Context(), s.rdb, []string{name}, pending, pendingTTL).Text()
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		http.Error(w, "store", http.StatusInternalServerError)
	case have == "":
		s.run(w, r, name)
	case have == pending:
		http.Error(w, "in progress", http.StatusConflict)
	default:
		var c cached
		if err := json.Unmarshal([]byte(have), &c); err != nil {
			http.Error(w, "store", http.StatusInternalServerError)
			return
		}
		send(w, &c)
	}
}

func (s *source) run(w http.ResponseWriter, r *http.Request, name string) {
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	s.next.ServeHTTP(rec, r)
	c := cached{rec.status, w.Header().Clone(), rec.body.Bytes()}
	send(w, &c)
	doc, err := json.Marshal(c)
	if err == nil {
		err = s.rdb.Set(r.Context(), name, doc, cachedTTL).Err()
	}
	if err != nil {
		s.rdb.Del(r.Context(), name)
	}
}

func send(w http.ResponseWriter, c *cached) {
	for name, values := range c.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(c.Status)
	_, _ = w.Write(c.Body)
}

package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/sealed"
)

// session is a user who has signed in. The token is kept in memory alone, and never sent back.
type session struct {
	user  string // whose token it is
	token string
	csrf  string
	began time.Time
	used  time.Time
}

// Sessions are the users who have signed in at one process: a restart ends them all. A process that
// makes a new console when its configuration changes hands the same Sessions to each of them. It is
// safe for concurrent use.
type Sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*session // by the hash of the id in the cookie

	csrf    string // in the forms of those who need no session; pages of other origins cannot read it
	cursors sealed.Cursors
}

// NewSessions returns Sessions without any user.
func NewSessions() *Sessions {
	return &Sessions{all: map[[sha256.Size]byte]*session{}, csrf: rand.Text(), cursors: sealed.New()}
}

// The bounds of sessions: their time without a request and their whole time, and how many are kept,
// of one user and of all. Where there are too many, the one that was idle for longest ends.
const (
	sessionIdle    = 12 * time.Hour
	sessionLongest = 7 * 24 * time.Hour
	maxSessions    = 1000
	maxOfUser      = 50
)

const (
	cookieName = "stet-console"
	// secureName is that of cookies over TLS: browsers take it from this very host alone.
	secureName = "__Host-" + cookieName
	tickHeader = "Stet-Tick" // of requests that a page sends by itself
)

// begin starts a session for a user's token that the API has accepted.
func (s *Sessions) begin(user, token string) (id string) {
	id = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endIdlest(maxOfUser, func(one *session) bool { return one.user == user })
	s.endIdlest(maxSessions, func(*session) bool { return true })
	now := time.Now()
	s.all[sha256.Sum256([]byte(id))] = &session{user: user, token: token, csrf: rand.Text(), began: now, used: now}
	return id
}

// endIdlest makes room for one of at most so many sessions.
func (s *Sessions) endIdlest(most int, among func(*session) bool) {
	var idlest [sha256.Size]byte
	var since time.Time
	n := 0
	for at, one := range s.all {
		if !among(one) {
			continue
		}
		if n++; since.IsZero() || one.used.Before(since) {
			idlest, since = at, one.used
		}
	}
	if n >= most {
		delete(s.all, idlest)
	}
}

// of returns the session that a request belongs to, or nil. Its time begins anew, except where a
// page that is left open asks for itself.
func (s *Sessions) of(r *http.Request) *session {
	c, err := r.Cookie(nameFor(r))
	if err != nil {
		return nil
	}
	at := sha256.Sum256([]byte(c.Value))
	s.mu.Lock()
	defer s.mu.Unlock()
	one, now := s.all[at], time.Now()
	switch {
	case one == nil:
		return nil
	case now.Sub(one.used) >= sessionIdle, now.Sub(one.began) >= sessionLongest:
		delete(s.all, at)
		return nil
	}
	if r.Header.Get(tickHeader) == "" {
		one.used = now
	}
	return &session{token: one.token, csrf: one.csrf}
}

// end ends the session that a request belongs to.
func (s *Sessions) end(r *http.Request) {
	if c, err := r.Cookie(nameFor(r)); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, sha256.Sum256([]byte(c.Value)))
	}
}

// cookie holds the id of a session. It ends with the browser or with the session, and goes to no
// request that a page of another site began.
func cookie(r *http.Request, id string) *http.Cookie {
	c := &http.Cookie{Name: nameFor(r), Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil}
	if id == "" {
		c.MaxAge = -1
	}
	return c
}

// nameFor is the cookie's name, with the port in it: browsers send a cookie to all ports of a host,
// and two consoles would sign each other's users out.
func nameFor(r *http.Request) string {
	name := cookieName
	if r.TLS != nil {
		name = secureName
	}
	if _, port, err := net.SplitHostPort(r.Host); err == nil && strings.Trim(port, "0123456789") == "" {
		name += "-" + port
	}
	return name
}

// same compares secrets.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

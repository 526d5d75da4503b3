package console

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// session is a user who has signed in. It is in the user's cookie alone, sealed: only processes with
// the same tokens open it, restarted ones as well. The token in it is looked at with each request, so
// that a session is worth nothing without it.
type session struct {
	ID    string `json:"id"`
	Token string `json:"token"`
	CSRF  string `json:"csrf"`
	Began int64  `json:"began"` // seconds since 1970, as is Used
	Used  int64  `json:"used"`
}

// The bounds of sessions: their time without a request and their whole time. A cookie says when its
// session was used last, to renewEvery.
const (
	sessionIdle    = 12 * time.Hour
	sessionLongest = 7 * 24 * time.Hour
	renewEvery     = time.Minute
)

const (
	cookieName = "stet-console"
	// secureName is that of cookies over TLS: browsers take it from this very host alone.
	secureName = "__Host-" + cookieName
	tickHeader = "Stet-Tick" // of requests that a page sends by itself
)

// What is sealed opens as the same alone.
const (
	asSession = "session"
	asCursor  = "cursor"
	asForm    = "form"
)

// newSession is a session for a token that the API has accepted.
func newSession(token string) *session {
	now := time.Now().Unix()
	return &session{ID: rand.Text(), Token: token, CSRF: rand.Text(), Began: now, Used: now}
}

// sessionOf returns the session that a request belongs to, or nil.
func (h *console) sessionOf(r *http.Request) *session {
	c, err := r.Cookie(nameFor(r))
	if err != nil {
		return nil
	}
	var s session
	text, opened := h.box.Open(c.Value, asSession)
	if !opened || json.Unmarshal([]byte(text), &s) != nil || s.over() || h.Sessions.ended(s.ID) {
		return nil
	}
	return &s
}

func (s *session) over() bool {
	now := time.Now()
	return now.Sub(time.Unix(s.Used, 0)) >= sessionIdle || now.Sub(time.Unix(s.Began, 0)) >= sessionLongest
}

// renew notes in the cookie that the session is used, except where a page that is left open asks for
// itself.
func (h *console) renew(w http.ResponseWriter, r *http.Request, s *session) {
	now := time.Now()
	if !ticks(r) && now.Sub(time.Unix(s.Used, 0)) >= renewEvery {
		s.Used = now.Unix()
		http.SetCookie(w, h.cookie(r, s))
	}
}

// cookie holds a session, or, for nil, takes it away. It ends with the browser or with the session,
// and goes to no request that a page of another site began.
func (h *console) cookie(r *http.Request, s *session) *http.Cookie {
	c := &http.Cookie{Name: nameFor(r), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil}
	if s == nil {
		c.MaxAge = -1
		return c
	}
	text, _ := json.Marshal(s) // texts and numbers
	c.Value = h.box.Seal(string(text), asSession)
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

// Sessions are those that their users have ended before their time, at one process. A process that
// makes a new console when its configuration changes hands the same Sessions to each of them. It is
// safe for concurrent use. Another process, and this one after a restart, does not know of them: to
// end all sessions of a token, take the token back.
type Sessions struct {
	mu  sync.Mutex
	all map[string]time.Time // by id, when they would have ended by themselves
}

// NewSessions returns Sessions of which none has ended.
func NewSessions() *Sessions { return &Sessions{all: map[string]time.Time{}} }

// maxEnded is how many ended sessions are remembered. Beyond them, the one that would have ended
// first is forgotten.
const maxEnded = 1_000

func (s *Sessions) ended(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.all[id]
	return is
}

func (s *Sessions) end(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, now := "", time.Now()
	for id, until := range s.all {
		if !now.Before(until) {
			delete(s.all, id)
		} else if first == "" || until.Before(s.all[first]) {
			first = id
		}
	}
	if len(s.all) >= maxEnded {
		delete(s.all, first)
	}
	s.all[one.ID] = time.Unix(one.Began, 0).Add(sessionLongest)
}

package console

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// signIn is what the page to sign in with shows.
type signIn struct {
	Next  string // the page to go on with
	Kept  string // a form that was sent without a session, sealed
	Error string
}

// keptForm is a form that was sent without a session. It is sent again by the user, who sees it first.
type keptForm struct {
	At     string     `json:"at"`
	Fields url.Values `json:"fields"`
}

// hiddenFields are those of a form that say nothing to a user.
var hiddenFields = []string{"csrf", "if_basis", "version"}

// Typed are the fields of the form that say something to a user, by name.
func (k *keptForm) Typed() (all [][2]string) {
	for _, name := range slices.Sorted(maps.Keys(k.Fields)) {
		if said := strings.Join(k.Fields[name], ", "); said != "" && !slices.Contains(hiddenFields, name) {
			all = append(all, [2]string{name, shown(said)})
		}
	}
	return all
}

// askToSignIn answers those whose token the API does not take. A page is kept in mind, to go on
// with it: of a form that was sent, the page that it was on, and the form.
func (h *console) askToSignIn(w http.ResponseWriter, r *http.Request) {
	at, next := "/login", r.URL.RequestURI()
	if r.Method != http.MethodGet {
		next = pageBefore(r)
		if p := h.newPage(w, r); r.Header.Get("HX-Request") == "" && p.readForm(small) == nil {
			r.PostForm.Del("csrf")
			text, _ := json.Marshal(keptForm{r.URL.Path, r.PostForm}) // texts
			if kept := h.box.Seal(string(text), asForm); len(kept) < maxLogin-small {
				drawLogin(p, http.StatusUnauthorized, signIn{Next: next, Kept: kept})
				return
			}
		}
	}
	if next != "/" {
		at += "?" + url.Values{"next": {next}}.Encode()
	}
	switch {
	case r.Header.Get("HX-Request") != "":
		w.Header().Set("HX-Redirect", at) // of the whole window
		w.WriteHeader(http.StatusUnauthorized)
	case h.sentByAnotherSite(r):
		// A browser keeps the cookie back where a link of another site is followed, such as an
		// alert's. It sends it when this page asks again.
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = h.newPage(w, r).write(http.StatusOK, "again", view{Title: "Stet", D: r.URL.RequestURI()})
	default:
		http.Redirect(w, r, at, http.StatusSeeOther)
	}
}

// pageBefore is the path of the page of this console that a form was on, or the first one.
func pageBefore(r *http.Request) string {
	u, err := url.Parse(r.Referer())
	if err != nil || u.Host != r.Host {
		return "/"
	}
	return nextPage(u.EscapedPath())
}

func (h *console) sentByAnotherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	_, err := r.Cookie(nameFor(r))
	return r.Method == http.MethodGet && err != nil && (site == "cross-site" || site == "same-site")
}

// loginPage answers GET /login.
func (h *console) loginPage(w http.ResponseWriter, r *http.Request) {
	drawLogin(h.newPage(w, r), http.StatusOK, signIn{Next: nextPage(r.URL.Query().Get("next"))})
}

func drawLogin(p *page, status int, d signIn) {
	if err := p.write(status, "login", view{Name: "login", Title: "Sign in", D: d}); err != nil {
		p.fail(err)
	}
}

// nextPage is a page of this console, or the first one: an address elsewhere is not gone on with.
func nextPage(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(at, "//") || strings.ContainsAny(at, "\\\r\n\t") || isAPI(u.Path) {
		return "/"
	}
	return at
}

// small is the most bytes of a form that is kept while its user signs in, and maxLogin of the forms
// to sign in, which has the other in it, sealed, and to sign out.
const (
	small    = 64 << 10
	maxLogin = 4 * small
)

// login answers POST /login. The API says whether it takes the token, and slows down those who
// guess.
func (h *console) login(w http.ResponseWriter, r *http.Request) {
	p := h.newPage(w, r)
	if p.readForm(maxLogin) != nil {
		p.fail(foreignForm)
		return
	}
	d := signIn{Next: nextPage(r.PostForm.Get("next")), Kept: r.PostForm.Get("kept")}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		d.Error = "Type a token."
		drawLogin(p, http.StatusUnauthorized, d)
		return
	}
	err := fit(h.door.SignIn(r, token))
	bad, is := errors.AsType[*problem](err)
	switch {
	case err == nil:
		p.session = newSession(token)
		http.SetCookie(w, h.cookie(r, p.session))
		continueForm(p, d)
	case is && bad.Status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", bad.RetryAfter)
		d.Error = bad.Detail
		drawLogin(p, bad.Status, d)
	case is && bad.Status == http.StatusUnauthorized:
		d.Error = "No such token, or it has expired."
		drawLogin(p, bad.Status, d)
	default:
		p.fail(err)
	}
}

// continueForm goes on after a user has signed in: with a page, or with the form that was not sent.
func continueForm(p *page, d signIn) {
	var kept keptForm
	text, opened := p.console.box.Open(d.Kept, asForm)
	if !opened || json.Unmarshal([]byte(text), &kept) != nil {
		_ = p.to(d.Next)
		return
	}
	p.token, p.CSRF = p.session.Token, p.session.CSRF
	leave, err := p.enter()
	defer leave()
	if err == nil {
		err = p.render(http.StatusOK, "kept", view{Title: "Not sent yet", D: &kept})
	}
	if err != nil {
		p.fail(err)
	}
}

// logout answers POST /logout.
func (h *console) logout(w http.ResponseWriter, r *http.Request) {
	p := h.newPage(w, r)
	if p.readForm(maxLogin) != nil || p.session != nil && !same(p.Typed("csrf"), p.CSRF) { // without a session there is nothing to end
		p.fail(foreignForm)
		return
	}
	if p.session != nil {
		h.Sessions.end(p.session)
	}
	http.SetCookie(w, h.cookie(r, nil))
	_ = p.to("/login")
}

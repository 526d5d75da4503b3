package config

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/spell"
)

// A pattern that no request can match is a route without effect: what it was to guard passes by.
// ServeMux takes many of them, since to it a path without a slash begins with a host, and a star or
// a colon is a character like others.

// registered are the methods of the IANA registry, and some that caches and object stores have.
var registered = strings.Fields("GET HEAD POST PUT PATCH DELETE OPTIONS TRACE QUERY ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK " +
	"MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK " +
	"UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL PURGE BAN")

// unreachable says why no request matches a pattern, and how it was meant; "" if one does. ServeMux
// has taken the pattern.
func (k *checker) unreachable(pattern string, p *Policy) string {
	method, rest, found := strings.Cut(strings.ReplaceAll(pattern, "\t", " "), " ")
	if !found {
		method, rest = "", pattern
	}
	rest = strings.TrimLeft(rest, " ")
	path := rest[strings.IndexByte(rest, '/'):] // ServeMux wants one
	return cmp.Or(unknownMethod(method, p.EnabledMethods), nobodySends(strings.TrimSuffix(rest, path), path),
		notThePath(path), k.refused(method, path))
}

// unknownMethod says what is wrong with the method of a pattern or a list.
func unknownMethod(method string, enabled []string) string {
	switch upper := strings.ToUpper(method); {
	case method == "":
		return ""
	case method == http.MethodConnect:
		return "CONNECT asks for a tunnel, and a gateway to one server makes none: leave this out"
	case method != upper:
		return fmt.Sprintf("methods are case-sensitive, and no client sends %s: write %s", method, upper)
	case slices.Contains(registered, method), slices.Contains(enabled, method):
		return ""
	}
	return fmt.Sprintf("there is no method %s%s", method,
		cmp.Or(spell.Hint(method, registered), "; if clients send it, name it in policy.enabled_methods"))
}

// nobodySends says why no request has a host: ServeMux compares it with the Host field, without its
// port.
func nobodySends(host, path string) string {
	bare := strings.Trim(host, "[]")
	switch {
	case host == "": // all of them
		return ""
	case strings.ContainsAny(host, "*{}"):
		return fmt.Sprintf("%s stands for no other hosts: leave it out, and the route is for all of them", host)
	case strings.Contains(host, ":") && host == bare: // [::1] has colons, too
		name, _, _ := strings.Cut(host, ":")
		return fmt.Sprintf("hosts are matched without their port: write %s", name+path)
	case !strings.Contains(host, ".") && host != "localhost" && host == bare:
		return fmt.Sprintf("%q is read as a host, since a path begins with a slash: write /%s; a host is written in full, such as %s.example.com", host, host+path, host)
	}
	return ""
}

// notThePath says what of a path other routers would read in another way than ServeMux does.
func notThePath(path string) string {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		return fmt.Sprintf("patterns are of paths, and %s is no part of one: leave it out, as every query matches", path[i:])
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		switch name := strings.TrimLeft(segment, ":"); {
		case strings.Contains(segment, "*") && strings.HasSuffix(path, "/"+segment):
			return fmt.Sprintf("a star stands for itself: write %s for everything below, or %%2A for a star",
				strings.TrimSuffix(path, segment)+"{rest...}")
		case strings.Contains(segment, "*"):
			return "a star stands for itself: write {name} for one segment, or %2A for a star"
		case name != segment && name != "":
			return fmt.Sprintf("a colon stands for itself: write {%s} for one segment, or %%3A for a colon", strings.TrimRight(name, "?"))
		}
	}
	return ""
}

// refused says why a request for a pattern's path is refused at the door, whatever stands for its
// wildcards.
func (k *checker) refused(method, path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		switch {
		case segment == "{$}":
			segments[i] = ""
		case strings.HasPrefix(segment, "{"):
			segments[i] = "x"
		}
	}
	path = strings.Join(segments, "/")
	sent := &http.Request{Method: method, URL: &url.URL{Path: path}, RequestURI: path, Header: http.Header{}}
	if _, fault := (&door.Rules{MaxTarget: k.Limits.MaxTargetBytes}).Enter(sent); fault != nil {
		return "requests for it are refused: " + fault.Detail
	}
	return ""
}

// idle says why a mode has no effect on a route's method.
func idle(r *Route) string {
	method, _, found := strings.Cut(r.Match, " ")
	if !found || r.Mode == "" || r.Mode == "off" || slices.Contains(r.Policy.EnabledMethods, method) {
		return ""
	}
	return fmt.Sprintf("%s is not in enabled_methods, so it always passes: add it to policy.enabled_methods here, or take the mode away", method)
}

package door

import "net/http"

// Name returns the one form of a field's name: every byte that is neither a letter nor a digit is a
// hyphen, and letters are as in the maps of net/http. Two names with one form are the same field to
// some readers: CGI and what descends from it turn hyphens into underscores, and PHP dots as well
// (RFC 3875 section 4.1.18). A name that is in this form is returned as it is, and nothing is
// allocated.
func Name(name string) string {
	if inForm(name) {
		return name
	}
	b := []byte(name)
	for i, c := range b {
		if !letter(c) && !digit(c) {
			b[i] = '-'
		}
	}
	return http.CanonicalHeaderKey(string(b))
}

// HoldsCredential reports whether a header, whose name is in the form of [Name], is known to hold
// what must neither be stored nor listed.
func HoldsCredential(form string) bool {
	switch form {
	case "Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Auth-Token", "X-Access-Token":
		return true
	}
	return false
}

func inForm(name string) bool {
	first := true // of a word
	for i := range len(name) {
		switch c := name[i]; {
		case c == '-':
			first = true
			continue
		case digit(c), first && 'A' <= c && c <= 'Z', !first && 'a' <= c && c <= 'z':
		default:
			return false
		}
		first = false
	}
	return true
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

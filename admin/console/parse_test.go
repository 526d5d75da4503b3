package console_test

import (
	"net/url"
	"strings"
)

// tag is an element's beginning.
type tag struct {
	name  string
	attrs map[string]string
	at    int
}

func has(t tag, attr string) bool { _, ok := t.attrs[attr]; return ok }

var unescape = strings.NewReplacer("&amp;", "&", "&#34;", `"`, "&#39;", "'", "&lt;", "<", "&gt;", ">", "&#43;", "+")

// tagsOf finds the elements of a page. It reads the page once and by hand: a regular expression
// took most of the time of these tests.
func tagsOf(page string) (all []tag) {
	for at := strings.IndexByte(page, '<'); at >= 0; {
		t, end, ok := tagAt(page, at)
		if !ok {
			end = at + 1
		} else {
			all = append(all, t)
		}
		next := strings.IndexByte(page[end:], '<')
		if next < 0 {
			break
		}
		at = end + next
	}
	return all
}

// tagAt reads the tag that begins at a place, and says where it ends. What has an attribute without
// quotes is none: the templates write none, so that it would be text of a client.
func tagAt(page string, at int) (t tag, end int, ok bool) {
	rest := page[at+1:]
	name := word(rest)
	if name == "" || strings.ContainsRune("0123456789-_:", rune(name[0])) {
		return t, 0, false
	}
	t = tag{strings.ToLower(name), map[string]string{}, at}
	for rest = rest[len(name):]; ; {
		next := strings.TrimLeft(rest, " \t\r\n\f")
		if after, ends := strings.CutPrefix(strings.TrimPrefix(next, "/"), ">"); ends {
			return t, len(page) - len(after), true
		}
		key := word(next)
		if key == "" || len(next) == len(rest) {
			return t, 0, false
		}
		rest = next[len(key):]
		value := ""
		if strings.HasPrefix(rest, `="`) || strings.HasPrefix(rest, `='`) {
			var closed bool
			if value, rest, closed = strings.Cut(rest[2:], rest[1:2]); !closed {
				return t, 0, false
			}
		}
		if strings.IndexByte(value, '&') >= 0 {
			value = unescape.Replace(value)
		}
		t.attrs[strings.ToLower(key)] = value
	}
}

// word is the name that a text begins with.
func word(s string) string {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '_' && c != ':' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return s[:i]
		}
	}
	return s
}

// spans are the parts of a page from one text to the next of another.
func spans(page, from, to string) (all [][2]int) {
	for at := 0; ; {
		begin := strings.Index(page[at:], from)
		if begin < 0 {
			return all
		}
		begin += at
		end := strings.Index(page[begin:], to)
		if end < 0 {
			return all
		}
		at = begin + end + len(to)
		all = append(all, [2]int{begin, at})
	}
}

type form struct {
	action, method string
	fields         url.Values // hidden ones, and those with a value
}

func formsOf(page string) []form { return formsIn(page, tagsOf(page)) }

func formsIn(page string, tags []tag) (all []form) {
	last := strings.LastIndex(page, "</form>")
	for _, t := range tags {
		switch {
		case t.name == "form":
			all = append(all, form{t.attrs["action"], strings.ToLower(t.attrs["method"]), url.Values{}})
		case t.name == "input" && len(all) > 0 && t.at < last && t.attrs["name"] != "" && t.attrs["type"] != "checkbox" &&
			(t.attrs["type"] != "radio" || has(t, "checked")):
			all[len(all)-1].fields.Add(t.attrs["name"], t.attrs["value"])
		}
	}
	return all
}

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// browser is one without scripts: it knows the page that it shows, follows its links and sends its
// forms.
type browser struct {
	*testing.T
	client   http.Client
	at       *url.URL
	text     string // what the page shows, its words one blank apart
	controls []*control
	defs     map[string]string // of its lists: what stands beside a name
}

// control is a link, a button or a field.
type control struct {
	tag   string
	attr  map[string]string
	label string // its own text, or that of the label around it
	form  *control
}

func newBrowser(t *testing.T, start string) *browser {
	t.Helper()
	at, err := url.Parse(start)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{T: t, client: http.Client{Jar: jar, Timeout: patience}, at: at}
}

func (b *browser) open(address string) {
	b.Helper()
	b.load(http.MethodGet, address, nil)
}

// follow opens the page of a link that the page has.
func (b *browser) follow(address string) {
	b.Helper()
	for _, c := range b.controls {
		if c.tag == "a" && c.attr["href"] == address {
			b.open(address)
			return
		}
	}
	b.Fatalf("%s has no link to %s:\n%s", b.at, address, b.text)
}

// press sends the form of a button, after the fields with these labels were filled in. Where
// buttons have the same text, it is the one whose form has those fields.
func (b *browser) press(text string, typed map[string]string) {
	b.Helper()
	for _, c := range b.controls {
		if c.tag != "button" || c.label != text || c.form == nil || c.attr["type"] == "button" {
			continue
		}
		if fields, ok := b.fill(c.form, typed); ok {
			if c.attr["name"] != "" {
				fields.Add(c.attr["name"], c.attr["value"])
			}
			action := c.form.attr["action"]
			if other := c.attr["formaction"]; other != "" {
				action = other
			}
			b.load(strings.ToUpper(c.form.attr["method"]), action, fields)
			return
		}
	}
	b.Fatalf("%s has no button %q whose form takes %v:\n%s", b.at, text, typed, b.text)
}

// fill returns what a form sends, if it has all these fields, and none is left out that it needs.
func (b *browser) fill(form *control, typed map[string]string) (url.Values, bool) {
	fields, found := url.Values{}, 0
	for _, c := range b.controls {
		if c.form != form || c.attr["name"] == "" || c.tag != "input" && c.tag != "textarea" {
			continue
		}
		value, is := typed[c.label]
		_, checked := c.attr["checked"]
		switch kind := c.attr["type"]; {
		case is && kind != "hidden":
			found++
		case (kind == "checkbox" || kind == "radio") && !checked:
			continue
		default:
			value = c.attr["value"]
		}
		if _, required := c.attr["required"]; required && value == "" {
			return nil, false
		}
		fields.Add(c.attr["name"], value)
	}
	return fields, found == len(typed)
}

// load shows the page at an address, where the redirects end.
func (b *browser) load(method, address string, fields url.Values) {
	b.Helper()
	to, err := b.at.Parse(address)
	if err != nil {
		b.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.Context(), method, to.String(), strings.NewReader(fields.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", b.at.Scheme+"://"+b.at.Host)
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b.at = res.Request.URL
	if err := b.read(res.Body); err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("%s %s: %s, %v\n%s", method, address, res.Status, err, b.text)
	}
}

// read takes the page apart. Pages have no text in scripts or styles, and the parser of XML copes
// with their tags, where it need not match them.
func (b *browser) read(page io.Reader) error {
	var text strings.Builder
	var open []*control // elements whose end has not come, of those that matter here
	var form *control
	term := ""
	owners := map[*control]string{} // fields that name their form
	b.controls, b.defs = nil, map[string]string{}
	in := xml.NewDecoder(page)
	in.Strict, in.Entity = false, xml.HTMLEntity
	for {
		token, err := in.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch e := token.(type) {
		case xml.StartElement:
			text.WriteByte(' ')
			c := &control{tag: e.Name.Local, attr: map[string]string{}, form: form}
			for _, a := range e.Attr {
				c.attr[a.Name.Local] = a.Value
			}
			switch c.tag {
			case "form":
				form, c.form = c, nil
				b.controls = append(b.controls, c)
			case "input", "textarea", "button", "a":
				b.controls = append(b.controls, c)
				if c.attr["form"] != "" {
					owners[c] = c.attr["form"]
				}
				c.label = c.attr["aria-label"]
				if i := slices.IndexFunc(open, func(o *control) bool { return o.tag == "label" }); i >= 0 {
					c.label = words(open[i].label)
				}
			}
			if slices.Contains([]string{"textarea", "button", "a", "label", "dt", "dd"}, c.tag) {
				open = append(open, c)
			}
		case xml.CharData:
			text.Write(e)
			for _, o := range open {
				switch o.tag {
				case "textarea":
					o.attr["value"] += string(e)
				default:
					o.label += string(e)
				}
			}
		case xml.EndElement:
			text.WriteByte(' ')
			if e.Name.Local == "form" {
				form = nil
			}
			last := len(open) - 1
			if last < 0 || open[last].tag != e.Name.Local {
				continue
			}
			c := open[last]
			open = open[:last]
			if c.tag != "textarea" {
				c.label = words(c.label)
			}
			switch c.tag {
			case "dt":
				term = c.label
			case "dd":
				b.defs[term] = c.label
			}
		}
	}
	for c, id := range owners {
		i := slices.IndexFunc(b.controls, func(f *control) bool { return f.tag == "form" && f.attr["id"] == id })
		if i >= 0 {
			c.form = b.controls[i]
		}
	}
	b.text = words(text.String())
	return nil
}

// defined is what the page has beside a name in one of its lists.
func (b *browser) defined(name string) string {
	b.Helper()
	if b.defs[name] == "" {
		b.Fatalf("%s does not say the %s:\n%s", b.at, name, b.text)
	}
	return b.defs[name]
}

// words are those of a text, one blank apart.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

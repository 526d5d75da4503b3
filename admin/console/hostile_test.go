package console_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/operate"
)

// What clients sent cannot become a script, an attribute or an address of a page, nor turn the text
// around it, nor make the page long.
func TestHostileData(t *testing.T) {
	const (
		script = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
		attr   = `' onmouseover=alert(3) x="`
		link   = `javascript:alert(4)`
		bidi   = "a\u202egpj.exe\u2066\u200f"
		ctrl   = "x\x00\x1b[31m\x7f"
	)
	long := strings.Repeat("long", 1<<10) // of sixteen records and more, in a dozen texts of each
	for _, evil := range []string{script, attr, link, bidi, ctrl, long, `{{.CSRF}}`, "</textarea><script>alert(5)</script>", `\u0022); alert(6)//`} {
		f := newFake()
		f.settle()
		for _, r := range f.records {
			r.Scope, r.Path, r.Cause, r.Owner, r.Route, r.TraceID, r.Point, r.Method = evil, "/"+evil, evil, evil, evil, evil, evil, evil
			r.Points = []flow.Point{{Name: evil, At: r.CreatedAt}}
			r.With = &operate.Handover{To: evil, Who: evil, Note: evil, At: f.now}
			if r.Probe != nil && r.ID != cutID {
				r.Probe.Evidence, r.Probe.Found = evil, "happened"
			}
			if r.Mismatch != nil {
				r.Mismatch.Parts, r.Mismatch.TraceID = []string{"header:" + evil, evil}, evil
			}
		}
		for i := range f.entries {
			f.entries[i].Who, f.entries[i].Reason, f.entries[i].Evidence, f.entries[i].Action, f.entries[i].Scope = evil, evil, evil, evil, evil
		}
		v := as(t, f, "admin")
		for _, at := range pages {
			if strings.Contains(at, "i-v1") {
				continue // the fake makes these addresses of the paths
			}
			res, page := v.get(at)
			if res.StatusCode != 200 {
				t.Errorf("%s with %.30q: %d", at, evil, res.StatusCode)
			}
			for _, p := range faults(page) {
				t.Errorf("%s with %.30q: %.200s", at, evil, p)
			}
			if strings.ContainsAny(page, "\u202e\u2066\u200f\x00\x1b\x7f") || strings.Contains(page, "<img") || strings.Contains(page, "<script>") {
				t.Errorf("%s with %.30q: it is in the page as it is", at, evil)
			}
			if strings.Contains(page, long[:301]) {
				t.Errorf("%s with %.30q: more than 300 bytes of it are shown", at, evil)
			}
		}
		res, page := v.submit(v.page("/keys/"+doneID), "/keys/"+doneID+"/note", map[string][]string{"note": {evil}})
		if res.StatusCode != 303 {
			t.Errorf("a note of %.30q: %d %.300s", evil, res.StatusCode, page)
		}
		if _, page := v.get("/keys?scope=" + encode(evil)); strings.Contains(page, "<script>") {
			t.Errorf("a filter of %.30q is in the page as it is", evil)
		}
	}
}

func encode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString("%" + strings.ToUpper(strconv.FormatInt(int64(s[i])+256, 16)[1:]))
	}
	return b.String()
}

// Text and marks can be told from what they stand on, light and dark: 4.5 to 1 for text, 3 to 1 for
// marks and the borders of fields (WCAG 2.2, 1.4.3 and 1.4.11).
func TestContrast(t *testing.T) {
	css, err := os.ReadFile("assets/console.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, ok := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("there are no dark colours")
	}
	dark, _, _ = strings.Cut(dark, "/* ----")
	property := regexp.MustCompile(`--([\w-]+):\s*(#[0-9a-fA-F]{6})`)
	for name, text := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]string{}
		for _, m := range property.FindAllStringSubmatch(text, -1) {
			colors[m[1]] = m[2]
		}
		pairs := 0
		check := func(front, back string, least float64) {
			if colors[front] == "" || colors[back] == "" {
				t.Errorf("%s: %s or %s is no colour", name, front, back)
				return
			}
			pairs++
			if got := contrast(t, colors[front], colors[back]); got < least {
				t.Errorf("%s: %s on %s is %.2f to 1", name, front, back, got)
			}
		}
		states := []string{"unknown", "dead", "running", "done", "retry", "over"}
		for _, back := range []string{"page", "card", "sunk", "hover"} {
			for _, front := range []string{"ink", "ink-2", "ink-3"} {
				check(front, back, 4.5)
			}
			for _, s := range states {
				check(s, back, 4.5)
				check(s+"-mark", back, 3)
			}
			check("edge", back, 3)
		}
		for _, s := range states {
			check(s, s+"-tint", 4.5)
			check(s+"-mark", s+"-tint", 3)
			check("ink", s+"-tint", 4.5)
		}
		check("on-solid", "solid", 4.5)
		if pairs < 79 {
			t.Errorf("%s: only %d pairs", name, pairs)
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	light := func(color string) float64 {
		sum := 0.0
		for i, weight := range []float64{.2126, .7152, .0722} {
			n, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= .04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x, y := light(a), light(b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

// A long body is cut between characters: it is still text.
func TestLongBodiesAreCutBetweenCharacters(t *testing.T) {
	for _, body := range []string{strings.Repeat("é", 1<<16), "x" + strings.Repeat("é", 1<<16), strings.Repeat("漢", 1<<15)} {
		text, said := console.BodyText([]byte(body))
		if len(text) < 64<<10-3 || len(text) > 64<<10 || !strings.HasPrefix(body, text) {
			t.Errorf("of %.8q… %d bytes are shown: %s", body, len(text), said)
		}
	}
	if text, said := console.BodyText([]byte("\xff\xfe")); text != "" || !strings.HasPrefix(said, "It is no text") {
		t.Errorf("%q is shown: %s", text, said)
	}
}

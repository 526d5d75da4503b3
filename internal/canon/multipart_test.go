package canon

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"
)

func multipartText(src, boundary string) (string, bool) {
	var m Multipart
	if !m.Parse([]byte(src), boundary) {
		return "", false
	}
	return written(m.Write), true
}

// upload is a body as mime/multipart writes it.
func upload(t testing.TB, boundary, fileName, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteField("amount", "100"); err != nil {
		t.Fatal(err)
	}
	part, err := w.CreateFormFile("receipt", fileName)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(part, content)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// FP-24
func TestMultipartSame(t *testing.T) {
	content := "\x00\xff\r\n\r\n--\r\n--x\r\n"
	first, ok := multipartText(upload(t, "one", "r.pdf", content), "one")
	if !ok {
		t.Fatal("refused")
	}
	if again, ok := multipartText(upload(t, "another-boundary", "r.pdf", content), "another-boundary"); !ok || again != first {
		t.Error("the boundary matters")
	}
	spelled := strings.NewReplacer("Content-Disposition: ", "content-disposition:\t", "Content-Type:", "CONTENT-TYPE:").Replace(upload(t, "one", "r.pdf", content))
	if again, ok := multipartText(spelled, "one"); !ok || again != first {
		t.Error("the case of header names or white space around values matters")
	}
	if again, ok := multipartText("--b\r\nB: 2\r\nA: 1\r\n\r\nx\r\n--b--", "b"); !ok {
		t.Error("refused without a last line end")
	} else if swapped, _ := multipartText("--b\r\nA: 1\r\nB: 2\r\n\r\nx\r\n--b--\r\n", "b"); swapped != again {
		t.Error("the order of header lines matters")
	}
	many := [2]string{}
	for i := range 15 {
		many[0] += fmt.Sprintf("B: %d\r\nA: %d\r\n", i, i)
		many[1] += fmt.Sprintf("A: %d\r\n", i)
	}
	for i := range 15 {
		many[1] += fmt.Sprintf("B: %d\r\n", i)
	}
	a, _ := multipartText("--b\r\n"+many[0]+"\r\nx\r\n--b--\r\n", "b")
	if b, ok := multipartText("--b\r\n"+many[1]+"\r\nx\r\n--b--\r\n", "b"); !ok || a != b {
		t.Error("header lines of one name do not keep their order")
	}
	for _, other := range []string{upload(t, "one", "r.pdf", content+" "), upload(t, "one", "s.pdf", content), upload(t, "one", "r.pdf", "")} {
		if form, ok := multipartText(other, "one"); !ok || form == first {
			t.Errorf("read = %v, and the same", ok)
		}
	}
}

func TestMultipartDiffers(t *testing.T) {
	seen := map[string]string{}
	for _, src := range []string{
		"--b\r\n\r\n\r\n--b--\r\n",
		"--b\r\n\r\n\r\n\r\n--b--\r\n",
		"--b\r\n\r\nx\r\n--b--\r\n",
		"--b\r\n\r\nx\r\n--b\r\n\r\n\r\n--b--\r\n",
		"--b\r\n\r\n\r\n--b\r\n\r\nx\r\n--b--\r\n",
		"--b\r\nA: x\r\n\r\n\r\n--b--\r\n",
		"--b\r\nA:\r\n\r\nx\r\n--b--\r\n",
		"--b\r\nA: 1\r\nA: 2\r\n\r\nx\r\n--b--\r\n",
		"--b\r\nA: 2\r\nA: 1\r\n\r\nx\r\n--b--\r\n",
		"--b\r\nA: 1\r\n\r\nA: 2\r\n\r\nx\r\n--b--\r\n",
	} {
		form, ok := multipartText(src, "b")
		if before, same := seen[form]; !ok || same {
			t.Errorf("%q: read = %v, and the same as %q", src, ok, before)
		}
		seen[form] = src
	}
}

func TestMultipartRefuses(t *testing.T) {
	many := func(n int, unit string) string { return strings.Repeat(unit, n) }
	for name, src := range map[string]string{
		"nothing":                      "",
		"no part":                      "--b--\r\n",
		"other boundary":               "--c\r\n\r\nx\r\n--c--\r\n",
		"preamble without a line end":  "hello--b\r\n\r\nx\r\n--b--\r\n",
		"epilogue behind a boundary":   "--b\r\n\r\nx\r\n--b--bye",
		"boundary in the epilogue":     "--b\r\n\r\nx\r\n--b--\r\n--b\r\n\r\ny\r\n--b--\r\n",
		"never closed":                 "--b\r\n\r\nx\r\n--b\r\n",
		"cut short":                    "--b\r\n\r\nx\r\n--b-",
		"no content":                   "--b\r\nA: 1\r\n",
		"header cut short":             "--b\r\nA: 1",
		"part without content line":    "--b\r\nA: 1\r\n\r\n--b--\r\n",
		"line feeds":                   "--b\n\nx\n--b--\n",
		"line feed before a boundary":  "--b\r\n\r\nx\n--b\r\n\r\ny\r\n--b--\r\n",
		"text behind a boundary":       "--b\r\n\r\nx\r\n--b \r\n\r\ny\r\n--b--\r\n",
		"content begins like boundary": "--b\r\n\r\nx\r\n--bb\r\n\r\n--b--\r\n",
		"boundary inside of a line":    "--b\r\n\r\nx--b\r\n--b--\r\n",
		"folded header":                "--b\r\nA: 1\r\n 2\r\n\r\nx\r\n--b--\r\n",
		"header without a colon":       "--b\r\nA 1\r\n\r\nx\r\n--b--\r\n",
		"header name with a space":     "--b\r\nA : 1\r\n\r\nx\r\n--b--\r\n",
		"header without a name":        "--b\r\n: 1\r\n\r\nx\r\n--b--\r\n",
		"line feed in a header":        "--b\r\nA: 1\nB: 2\r\n\r\nx\r\n--b--\r\n",
		"too many parts":               many(maxParts+1, "--b\r\n\r\nx\r\n") + "--b--\r\n",
		"too many headers":             "--b\r\n" + many(maxPartHeaders+1, "A: 1\r\n") + "\r\nx\r\n--b--\r\n",
	} {
		if _, ok := multipartText(src, "b"); ok {
			t.Errorf("%s: read", name)
		}
	}
	if _, ok := multipartText(many(maxParts, "--b\r\n\r\nx\r\n")+"--b--\r\n", "b"); !ok {
		t.Error("refused at the limit of parts")
	}
	if _, ok := multipartText("--b\r\n"+many(maxPartHeaders, "A: 1\r\n")+"\r\nx\r\n--b--\r\n", "b"); !ok {
		t.Error("refused at the limit of headers")
	}
	for _, boundary := range []string{"", many(maxBoundary+1, "b")} {
		if _, ok := multipartText("--"+boundary+"\r\n\r\nx\r\n--"+boundary+"--\r\n", boundary); ok {
			t.Errorf("read with a boundary of %d", len(boundary))
		}
	}
}

// What stands around the parts is read, and is known to be there.
func TestMultipartBare(t *testing.T) {
	for src, bare := range map[string]bool{
		"--b\r\n\r\nx\r\n--b--":               true,
		"--b\r\n\r\nx\r\n--b--\r\n":           true,
		"\r\n--b\r\n\r\nx\r\n--b--\r\n":       false,
		"hello\r\n--b\r\n\r\nx\r\n--b--\r\n":  false,
		"--b\r\n\r\nx\r\n--b--\r\nbye":        false,
		"--b\r\n\r\nx\r\n--b--\r\n\r\n":       false,
		"a\r\nb\r\n--b\r\n\r\nx\r\n--b--\r\n": false,
	} {
		var m Multipart
		if !m.Parse([]byte(src), "b") || m.Bare() != bare || len(m.parts) != 1 || string(m.parts[0].content) != "x" {
			t.Errorf("%q: bare %v, %d parts", src, m.Bare(), len(m.parts))
		}
	}
}

func nested(src, media string) string {
	var m Multipart
	if !m.Parse([]byte(src), Boundary(media)) {
		return "refused"
	}
	return written(func(w *Writer) { m.WriteNested(w, media) })
}

// Bodies that differ are written differently, whatever their parts are made to look like.
func TestNestedDiffers(t *testing.T) {
	seen := map[string]string{}
	deep := "--b9\r\n\r\nx\r\n--b9--"
	for i := 8; i >= 0; i-- {
		deep = fmt.Sprintf("--b%d\r\nContent-Type: multipart/mixed; boundary=b%d\r\n\r\n%s\r\n--b%d--", i, i+1, deep, i)
	}
	const inner = "--c\r\n\r\nx\r\n--c--"
	part := func(fields, content string) string { return "--b0\r\n" + fields + "\r\n" + content + "\r\n--b0--" }
	for _, c := range []struct{ src, media string }{
		{deep, "multipart/mixed; boundary=b0"},
		{part("Content-Type: multipart/mixed; boundary=c\r\n", inner), "multipart/mixed; boundary=b0"},
		{part("Content-Type: multipart/mixed; boundary=c; x=1\r\n", inner), "multipart/mixed; boundary=b0"},
		{part("Content-Type: multipart/mixed; boundary=c\r\nX: multipart/mixed; boundary=c\r\n", inner), "multipart/mixed; boundary=b0"},
		{part("Content-Type: multipart/mixed; boundary=c\r\n", "before\r\n"+inner), "multipart/mixed; boundary=b0"},
		{part("Content-Type: multipart/mixed; boundary=c\r\n", inner+"\r\nafter"), "multipart/mixed; boundary=b0"},
		{part("Content-Type: multipart/mixed; boundary=d\r\n", inner), "multipart/mixed; boundary=b0"}, // not to be read
		{part("Content-Type: text/plain; boundary=c\r\n", inner), "multipart/mixed; boundary=b0"},
		{part("Content-Type: multipart/mixed; boundary=c\r\nContent-Type: multipart/mixed; boundary=c\r\n", inner), "multipart/mixed; boundary=b0"},
		{part("", inner), "multipart/mixed; boundary=b0"},
		{part("", inner), "multipart/mixed; boundary=b0; start=x"},
		{part("", inner), "multipart/mixed; boundary=b0; type=x"},
		{part("", "x"), "multipart/mixed; boundary=b0"},
	} {
		text := nested(c.src, c.media)
		if before, same := seen[text]; same || text == "refused" {
			t.Errorf("%q, %s: the same as %q", c.src, c.media, before)
		}
		seen[text] = c.src
	}
	if again := nested(strings.ReplaceAll(deep, "b5", "other"), "multipart/mixed; boundary=b0"); seen[again] != deep {
		t.Error("an inner boundary counts")
	}
	if again := nested(strings.ReplaceAll(deep, "b9", "other"), "multipart/mixed; boundary=b0"); seen[again] != "" {
		t.Error("what is nested too deeply is read")
	}
}

// What is read here, mime/multipart reads into the same parts.
func FuzzMultipart(f *testing.F) {
	f.Add([]byte(upload(f, "b", "r.pdf", "x\r\n")), "b")
	f.Add([]byte("--b\r\nA: 1\r\n\r\nx\r\n--b--\r\n"), "b")
	f.Add([]byte("--b\r\n\r\n--b--"), "b")
	f.Fuzz(func(t *testing.T, src []byte, boundary string) {
		var m Multipart
		if !m.Parse(src, boundary) {
			return
		}
		form := written(m.Write)
		r := multipart.NewReader(bytes.NewReader(src), boundary)
		var again bytes.Buffer
		fmt.Fprintf(&again, "--B0undary")
		for i := range m.parts {
			p, err := r.NextRawPart()
			if err != nil {
				// net/textproto refuses some header values that are the sender's business.
				return
			}
			content, err := io.ReadAll(p)
			if err != nil || !bytes.Equal(content, m.parts[i].content) {
				t.Fatalf("part %d: %q, %v, here %q", i, content, err, m.parts[i].content)
			}
			if !headersAgree(p.Header, m.headersOf(i)) {
				t.Fatalf("part %d: headers %v", i, p.Header)
			}
			again.WriteString("\r\n")
			for _, h := range m.headersOf(i) {
				fmt.Fprintf(&again, "%s: %s\r\n", h.name, h.value)
			}
			fmt.Fprintf(&again, "\r\n%s\r\n--B0undary", content)
		}
		if _, err := r.NextRawPart(); err != io.EOF {
			t.Fatalf("another part, or %v", err)
		}
		again.WriteString("--\r\n")
		if bytes.Count(again.Bytes(), []byte("B0undary")) != len(m.parts)+1 {
			return
		}
		if same, ok := multipartText(again.String(), "B0undary"); !ok || same != form {
			t.Fatalf("another form with another boundary: %q", again.Bytes())
		}
	})
}

func (m *Multipart) headersOf(i int) []header {
	from := 0
	for _, p := range m.parts[:i] {
		from += p.headers
	}
	return m.headers[from : from+m.parts[i].headers]
}

func headersAgree(want textproto.MIMEHeader, got []header) bool {
	n := 0
	for _, values := range want {
		n += len(values)
	}
	return n == len(got)
}

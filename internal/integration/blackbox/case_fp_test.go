package blackbox

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strings"
)

// Which requests are the same request, and which are not.
var casesFP = []Case{
	{ID: "FP-01", Run: func(c *C) {
		c.same("names", opts(body(`{"a":1,"b":2}`)), bodies(`{"b":2,"a":1}`)...)
	}},
	{ID: "FP-02", Run: func(c *C) {
		c.same("nested", opts(body(`{"o":{"x":1,"y":{"p":1,"q":2}},"l":[{"m":1,"n":2}]}`)),
			bodies(`{"l":[{"n":2,"m":1}],"o":{"y":{"q":2,"p":1},"x":1}}`)...)
	}},
	{ID: "FP-03", Run: func(c *C) {
		c.same("space", opts(body(`{"a":1,"b":[1,2]}`)), bodies(" {\r\n\t\"a\" : 1 ,\n \"b\":[ 1 , 2 ] }\n")...)
	}},
	{ID: "FP-04", Run: func(c *C) {
		c.same("accent", opts(body(`{"é":"é"}`)), bodies(`{"\u00e9":"\u00e9"}`, `{"\u00E9":"é"}`)...)
		c.same("escapes", opts(body(`"/A"`)), bodies(`"\/\u0041"`)...)
	}},
	{ID: "FP-05", Run: func(c *C) {
		c.same("one", opts(body(`{"n":1}`)), bodies(`{"n":1.0}`, `{"n":1e0}`, `{"n":10e-1}`)...)
		c.same("zero", opts(body(`{"n":-0}`)), bodies(`{"n":0}`, `{"n":0.0e7}`)...)
	}},
	{ID: "FP-06", Run: func(c *C) {
		big := bodies(`9007199254740992`, `9007199254740993`)
		small := bodies(`0.1`, `0.10000000000000000001`)
		c.differ("integers", big[0], big[1])
		c.differ("fractions", small[0], small[1])
		jcs := c.With("policy: {fingerprint: {body: jcs}}")
		jcs.same("jcs-integers", big[0], big[1]) // RFC 8785 knows doubles only
		jcs.same("jcs-fractions", small[0], small[1])
	}},
	{ID: "FP-07", Run: func(c *C) {
		c.differ("order", opts(body(`[1,2]`)), bodies(`[2,1]`)...)
	}},
	{ID: "FP-08", Run: func(c *C) {
		c.same("twice", opts(body(`{"a":1,"a":2}`)), bodies(`{"a":1,"a":2}`)...)
		c.differ("once", opts(body(`{"a":1,"a":2}`)), bodies(`{"a":2}`, `{"a":2,"a":1}`)...)
	}},
	{ID: "FP-09", Run: func(c *C) {
		c.differ("null", opts(body(`{"a":null}`)), bodies(`{}`)...)
		c.differ("number", opts(body(`{"a":"1"}`)), bodies(`{"a":1}`)...)
		c.differ("bool", opts(body(`{"a":true}`)), bodies(`{"a":"true"}`)...)
	}},
	{ID: "FP-10", Run: func(c *C) {
		c.differ("normal forms", opts(body(`"\u00c5"`)), bodies(`"A\u030a"`)...)
	}},
	{ID: "FP-11", Run: func(c *C) { // the handler's own refusal is a result too
		first := c.POST("/fx/status/400", body(`{"a":`)).First(400)
		first.Retry().Replays(first)
		first.Retry(body(`{"b":`)).Problem("key-reused")
		first.Retry(body(`{"a":1`)).Problem("key-reused")
		c.Effects(1)
	}},
	{ID: "FP-12", Run: func(c *C) {
		deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
		c.same("surrogate", opts(body(`"\ud800"`)), bodies(`"\ud800"`)...)
		c.same("exponent", opts(body(`1e999999999`)), bodies(`1e999999999`)...)
		c.same("negative exponent", opts(body(`1e-999999999`)), bodies(`1e-999999999`)...)
		c.differ("exponents", opts(body(`1e999999999`)), bodies(`1e999999998`)...)
		c.same("depth", opts(body(deep)), bodies(deep)...)
	}},
	{ID: "FP-13", Run: func(c *C) { // its counter is OP-01's
		c.differ("amount", opts(body(`{"amount":1000}`)), bodies(`{"amount":9000}`)...)
	}},
	{ID: "FP-14", Run: func(c *C) {
		c.same("order", at("/fx/json?x=1&y=2"), at("/fx/json?y=2&x=1"))
		c.differ("values", at("/fx/json?x=1&x=2"), at("/fx/json?x=2&x=1"))
	}},
	{ID: "FP-15", Run: func(c *C) {
		c.same("space", at("/fx/json?q=a%20b"), at("/fx/json?q=a+b"))
		c.same("no value", at("/fx/json?x"), at("/fx/json?x="))
		c.same("tilde", at("/fx/json?%7e=~"), at("/fx/json?~=%7E"))
	}},
	{ID: "FP-16", Run: func(c *C) {
		c.differ("endpoint", at("/fx/json"), at("/fx/echo"))
		c.differ("escaped slash", at("/fx/a%2Fb"), at("/fx/a/b"))
		c.differ("trailing slash", at("/fx/a"), at("/fx/a/"))
	}},
	{ID: "FP-17", Run: func(c *C) {
		c.differ("method", opts(), opts(sends("PUT", "/fx/json")))
	}},
	{ID: "FP-18", Run: func(c *C) {
		first := c.POST("/fx/json").First(201)
		for _, o := range []option{
			header("User-Agent", "other/2"), header("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
			header("Date", "Sat, 21 Nov 2026 04:00:00 GMT"), header("Accept-Encoding", "br"),
			as(strings.TrimSuffix(c.who("t1:u1"), "n1") + "n2"),
		} {
			first.Retry(o).Replays(first)
		}
		c.Effects(1)
	}},
	{ID: "FP-19", Policy: "policy: {fingerprint: {headers: [Api-Version]}}", Run: func(c *C) {
		first := c.POST("/fx/json", header("Api-Version", "2024")).First(201)
		first.Retry(header("Api-Version", "2025")).Problem("key-reused")
		first.Retry(header("Api-Version", "")).Problem("key-reused")
		first.Retry(header("Api-Version", ""), header("api-version", "2024")).Replays(first)
		c.Raw("/fx/json", "Idempotency-Key: "+first.req.keys[0], "Api-Version: \t 2024 \t").Replays(first)
		c.Effects(1)
	}},
	{ID: "FP-20", Run: func(c *C) {
		c.same("media type", opts(ctype("application/json")),
			opts(ctype("application/json; charset=UTF-8")), opts(ctype("Application/JSON")))
	}},
	{ID: "FP-21", Run: func(c *C) {
		c.differ("media type", opts(ctype("application/json")), opts(ctype("text/plain")), opts(ctype("")))
	}},
	{ID: "FP-22", Run: func(c *C) {
		typed := func(t, text string) []option { return opts(ctype(t), body(text)) }
		for _, t := range []string{"application/vnd.api+json", "application/merge-patch+json"} {
			c.same(t, typed(t, `{"a":1,"b":2}`), typed(t, `{"b":2,"a":1}`))
		}
		patch := "application/json-patch+json"
		c.differ("patch", typed(patch, `[{"op":"add"},{"op":"remove"}]`), typed(patch, `[{"op":"remove"},{"op":"add"}]`))
	}},
	{ID: "FP-23", Run: func(c *C) {
		form := func(text string) []option { return opts(ctype("application/x-www-form-urlencoded"), body(text)) }
		c.same("order", form("a=1&b=2"), form("b=2&a=1"))
		c.differ("values", form("a=1&a=2"), form("a=2&a=1"))
		c.same("space", form("a=x+y"), form("a=x%20y"))
	}},
	{ID: "FP-24", Run: func(c *C) {
		a := parts("aaa", "f.bin", "\x00\xff file")
		c.same("boundary", a, parts("bbb", "f.bin", "\x00\xff file"))
		c.differ("byte", a, parts("aaa", "f.bin", "\x00\xfe file"))
		c.differ("filename", a, parts("aaa", "g.bin", "\x00\xff file"))
	}},
	{ID: "FP-25", Run: func(c *C) {
		c.differ("empty", opts(body("")), bodies("{}")...)
		d := c.Named("framing")
		k := `"` + uuid + `"`
		first := d.POST("/fx/json", key(k), body("")).First(201)
		d.POST("/fx/json", key(k), body(""), chunked).Replays(first)
		n := d.Dial()
		n.Write("%s", d.head("POST /fx/json HTTP/1.1", "Idempotency-Key: "+k, "Connection: close")) // no body at all
		n.Read().Replays(first)
		d.Effects(1)
	}},
	{ID: "FP-26", Run: func(c *C) {
		plain, packed := body(`{"a":1,"b":2}`), opts(body(zip(`{"a":1,"b":2}`)), header("Content-Encoding", "gzip"))
		c.differ("as sent", packed, opts(plain))
		c.With("policy: {fingerprint: {decode: true}}").same("decoded", packed, opts(plain), bodies(`{"b":2,"a":1}`)[0])
	}},
	{ID: "FP-27", Policy: "h2c: true", Run: func(c *C) {
		c.same("framing", opts(), opts(chunked), opts(h2), opts(h2, chunked))
	}},
	{ID: "FP-28", Run: func(c *C) {
		c.differ("path and query", at("/fx/a?b%0Ac"), at("/fx/a%0Ab?c"))
		c.differ("members", opts(body(`{"a":"x","b":"y"}`)), bodies(`{"a":"x,b:y"}`, `{"a":"x\",\"b\":\"y"}`)...)
	}},
	{ID: "FP-29", Skip: "vectors for the canonical form alone: they run beside it, not over HTTP"},
	{ID: "FP-30", Policy: "policy: {fingerprint: {body: fields, fields: [/a]}}", Need: NeedKill, Run: func(c *C) {
		first := c.POST("/fx/json", body(`{"a":1,"b":1}`)).First(201)
		c.srv.Kill(0)
		c.srv.Start(0, "policy: {fingerprint: {body: raw}}")
		first.Retry().Replays(first)
		first.Retry(body(`{"b":2,"a":1}`)).Replays(first) // by the recipe it was made with
		first.Retry(body(`{"a":2,"b":1}`)).Problem("key-reused")
		c.Effects(1)
	}},
}

// at sends to another path.
func at(path string) []option { return opts(sends("POST", path)) }

// parts is a form with one field and one file.
func parts(boundary, filename, content string) []option {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		panic(err)
	}
	field, err := w.CreateFormField("note")
	if err == nil {
		_, err = field.Write([]byte("hello"))
	}
	if err != nil {
		panic(err)
	}
	file, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename=%q`, filename)},
		"Content-Type":        {"application/octet-stream"},
	})
	if err == nil {
		_, err = file.Write([]byte(content))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
	return opts(ctype(w.FormDataContentType()), body(b.String()))
}

func zip(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

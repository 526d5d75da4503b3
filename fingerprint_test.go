package stet

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// change makes another request of the one it is given a copy of.
type change func(*Subject)

func base() *Subject {
	return &Subject{Method: "POST", Path: "/v1/payments", RawQuery: "x=1&y=2", Body: []byte(`{"amount":1000,"currency":"EUR"}`),
		Header: map[string][]string{"Content-Type": {"application/json"}, "Api-Version": {"2024"}}}
}

func with(changes ...change) *Subject {
	s := base()
	for _, c := range changes {
		c(s)
	}
	return s
}

func body(text string) change      { return func(s *Subject) { s.Body = []byte(text) } }
func query(text string) change     { return func(s *Subject) { s.RawQuery = text } }
func host(text string) change      { return func(s *Subject) { s.Host = text } }
func path(text string) change      { return func(s *Subject) { s.Path = text } }
func media(types ...string) change { return header("Content-Type", types...) }
func form(text string) change {
	return func(s *Subject) { media("application/x-www-form-urlencoded")(s); s.Body = []byte(text) }
}

func header(name string, values ...string) change {
	return func(s *Subject) {
		if len(values) == 0 {
			delete(s.Header, name)
		} else {
			s.Header[name] = values
		}
	}
}

func zipped(text string) change {
	return func(s *Subject) {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(text))
		w.Close()
		header("Content-Encoding", "gzip")(s)
		s.Body = b.Bytes()
	}
}

func upload(boundary, file, content string) change {
	return func(s *Subject) {
		media("multipart/form-data; boundary=" + boundary)(s)
		s.Body = fmt.Appendf(nil, "--%[1]s\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n5\r\n--%[1]s\r\n"+
			"Content-Disposition: form-data; name=\"f\"; filename=\"%s\"\r\nContent-Type: text/plain\r\n\r\n%s\r\n--%[1]s--\r\n", boundary, file, content)
	}
}

// parts is a multipart body of that type: lines end with |, %[1]s is the outer boundary, %[2]s an
// inner one.
func parts(of, boundary, text string) change {
	return func(s *Subject) {
		media(of + "; boundary=" + boundary)(s)
		s.Body = fmt.Appendf(nil, strings.ReplaceAll(text, "|", "\r\n"), boundary, "inner-"+boundary)
	}
}

// The cases of the fingerprint, by id. differs is what Differs names; empty means that the requests
// are the same.
func TestFingerprintCases(t *testing.T) {
	auto, raw, jcs, named := Recipe{}, Recipe{Body: BodyRaw}, Recipe{Body: BodyJCS}, Recipe{Host: true}
	decode := Recipe{Decode: true}
	versioned, two := Recipe{Headers: []string{"api-version"}}, Recipe{Headers: []string{"api-version", "accept"}}
	amount := Recipe{Body: BodyFields, Fields: []string{"/amount", "/customer/id"}}
	signed := Recipe{ExcludeFields: []string{"ts", "sig nature"}}
	const (
		related = "--%[1]s|Content-Type: application/json||{}|--%[1]s|Content-ID: <a>||x|--%[1]s--|%.0[2]s"
		batch   = "--%[1]s|Content-Type: multipart/mixed; boundary=%[2]s||--%[2]s|Content-ID: 1||POST /a|--%[2]s--||--%[1]s--|"
		field   = "--%[1]s|Content-Disposition: form-data; name=\"ts\"||1|--%[1]s|Content-Disposition: form-data; name=\"a\"||2|--%[1]s--|%.0[2]s"
	)
	noMeta := Recipe{Exclude: []string{"/meta", "/items/0/at"}}
	same := func(s *Subject) {}
	for _, c := range []struct {
		name    string
		recipe  Recipe
		a, b    change
		differs string
	}{
		{"FP-01 names reordered", auto, body(`{"a":1,"b":2}`), body(`{"b":2,"a":1}`), ""},
		{"FP-02 nested", auto, body(`{"x":[{"a":1,"b":{"c":1,"d":2}}]}`), body(`{"x":[{"b":{"d":2,"c":1},"a":1}]}`), ""},
		{"FP-03 white space", auto, body(`{"a":1}`), body("{ \"a\" :\n1 }"), ""},
		{"FP-04 escapes", auto, body(`["é","/","A"]`), body(`["\u00e9","\/","\u0041"]`), ""},
		{"FP-05 numbers", auto, body(`[1,1,1,0]`), body(`[1.0,1e0,10e-1,-0]`), ""},
		{"FP-06 beyond 2^53", auto, body(`9007199254740992`), body(`9007199254740993`), "body"},
		{"FP-06 more digits than a double has", auto, body(`0.1`), body(`0.10000000000000000001`), "body"},
		{"FP-06 jcs rounds", jcs, body(`9007199254740992`), body(`9007199254740993`), ""},
		{"FP-06 jcs rounds fractions", jcs, body(`0.1`), body(`0.10000000000000000001`), ""},
		{"FP-06 jcs sorts", jcs, body(`{"a":1.0,"b":"é"}`), body(`{ "b":"\u00e9","a":1}`), ""},
		{"FP-06 jcs tells doubles apart", jcs, body(`0.1`), body(`0.2`), "body"},
		{"FP-06 jcs takes what is no double as bytes", jcs, body(`[1e400]`), body(`[1e400 ]`), "body"},
		{"FP-07 arrays", auto, body(`[1,2]`), body(`[2,1]`), "body"},
		{"FP-08 repeated name", auto, body(`{"a":1,"a":2}`), body(`{"a":1,"a":2}`), ""},
		{"FP-08 repeated name resolved", auto, body(`{"a":1,"a":2}`), body(`{"a":2}`), "body"},
		{"FP-08 repeated name spaced", auto, body(`{"a":1,"a":2}`), body(`{"a":1, "a":2}`), "body"},
		{"FP-09 null", auto, body(`{"a":null}`), body(`{}`), "body"},
		{"FP-09 string", auto, body(`"1"`), body(`1`), "body"},
		{"FP-09 true", auto, body(`true`), body(`"true"`), "body"},
		{"FP-10 NFC", auto, body(`"\u00c5"`), body(`"A\u030a"`), "body"},
		{"FP-11 invalid JSON", auto, body(`{"a":`), body(`{"a":`), ""},
		{"FP-11 invalid JSON, one byte", auto, body(`{"a":`), body(`{"b":`), "body"},
		{"FP-12 lone surrogate", auto, body(`"\ud800"`), body(`"\ud800"`), ""},
		{"FP-12 lone surrogate, other spelling", auto, body(`"\ud800"`), body(`"\uD800"`), "body"},
		{"FP-12 exponent", auto, body(`1e999999999`), body(`10e999999998`), ""},
		{"FP-12 depth", auto, body(strings.Repeat("[", 100_000)), body(strings.Repeat("[", 100_000)), ""},
		{"FP-12 depth closed", auto, body(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), body(strings.Repeat("[", 100_001) + strings.Repeat("]", 100_001)), "body"},
		{"FP-13 amount", auto, body(`{"amount":1000}`), body(`{"amount":9000}`), "body"},
		{"FP-14 query reordered", auto, query("x=1&y=2"), query("y=2&x=1"), ""},
		{"FP-14 values reordered", auto, query("x=1&x=2"), query("x=2&x=1"), "query"},
		{"FP-15 space", auto, query("q=a%20b"), query("q=a+b"), ""},
		{"FP-15 no value", auto, query("x"), query("x="), ""},
		{"FP-15 unreserved", auto, query("q=%7e"), query("q=~"), ""},
		{"FP-15 no query", auto, query(""), query("&"), ""},
		{"FP-15 unreadable query", auto, query("q=%zz"), query("q=%zz"), ""},
		{"FP-15 unreadable is not readable", auto, query("q=%"), query("q=%25"), "query"},
		{"FP-16 path", auto, path("/fx/json"), path("/fx/echo"), "path"},
		{"FP-16 escaped slash", auto, path("/fx/a%2Fb"), path("/fx/a/b"), "path"},
		{"FP-16 trailing slash", auto, path("/fx/a"), path("/fx/a/"), "path"},
		{"FP-17 method", auto, same, func(s *Subject) { s.Method = "PUT" }, "method"},
		{"FP-18 other headers", auto, same, func(s *Subject) {
			for _, n := range []string{"User-Agent", "Traceparent", "Date", "Accept-Encoding", "Authorization", "Api-Version"} {
				header(n, n)(s)
			}
		}, ""},
		{"FP-19 value", versioned, header("Api-Version", "2024"), header("Api-Version", "2025"), "header:Api-Version"},
		{"FP-19 white space", versioned, header("Api-Version", "2024"), header("Api-Version", " 2024\t"), ""},
		{"FP-19 several values", versioned, header("Api-Version", "a", "b"), header("Api-Version", "a, b"), "header:Api-Version"},
		{"FP-19 absent is not empty", versioned, header("Api-Version"), header("Api-Version", ""), "header:Api-Version"},
		{"C18 each header that counts", two, func(s *Subject) { header("Accept", "a")(s); header("Api-Version", "1")(s) },
			func(s *Subject) { header("Accept", "a")(s); header("Api-Version", "2")(s) }, "header:Api-Version"},
		{"C18 both headers", two, func(s *Subject) { header("Accept", "a")(s); header("Api-Version", "1")(s) },
			func(s *Subject) { header("Accept", "b")(s); header("Api-Version", "2")(s) }, "header:Accept header:Api-Version"},
		{"H07 host, where it counts", named, host("a.example"), host("b.example"), "host"},
		{"H07 host, where it does not", auto, host("a.example"), host("b.example"), ""},
		{"H07 host and a header", Recipe{Host: true, Headers: []string{"api-version"}}, host("a.example"),
			func(s *Subject) { host("b.example")(s); header("Api-Version", "1")(s) }, "host header:Api-Version"},
		{"H07 a header, not the host", Recipe{Host: true, Headers: []string{"api-version"}}, host("a.example"),
			func(s *Subject) { host("a.example")(s); header("Api-Version", "1")(s) }, "header:Api-Version"},
		{"FP-28 host and headers", named, host("a.example"), func(s *Subject) { s.Host = "a.exampleh\x00" }, "host"},
		{"C18 type and body", auto, body(`{"a":1}`), func(s *Subject) { media("text/plain")(s); body(`{"a":2}`)(s) }, "media-type body"},
		{"C18 method, path and query", auto, same, func(s *Subject) { s.Method, s.Path, s.RawQuery = "PUT", "/other", "z=9" }, "method path query"},
		{"FP-20 parameters", auto, media("application/json"), media("application/json; charset=UTF-8"), ""},
		{"FP-20 case", auto, media("application/json"), media("Application/JSON"), ""},
		{"FP-21 other type", auto, media("application/json"), media("text/plain"), "media-type"},
		{"FP-21 no type", auto, media("application/json"), media(), "media-type"},
		{"FP-21 no type is not an invalid one", auto, media(), media(""), "media-type"},
		{"FP-21 raw compares types too", raw, media("application/json"), media("text/plain"), "media-type"},
		{"FP-21 two types", auto, media("application/json"), media("application/json", "text/plain"), "media-type"},
		{"FP-22 +json", auto, func(s *Subject) { media("application/vnd.api+json")(s); body(`{"a":1,"b":2}`)(s) },
			func(s *Subject) { media("application/vnd.api+json")(s); body(`{"b":2,"a":1}`)(s) }, ""},
		{"FP-22 merge patch", auto, func(s *Subject) { media("application/merge-patch+json")(s); body(`{"a":1,"b":2}`)(s) },
			func(s *Subject) { media("application/merge-patch+json")(s); body(`{"b":2,"a":1}`)(s) }, ""},
		{"FP-22 json-patch array", auto, func(s *Subject) { media("application/json-patch+json")(s); body(`[{"op":"a"},{"op":"b"}]`)(s) },
			func(s *Subject) { media("application/json-patch+json")(s); body(`[{"op":"b"},{"op":"a"}]`)(s) }, "body"},
		{"FP-23 form", auto, form("a=1&b=2"), form("b=2&a=1"), ""},
		{"FP-23 form values", auto, form("a=1&a=2"), form("a=2&a=1"), "body"},
		{"FP-23 form space", auto, form("a=x+y"), form("a=x%20y"), ""},
		{"FP-23 unreadable form", auto, form("a=%"), form("a=%25"), "body"},
		{"FP-23 semicolons are left alone", auto, form("a=1;b=2"), form("b=2;a=1"), "body"},
		{"FP-24 boundary", auto, upload("one", "f.txt", "x"), upload("two", "f.txt", "x"), ""},
		{"FP-24 content", auto, upload("one", "f.txt", "x"), upload("two", "f.txt", "y"), "body"},
		{"FP-24 file name", auto, upload("one", "f.txt", "x"), upload("two", "g.txt", "x"), "body"},
		{"FP-24 unreadable needs the boundary", auto, func(s *Subject) { media("multipart/form-data; boundary=a")(s); body("x")(s) },
			func(s *Subject) { media("multipart/form-data; boundary=b")(s); body("x")(s) }, "media-type"},
		{"FP-24 raw", raw, upload("one", "f.txt", "x"), upload("two", "f.txt", "x"), "media-type body"},
		{"Q03 related", auto, parts("multipart/related", "one", related), parts("multipart/related", "two", related), ""},
		{"Q03 related, content", auto, parts("multipart/related", "one", related), parts("multipart/related", "two", strings.Replace(related, "x", "y", 1)), "body"},
		{"Q03 related is not mixed", auto, parts("multipart/related", "one", related), parts("multipart/mixed", "one", related), "media-type"},
		{"Q03 another root", auto, parts("multipart/related; start=\"<a>\"", "one", related), parts("multipart/related", "one", related), "body"},
		{"Q03 batch of changes", auto, parts("multipart/mixed", "one", batch), parts("multipart/mixed", "two", batch), ""},
		{"Q03 batch of other changes", auto, parts("multipart/mixed", "one", batch), parts("multipart/mixed", "two", strings.Replace(batch, "/a", "/b", 1)), "body"},
		{"Q03 changes of another type", auto, parts("multipart/mixed", "one", batch), parts("multipart/mixed", "one", strings.Replace(batch, "mixed", "digest", 1)), "body"},
		{"Q03 preamble", auto, parts("multipart/form-data", "one", "This is MIME.|"+field), parts("multipart/form-data", "two", "This is MIME.|"+field), ""},
		{"Q03 another preamble", auto, parts("multipart/form-data", "one", "This is MIME.|"+field), parts("multipart/form-data", "one", field), "body"},
		{"Q03 epilogue", auto, parts("multipart/form-data", "one", field+"the end"), parts("multipart/form-data", "one", field), "body"},
		{"Q10 range", auto, header("Content-Range", "bytes 0-4/10"), header("Content-Range", "bytes 5-9/10"), "header:Content-Range"},
		{"Q10 offset", auto, header("Upload-Offset", "0"), header("Upload-Offset", "5"), "header:Upload-Offset"},
		{"Q10 an offset and none", auto, header("Upload-Offset", "0"), same, "header:Upload-Offset"},
		{"Q10 with headers that count", versioned, header("Upload-Offset", "0"), func(s *Subject) { header("Upload-Offset", "5")(s); header("Api-Version", "1")(s) },
			"header:Api-Version header:Upload-Offset"},
		{"Q14 JSON that is called a form", auto, form(`{"note":"a+b"}`), form(`{"note":"a b"}`), "body"},
		{"Q14 JSON with a sign", auto, form(`{"note":"a=+b"}`), form(`{"note":"a= b"}`), "body"},
		{"Q14 text that is called a form", auto, form("a+b"), form("a b"), "body"},
		{"Q14 a form in other words", auto, form("a=1&&b=x+y&"), form("b=x%20y&a=1"), ""},
		{"Q12 query", signed, query("a=1&ts=1&sig%20nature=x"), query("ts=2&a=1&sig+nature=y"), ""},
		{"Q12 query, others count", signed, query("a=1&ts=1"), query("a=2&ts=1"), "query"},
		{"Q12 query that cannot be read", signed, query("a=%&ts=1"), query("a=%&ts=2"), "query"},
		{"Q12 form", signed, form("a=1&ts=1"), form("ts=2&a=1"), ""},
		{"Q12 form, others count", signed, form("a=1&ts=1"), form("a=2&ts=1"), "body"},
		{"Q12 absent", signed, form("a=1"), form("ts=2&a=1"), ""},
		{"Q12 JSON is read by pointers", signed, body(`{"ts":1}`), body(`{"ts":2}`), "body"},
		{"Q12 form of parts", signed, parts("multipart/form-data", "one", field), parts("multipart/form-data", "one", strings.Replace(field, "|1|", "|9|", 1)), ""},
		{"Q12 form of parts, others count", signed, parts("multipart/form-data", "one", field), parts("multipart/form-data", "one", strings.Replace(field, "|2|", "|9|", 1)), "body"},
		{"Q12 raw", Recipe{Body: BodyRaw, ExcludeFields: []string{"ts"}}, func(s *Subject) { form("ts=1")(s); query("ts=1")(s) }, func(s *Subject) { form("ts=1")(s); query("ts=2")(s) }, ""},
		{"Q12 raw counts bodies whole", Recipe{Body: BodyRaw, ExcludeFields: []string{"ts"}}, form("ts=1"), form("ts=2"), "body"},
		{"Q06 the path that was asked for", auto, func(s *Subject) { s.Path, s.Routed = "/charges/7", "/7" }, func(s *Subject) { s.Path, s.Routed = "/refunds/7", "/7" }, "path"},
		{"Q06 a path that was changed", auto, func(s *Subject) { s.Path, s.Routed = "/batch", "/charges" }, func(s *Subject) { s.Path, s.Routed = "/batch", "/refunds" }, "path"},
		{"Q06 more or less cut off", auto, func(s *Subject) { s.Path, s.Routed = "/v1/charges", "/charges" }, func(s *Subject) { s.Path = "/v1/charges" }, ""},
		{"FP-25 none and empty", auto, func(s *Subject) { s.Body = nil; media()(s) }, func(s *Subject) { s.Body = []byte{}; header("Content-Length", "0")(s) }, ""},
		{"FP-25 empty object", auto, body(""), body("{}"), "body"},
		{"FP-25 white space", auto, body(""), body(" "), "body"},
		{"FP-26 as sent", auto, same, zipped(string(base().Body)), "body"},
		{"FP-26 decoded", decode, same, zipped(string(base().Body)), ""},
		{"FP-26 decoded and read", decode, body(`{"a":1,"b":2}`), zipped(`{"b":2, "a":1}`), ""},
		{"FP-26 decoded raw", Recipe{Body: BodyRaw, Decode: true}, same, zipped(string(base().Body)), ""},
		{"FP-26 decoded to nothing", decode, body(""), zipped(""), ""},
		{"FP-26 x-gzip", decode, same, func(s *Subject) { zipped(string(base().Body))(s); header("Content-Encoding", " X-GZip")(s) }, ""},
		{"FP-26 not gzip", decode, header("Content-Encoding", "gzip"), same, "body"},
		{"FP-26 cut short", decode, func(s *Subject) { zipped("abc")(s); s.Body = s.Body[:len(s.Body)-1] }, zipped("abc"), "body"},
		{"FP-26 garbage behind", decode, func(s *Subject) { zipped("abc")(s); s.Body = append(s.Body, 'x') }, zipped("abc"), "body"},
		{"FP-26 two codings", decode, func(s *Subject) { zipped(`{}`)(s); header("Content-Encoding", "gzip, br")(s) }, zipped(`{}`), "body"},
		{"FP-26 identity", auto, same, header("Content-Encoding", "identity"), ""},
		{"FP-26 other coding", auto, header("Content-Encoding", "br"), header("Content-Encoding", "zstd"), "body"},
		{"FP-26 case of the coding", auto, header("Content-Encoding", "br"), header("Content-Encoding", "BR "), ""},
		{"FP-26 coded JSON is not read", auto, func(s *Subject) { header("Content-Encoding", "br")(s); body(`{"a":1}`)(s) },
			func(s *Subject) { header("Content-Encoding", "br")(s); body(`{"a": 1}`)(s) }, "body"},
		{"FP-26 too large", decode, zipped("1" + strings.Repeat(" ", maxDecoded)), body("1"), "body"},
		{"FP-26 too large is not cut", decode, zipped("1" + strings.Repeat(" ", maxDecoded-1) + "2"), body("1"), "body"},
		{"FP-26 at the limit", decode, zipped("1" + strings.Repeat(" ", maxDecoded-1)), body("1"), ""},
		{"FP-27 framing", auto, header("Content-Length", "32"), header("Transfer-Encoding", "chunked"), ""},
		{"FP-28 path and query", auto, func(s *Subject) { s.Path, s.RawQuery = "/a", "b\nc" }, func(s *Subject) { s.Path, s.RawQuery = "/a\nb", "c" }, "path query"},
		{"FP-28 method and path", auto, func(s *Subject) { s.Method, s.Path = "POST", "/a" }, func(s *Subject) { s.Method, s.Path = "POST/", "a" }, "method path"},
		{"FP-28 JSON", auto, body(`{"a":"x","b":"y"}`), body(`{"a":"x,b:y"}`), "body"},
		{"FP-28 raw", raw, body(`{"a":1}`), body(`{"a":1} `), "body"},
		{"fields: others do not count", amount, body(`{"amount":1,"note":"x"}`), body(`{"note":"y","amount":1.0}`), ""},
		{"fields: value", amount, body(`{"amount":1}`), body(`{"amount":2}`), "body"},
		{"fields: nested", amount, body(`{"amount":1,"customer":{"id":"a"}}`), body(`{"amount":1,"customer":{"id":"b"}}`), "body"},
		{"fields: absent is not null", amount, body(`{"amount":1,"customer":{"id":null}}`), body(`{"amount":1}`), "body"},
		{"fields: one is not the other", amount, body(`{"amount":"a"}`), body(`{"customer":{"id":"a"}}`), "body"},
		{"fields: invalid JSON is compared whole", amount, body(`{"amount":1`), body(`{"amount":1 `), "body"},
		{"fields: other types are compared whole", amount, form("a=1&b=2"), form("b=2&a=1"), ""},
		{"fields: other types differ", amount, form("a=1&b=2"), form("b=2&a=2"), "body"},
		{"A18 fields: none of them is there", amount, body(`[1]`), body(`{"amuont":999}`), "body"},
		{"A18 fields: none of them, and then whole", amount, body(`{"amuont":1,"b":2}`), body(`{"b":2.0,"amuont":1}`), ""},
		{"A18 fields: none of them is not one of them", amount, body(`{"amuont":1}`), body(`{"amount":1}`), "body"},
		{"A18 fields: null is there", amount, body(`{"amount":null,"note":1}`), body(`{"amount":null}`), ""},
		{"A18 fields: all is excluded", Recipe{Body: BodyFields, Fields: []string{"/a"}, Exclude: []string{"/a"}}, body(`{"a":1,"b":1}`), body(`{"a":2,"b":2}`), "body"},
		{"A19 form: lines of a list", auto, form("i[][id]=1&i[][qty]=2&i[][id]=3"), form("i[][id]=1&i[][id]=3&i[][qty]=2"), "body"},
		{"A19 form: others beside a list", auto, form("b=1&i[]=1&a=2&i[]=2"), form("i[]=1&i[]=2&a=2&b=1"), ""},
		{"A19 query: lines of a list", auto, query("i[][id]=1&i[][qty]=2&i[][id]=3"), query("i[][id]=1&i[][id]=3&i[][qty]=2"), "query"},
		{"exclude", noMeta, body(`{"a":1,"meta":{"t":1}}`), body(`{"meta":[],"a":1}`), ""},
		{"exclude: absent", noMeta, body(`{"a":1,"meta":1}`), body(`{"a":1}`), ""},
		{"exclude: in an array", noMeta, body(`{"items":[{"at":1},{"at":1}]}`), body(`{"items":[{"at":2},{"at":1}]}`), ""},
		{"exclude: not the next element", noMeta, body(`{"items":[{"at":1},{"at":1}]}`), body(`{"items":[{"at":1},{"at":2}]}`), "body"},
		{"exclude: others count", noMeta, body(`{"a":1,"meta":1}`), body(`{"a":2,"meta":1}`), "body"},
		{"exclude: from fields", Recipe{Body: BodyFields, Fields: []string{"/order"}, Exclude: []string{"/order/at"}}, body(`{"order":{"id":1,"at":1},"x":1}`), body(`{"order":{"id":1,"at":2}}`), ""},
		{"exclude: jcs", Recipe{Body: BodyJCS, Exclude: []string{"/at"}}, body(`{"at":1,"b":2}`), body(`{"b":2}`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := c.recipe.Compile()
			if err != nil {
				t.Fatal(err)
			}
			a, b := f.Fingerprint(with(c.a)), f.Fingerprint(with(c.b))
			if a.equal(b) != (c.differs == "") {
				t.Errorf("equal = %v", a.equal(b))
			}
			if got := strings.Join(a.differs(b), " "); got != c.differs {
				t.Errorf("differs in %q, want %q", got, c.differs)
			}
			if again, err := c.recipe.fingerprint(with(c.a)); err != nil || again != a {
				t.Errorf("another fingerprint when taken again, %v", err)
			}
		})
	}
}

// A body taken as bytes must not equal one that was read, though its bytes be made to look like
// what is hashed for that.
func TestRefusedIsNotRead(t *testing.T) {
	f, _ := Recipe{}.Compile()
	x := newScratch()
	x.doc.Parse([]byte(`{"a":1}`))
	x.doc.WriteExact(x.w)
	read, _ := x.w.Whole()
	looks := string(read)
	for _, other := range []change{body(looks), func(s *Subject) { media("text/plain")(s); body(looks)(s) }, body(string(rune(len(looks))) + looks)} {
		if f.Fingerprint(with(body(`{"a":1}`))).equal(f.Fingerprint(with(other))) {
			t.Error("bytes pass for JSON")
		}
	}
}

// FP-30: records outlive releases. If one of these changes, raise recipeVersion and keep the old
// way of computing.
func TestFingerprintIsStable(t *testing.T) {
	for _, c := range []struct {
		recipe string
		s      *Subject
		want   string
	}{
		{"1 auto", with(body(`{"b":[1.50,-0,1e400,"é\n"],"a":{"c":null,"d":true,"e":false}}`)), "ff9242a401257ae3"},
		{"1 auto", with(form("b=2&a=1&a=+")), "39e4b4eba905db81"},
		{"1 auto", with(upload("one", "f.txt", "x")), "ac55197b22cd2f20"},
		{"1 auto", with(body(`{"a":1,"a":2}`)), "1ff8dd501a01041a"},
		{"1 auto", with(query("q=%"), body("")), "c532fa4aa322fa2f"},
		{"1 jcs", with(body(`{"b":[1.50,-0,1e30,"é\n"],"a":{}}`)), "2c55f3119f5a6614"},
		{"1 raw decode h:api-version", with(zipped("abc")), "21e2cfd7749c8034"},
		{"1 fields +/amount +/none -/meta", with(), "3ed8a9285ee309c9"},
		{"1 fields +/amount", with(body(`[1]`)), "b1b69f3a2b519e46"},
		{"1 fields +/amount", with(body(`{"amuont":999}`)), "b1b69f3a2b519e46"}, // A18: the second version tells them apart
		{"1 auto", with(form("i[][id]=1&i[][qty]=2&i[][id]=3")), "6298c0c359d4b425"},
		{"1 auto", with(form("i[][id]=1&i[][id]=3&i[][qty]=2")), "6298c0c359d4b425"}, // A19: likewise
		{"1 auto", with(query("l[]=1&a=1&l[]=2")), "6349e9ee4aeecd3f"},
		{"2 auto", with(body(`{"b":[1.50,-0,1e400,"é\n"],"a":{"c":null,"d":true,"e":false}}`)), "24ce6d8b2a604a82"},
		{"2 fields +/amount", with(), "ccc5e96bb3a2b9c6"},
		{"2 fields +/amount", with(body(`[1]`)), "32aa9667d7b0bc57"},
		{"2 fields +/amount", with(body(`{"amuont":999}`)), "a0ebaf65c8e43090"},
		{"2 auto", with(form("i[][id]=1&i[][qty]=2&i[][id]=3")), "215efd3a23e55461"},
		{"2 auto", with(form("i[][id]=1&i[][id]=3&i[][qty]=2")), "c2e86aa9cf6bc727"},
		{"2 jcs", with(body(`{"b":[1.50,-0,1e30,"é\n"],"a":{}}`)), "343a433cc23a20d9"},
		{"2 raw decode h:api-version", with(zipped("abc")), "eb14d988faf740a0"},
		{"2 raw decode h:api-version", with(zipped("abc"), host("a.example")), "eb14d988faf740a0"}, // H07: it does not count
		{"2 auto host h:api-version", with(host("a.example:8443")), "0a7ded22b5310e47"},
		{"2 auto", with(upload("one", "f.txt", "x")), "02ab1b6a0c662af2"},
		{"2 auto", with(parts("multipart/mixed", "one", "--%[1]s||x%[2]s|--%[1]s--|")), "3ee5cef2a65632a3"},
		{"2 auto", with(parts("multipart/form-data", "one", "before|--%[1]s||x%[2]s|--%[1]s--|")), "4e7af67d89a51d9e"},
		{"2 auto", with(form("a+b")), "1e23ecd0f045608d"},
		{"2 auto", with(func(s *Subject) { s.Routed = "/payments" }), "7957ae235a8fffac"},
		{"3 auto", with(), "5d4635a1eb8c03fb"},
		{"3 auto", with(func(s *Subject) { s.Routed = "/other" }), "8cc999736bc93f40"},
		{"3 auto h:api-version", with(header("Upload-Offset", "7"), header("Content-Range", "bytes 7-9/*")), "f90bc2365c2e4827"},
		{"3 auto", with(upload("one", "f.txt", "x")), "9acce1a0f1a2f3ed"},
		{"3 auto", with(parts("multipart/mixed; a=1", "one", "before|--%[1]s|Content-Type: multipart/mixed; boundary=%[2]s||--%[2]s|A: 1||x|--%[2]s--||--%[1]s--|after")), "28f7a054cca9cb97"},
		{"3 auto", with(form("a+b")), "77feb37cfcdee6fd"},
		{"3 auto x:ts", with(query("ts=1&a=1"), form("ts=2&b=1")), "f7b9129e0de2b5a6"},
		{"3 raw decode", with(zipped("abc")), "789f7780a6fd85a7"},
		{"3 jcs", with(body(`{"b":[1.50,-0,1e30,"é\n"],"a":{}}`)), "ff5d8613889404cf"},
		{"3 fields +/amount -/meta", with(), "c200fd73af551312"},
	} {
		r, err := parseRecipe(c.recipe)
		if err != nil {
			t.Fatal(err)
		}
		fp, err := r.fingerprint(c.s)
		if got := hex.EncodeToString(fp.Sum[:8]); err != nil || got != c.want || fp.Recipe != c.recipe {
			t.Errorf("%s: sum begins %s, want %s", c.recipe, got, c.want)
		}
	}
}

func TestFingerprintIsHidden(t *testing.T) {
	fp, _ := Recipe{Exclude: []string{"/secret-name"}}.fingerprint(base())
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "a", fp, "b", &fp)
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "a", fp)
	text, _ := json.Marshal(map[string]any{"fp": fp, "in": struct{ F Fingerprint }{fp}})
	out := fmt.Sprintf("%v %+v %#v %s %q %x %d %v %v", fp, fp, fp, fp, fp, fp, fp, &fp, []Fingerprint{fp}) + log.String() + string(text)
	if strings.Count(out, hidden) != 9+3+2 {
		t.Errorf("got %s", out)
	}
	for _, leak := range []string{"secret-name", "Sum", "Parts", hex.EncodeToString(fp.Sum[:3]), fmt.Sprint(fp.Sum[0], fp.Sum[1])} {
		if strings.Contains(out, leak) {
			t.Errorf("%q is in %s", leak, out)
		}
	}
}

// Of however many headers that count, one that differs is never taken for another, and the bits of
// up to 32 are told apart.
func TestHeadersShareTheirPart(t *testing.T) { // C18
	for n := 1; n <= 40; n++ {
		seen := uint32(0)
		for i := range n {
			mask := share(^uint32(0), i, n)
			if seen&mask != 0 || (mask == 0) != (i >= 32) {
				t.Errorf("header %d of %d has the bits %032b, others %032b", i, n, mask, seen)
			}
			seen |= mask
		}
	}
}

func TestFingerprintEqual(t *testing.T) {
	fp, _ := Recipe{}.fingerprint(base())
	if !fp.equal(fp) {
		t.Error("not equal to itself")
	}
	for i := range fp.Sum {
		other := fp
		other.Sum[i] ^= 0x80
		if fp.equal(other) {
			t.Errorf("byte %d does not count", i)
		}
	}
	other, _ := Recipe{Body: BodyJCS}.fingerprint(base())
	if fp.equal(other) || fp.differs(other) != nil {
		t.Error("fingerprints of two recipes were compared")
	}
	other = fp
	other.Recipe = "1 raw"
	if fp.equal(other) {
		t.Error("the recipe does not count")
	}
}

// Nothing of a subject may be changed, and scratch space is used again: many goroutines must get
// what one gets.
func TestFingerprinterConcurrently(t *testing.T) {
	f, _ := Recipe{Decode: true, Headers: []string{"Api-Version"}, Exclude: []string{"/at"}}.Compile()
	subjects := []*Subject{with(), with(zipped(`{"at":1,"b":2}`)), with(form("b=1&a=2")), with(upload("b", "f", "x")), with(body(`[`)), with(body("")),
		with(body(string(paymentJSON(64 << 10)))), with(query(strings.Repeat("a=b&", 5000))), with(path("/" + strings.Repeat("p", 9000)))}
	want := make([]Fingerprint, len(subjects))
	for i, s := range subjects {
		want[i] = f.Fingerprint(s)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				n := (i*7 + g) % len(subjects)
				if f.Fingerprint(subjects[n]) != want[n] {
					t.Errorf("subject %d: another fingerprint", n)
				}
			}
		})
	}
	wg.Wait()
	for i, s := range []*Subject{with(), with(zipped(`{"at":1,"b":2}`)), with(form("b=1&a=2"))} {
		if !bytes.Equal(s.Body, subjects[i].Body) || !maps.EqualFunc(s.Header, subjects[i].Header, slices.Equal) {
			t.Errorf("subject %d was changed", i)
		}
	}
}

func (r Recipe) fingerprint(s *Subject) (Fingerprint, error) {
	f, err := r.Compile()
	if err != nil {
		return Fingerprint{}, err
	}
	return f.Fingerprint(s), nil
}

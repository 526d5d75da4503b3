package codec_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// throughBody encodes and decodes header lines, which are part of a body.
func throughBody(fields []stet.Field) ([]stet.Field, error) {
	got, b := stet.Body{}, stet.Body{Response: &stet.Response{Status: 200, Header: fields}}
	if err := codec.Body(string(codec.AppendBody(nil, &b)), &got); err != nil {
		return nil, err
	}
	return got.Response.Header, nil
}

// throughHead encodes and decodes Meta, which is part of a head.
func throughHead(meta map[string]string) (map[string]string, error) {
	return metaOf(codec.AppendHead(nil, &stet.Head{Meta: meta}))
}

func metaOf(b []byte) (map[string]string, error) {
	var got stet.Head
	err := codec.Head(string(b), &got)
	return got.Meta, err
}

func TestFieldsRoundTrip(t *testing.T) {
	for name, fields := range map[string][]stet.Field{
		"none":                  nil,
		"one":                   {{Name: "Content-Type", Value: "application/json"}},
		"order and repetitions": {{Name: "Set-Cookie", Value: "b=2"}, {Name: "set-cookie", Value: "a=1"}, {Name: "Set-Cookie", Value: "b=2"}},
		"empty strings":         {{}, {}},
		"any bytes":             {{Name: "X\x00\xff", Value: "\n\u0000\xfe"}},
		"long":                  {{Name: "X", Value: strings.Repeat("v", 70_000)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := throughBody(fields)
			if err != nil || !reflect.DeepEqual(got, fields) {
				t.Fatalf("got %q, %v; want %q", got, err, fields)
			}
		})
	}
}

func TestMetaRoundTrip(t *testing.T) {
	for name, meta := range map[string]map[string]string{
		"none":      nil,
		"several":   {"b": "2", "a": "1", "": "empty"},
		"any bytes": {"\x00": "\xff\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := throughHead(meta)
			if err != nil || !reflect.DeepEqual(got, meta) {
				t.Fatalf("got %q, %v; want %q", got, err, meta)
			}
		})
	}
}

// The bytes of a format are a promise: records of today must be read by every later program.
func TestGoldenBytes(t *testing.T) {
	got := codec.AppendHead([]byte("kept"), &stet.Head{Meta: map[string]string{"k2": "", "k1": "v"}})
	if want := "kept\x11\x02\x02k1\x01v\x02k2\x00"; string(got) != want {
		t.Errorf("meta: got %q, want %q", got, want)
	}
}

func TestRefuses(t *testing.T) {
	huge := binary.AppendUvarint([]byte{0x11}, 1<<60)
	for name, b := range map[string]string{
		"an empty key":              "\x02\x00",
		"no count":                  "\x11",
		"a count without entries":   "\x11\x01",
		"a huge count":              string(huge),
		"a torn string":             "\x11\x01\x01A\x02b",
		"a string length beyond":    "\x11\x01\x01A\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"a number beyond 64 bits":   "\x11\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		"a number of eleven bytes":  "\x11\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
		"a number not the shortest": "\x11\x81\x00\x01A\x01b",
		"bytes after the end":       "\x11\x01\x01A\x01b\x00",
		"bytes after none":          "\x11\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := metaOf([]byte(b)); !errors.Is(err, codec.ErrFormat) {
				t.Errorf("Meta: got %q, %v", got, err)
			}
		})
	}
	for name, b := range map[string]string{
		"keys out of order": "\x11\x02\x01b\x00\x01a\x00",
		"a key twice":       "\x11\x02\x01a\x00\x01a\x00",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := metaOf([]byte(b)); !errors.Is(err, codec.ErrFormat) {
				t.Errorf("Meta: got %q, %v", got, err)
			}
		})
	}
}

// A change to the input after decoding must not reach what was decoded.
func TestKeepsNoReference(t *testing.T) {
	b := codec.AppendHead(nil, &stet.Head{Meta: map[string]string{"A": "b"}})
	got, err := metaOf(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if got["A"] != "b" {
		t.Fatalf("got %q", got)
	}
}

// FuzzRoundTrip goes the other way: any strings, cut anywhere, come back.
func FuzzRoundTrip(f *testing.F) {
	f.Add("Content-Type\x00text/plain\x00X\x00")
	f.Add("\xff\x00\x00\x00")
	f.Fuzz(func(t *testing.T, s string) {
		parts := strings.Split(s, "\x00")
		var fields []stet.Field
		meta := map[string]string{}
		for pair := range slices.Chunk(parts, 2) {
			field := stet.Field{Name: pair[0], Value: pair[len(pair)-1]}
			fields = append(fields, field)
			meta[field.Name] = field.Value
		}
		if got, err := throughBody(fields); err != nil || !slices.Equal(got, fields) {
			t.Fatalf("got %q, %v; want %q", got, err, fields)
		}
		if got, err := throughHead(meta); err != nil || !maps.Equal(got, meta) {
			t.Fatalf("got %q, %v; want %q", got, err, meta)
		}
	})
}

package sealstore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/stet-dev/stet"
)

func testSealer(t testing.TB, compressOver int, maxOpened int64) *sealer {
	t.Helper()
	s, err := newSealer(Keys{Primary: "k1", Keys: map[string][]byte{"k1": make([]byte, KeySize)}}, compressOver, maxOpened)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCompression(t *testing.T) {
	text := bytes.Repeat([]byte(`{"amount": 1000, "currency": "eur"}`), 1000)
	noise := make([]byte, 10_000)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise)
	for name, c := range map[string]struct {
		over    int
		max     int64
		plain   []byte
		smaller bool
	}{
		"text":               {1 << 10, 1 << 20, text, true},
		"never":              {-1, 1 << 20, text, false},
		"small":              {1 << 10, 1 << 20, text[:1<<10], false},
		"just over":          {1 << 10, 1 << 20, text[:1<<10+1], true},
		"noise":              {1 << 10, 1 << 20, noise, false},
		"too large to open":  {1 << 10, int64(len(text)) - 1, text, false},
		"just small enough":  {1 << 10, int64(len(text)), text, true},
		"nothing":            {0, 1 << 20, nil, false},
		"one byte, from one": {0, 1 << 20, []byte{1}, false},
	} {
		s := testSealer(t, c.over, c.max)
		b := s.seal(ofBody, c.plain, []byte("bound"))
		if smaller := len(b) < len(c.plain); smaller != c.smaller {
			t.Errorf("%s: %d bytes are sealed as %d", name, len(c.plain), len(b))
		}
		if got, err := s.open(ofBody, b, []byte("bound")); err != nil || !bytes.Equal(got, c.plain) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// bomb is a frame of a few kilobytes that becomes size bytes of zeros, sealed with our own key.
func bomb(t *testing.T, s *sealer, size int) []byte {
	t.Helper()
	var frame bytes.Buffer
	w, err := zstd.NewWriter(&frame, zstd.WithWindowSize(1<<20)) // a stream: its length is not in its header
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range size >> 20 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out := append([]byte(magic), format, byte(ofBody), compressed, 2, 'k', '1')
	return s.keys.Load().ciphers["k1"].Seal(out, nil, frame.Bytes(), additional(out, nil))
}

// What another writer with the key compressed cannot fill the memory of a reader.
func TestDecoderIsBounded(t *testing.T) {
	const limit = 4 << 20
	s := testSealer(t, 0, limit)
	if got, err := s.open(ofBody, bomb(t, s, limit), nil); err != nil || len(got) != limit {
		t.Errorf("what is within the bound: %d bytes, %v", len(got), err)
	}
	b := bomb(t, s, 256<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := s.open(ofBody, b, nil)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, stet.ErrCorrupt) || got != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*limit {
		t.Errorf("%d bytes of memory were used", used)
	}
}

func TestSealIsNeverTheSame(t *testing.T) {
	s := testSealer(t, -1, 1)
	if bytes.Equal(s.seal(ofBody, []byte("p"), nil), s.seal(ofBody, []byte("p"), nil)) {
		t.Error("one nonce for two values")
	}
}

// Parts of what a value is bound to cannot slip from one to the next.
func TestBoundIsInjective(t *testing.T) {
	if bytes.Equal(bound("a", "bc"), bound("ab", "c")) || bytes.Equal(bound("a", ""), bound("", "a")) {
		t.Error("two lists of parts are the same bytes")
	}
}

// The bytes of format 3 are a promise: what is sealed today is opened by every later program.
func TestGolden(t *testing.T) {
	h := stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: 1, Fingerprint: stet.Fingerprint{Recipe: "1 auto", Sum: [32]byte{1}}}
	body, err := hex.DecodeString("007365616c036201026b3179194ad94c77431f91fed70ae0b0c07ed42451e2cc95b98be410a2320a1a53f7bbfa" +
		"597acb6a3fe5cdb4238bfb563d73158ed6f5a57e8b2f5711bf551293e94404")
	if err != nil {
		t.Fatal(err)
	}
	const head = "stet.sealed:AHNlYWwDaAACazEHIUi46I2hYSsCp7+kykHIJbiMISm7+9cERuDI7Pfc++lHZjUGBH09"
	s := testSealer(t, -1, 1<<20)
	plain, err := s.open(ofBody, body, boundBody(&h))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readBody(plain)
	want := stet.Body{Response: &stet.Response{Status: 201, Header: []stet.Field{{Name: "A", Value: "b"}}, Body: bytes.Repeat([]byte("a"), 48)},
		Request: []byte("q"), Progress: []byte("p")}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if plain, err = s.openText(ofHead, head, boundHead(&h)); err != nil {
		t.Fatal(err)
	}
	if own, err := readHead(plain); err != nil || own.ID != h.ID || own.Meta["a"] != "b" || len(own.Meta) != 1 {
		t.Errorf("%v, %v, %v", own.ID, own.Meta, err)
	}
}

// Whatever is stored, it is opened or refused, never a panic; and nothing that was not sealed is
// opened.
func FuzzOpen(f *testing.F) {
	s := testSealer(f, 0, 1<<20)
	f.Add(s.seal(ofBody, []byte("plain"), nil))
	f.Add(s.seal(ofBody, bytes.Repeat([]byte("plain"), 100), nil))
	f.Add([]byte(magic + "\x01b\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := s.open(ofHead, b, nil); err == nil {
			t.Errorf("%x is opened as %x", b, got)
		}
		if _, err := s.open(ofBody, b, nil); err != nil && !errors.Is(err, stet.ErrCorrupt) {
			t.Errorf("%v", err)
		}
		if _, err := s.openText(ofHead, string(b), nil); !errors.Is(err, stet.ErrCorrupt) {
			t.Errorf("text: %v", err)
		}
	})
}

// What is inside is read or refused, too.
func FuzzReadBody(f *testing.F) {
	whole := sealedBody(&stet.Body{Response: &stet.Response{Status: 201, Header: []stet.Field{{Name: "A", Value: "b"}}, Body: []byte("b")},
		Request: []byte("q"), Progress: []byte("p")})
	f.Add(whole)
	f.Add(sealedBody(&stet.Body{}))
	all, _ := readBody(whole)
	for i := range whole { // which no seal lets through
		if cut, err := readBody(whole[:i]); err == nil && reflect.DeepEqual(cut, all) || err != nil && !errors.Is(err, stet.ErrCorrupt) {
			f.Errorf("%d of %d bytes are the body, or %v", i, len(whole), err)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readBody(b)
		if err != nil {
			if !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("%v", err)
			}
			return
		}
		if again, err := readBody(sealedBody(&got)); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%x is %+v, and then %+v, %v", b, got, again, err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	for name, body := range map[string][]byte{"none": nil, "1KiB": bytes.Repeat([]byte("0123456789abcdef"), 64), "16KiB": bytes.Repeat([]byte("0123456789abcdef"), 1024)} {
		for mode, over := range map[string]int{"compressed": 0, "as-is": -1} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				s := testSealer(b, over, 1<<20)
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if _, err := s.open(ofBody, s.seal(ofBody, body, []byte("bound")), []byte("bound")); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A compressed value tells its size before it takes the memory.
func TestACompressedValueIsNotOpenedBeyondItsRoom(t *testing.T) { // C11
	s, err := newSealer(Keys{Primary: "a", Keys: map[string][]byte{"a": make([]byte, KeySize)}}, 1<<10, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20
	b := s.seal(ofBody, make([]byte, size), nil)
	_, err = s.openUpTo(size-1, ofBody, b, nil)
	if large, ok := errors.AsType[*tooLarge](err); !ok || large.size != size || len(b) > size/10 {
		t.Errorf("%d sealed bytes, with too little room: %v", len(b), err)
	}
	if got, err := s.openUpTo(size, ofBody, b, nil); err != nil || len(got) != size {
		t.Errorf("with room: %d bytes, %v", len(got), err)
	}
}

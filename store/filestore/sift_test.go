package filestore

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

func largeRecord(n int) stet.Record {
	r := goldenRecord()
	noise := func(n int) []byte {
		b := make([]byte, n)
		_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
		return b
	}
	r.Response.Body, r.Request, r.Progress = noise(n), noise(n+1), noise(n+2)
	r.Path = strings.Repeat("/a", n/2) // large, and no body
	r.Meta = map[string]string{`"body_b64": "`: strings.Repeat("A", n)}
	return r
}

// What is read piece by piece is what is read at once, whatever is large in it.
func TestASiftedFileIsReadAsAWhole(t *testing.T) {
	for _, n := range []int{1, 100, piece/2 - 1, piece - 1, piece, piece + 1, 3*piece/4 - 1, 3 * piece / 4, 3*piece/4 + 1, 5 * piece} {
		r := largeRecord(n)
		b, err := encode(&r)
		if err != nil {
			t.Fatal(err)
		}
		want, err := decode(b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := sift(bytes.NewReader(b), int64(len(b)), math.MaxInt64)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("with %d bytes: %v; it is another record", n, err)
		}
	}
}

// A large file that was damaged is refused, also where its body is left.
func TestADamagedSiftedFile(t *testing.T) { // W29
	r := largeRecord(5 * piece)
	good, err := encode(&r)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(b []byte) []byte{
		"a bit of its body":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"a bit of its head":   func(b []byte) []byte { b[len(opening)+20] ^= 1; return b },
		"its schema":          func(b []byte) []byte { b[len(opening)-3]++; return b },
		"its end":             func(b []byte) []byte { return b[:len(b)-100] },
		"its seal":            func(b []byte) []byte { b[len(b)-6] ^= 1; return b },
		"a quotation mark":    func(b []byte) []byte { b[len(b)/2] = '"'; return b },
		"resealed, no base64": func(b []byte) []byte { b[len(b)/2] = '!'; return sealed(b[:len(b)-sealLen]) },
		"resealed, no end":    func(b []byte) []byte { return sealed(b[:len(b)/2]) },
		"resealed, newer form": func(b []byte) []byte {
			return sealed(bytes.Replace(b[:len(b)-sealLen], []byte(`"state"`), []byte(`"stage"`), 1))
		},
	} {
		b := damage(bytes.Clone(good))
		for _, most := range []int64{0, math.MaxInt64} {
			if name == "resealed, no base64" && most == 0 {
				continue // what is left is not decoded
			}
			if r, err := sift(bytes.NewReader(b), int64(len(b)), most); err == nil {
				t.Errorf("%s, with room for %d: it is read as %s", name, most, r.State)
			}
		}
	}
}

// A file is read in memory for its body and little else; where that is left, for little.
func TestSiftingTakesLittleMemory(t *testing.T) { // C11
	dir := t.TempDir()
	s, err := Open(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := goldenRecord()
	r.Response.Body = make([]byte, 16<<20)
	r, err = s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	name := nameOf(r.ID)
	for most, want := range map[int64]int64{0: 1 << 20, 17 << 20: 18 << 20} {
		f, err := os.Open(dir + "/" + pathOf(name))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = readAndClose(f, name, most)
		if runtime.ReadMemStats(&after); err != nil {
			t.Fatal(err)
		}
		if n := int64(after.TotalAlloc - before.TotalAlloc); n > want || n == 0 {
			t.Errorf("with room for %d bytes, %d were allocated", most, n)
		}
	}
}

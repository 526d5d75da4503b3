package canon

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
)

// However writes fall on the buffer's end, the bytes and the checksums are those of one large
// write.
func TestWriterBuffer(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var out, want, stretch bytes.Buffer
		w := NewWriter(&out)
		put := func(p []byte) { want.Write(p); stretch.Write(p) }
		for range 30 {
			p := bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(3)*r.IntN(bufferSize)+r.IntN(200))
			length := binary.AppendUvarint(nil, uint64(len(p)))
			switch r.IntN(6) {
			case 0:
				w.Bytes(p)
				put(append(length, p...))
			case 1:
				w.String(string(p))
				put(append(length, p...))
			case 2:
				w.Lower(string(p))
				for i := range p {
					p[i] = lower(p[i])
				}
				put(append(length, p...))
			case 3:
				w.Raw(p)
				put(p)
			case 4:
				w.tagged('s', p)
				put(append(append([]byte{'s'}, length...), p...))
			case 5:
				if got := w.Cut(); got != crc32.Checksum(stretch.Bytes(), crc32.MakeTable(crc32.Castagnoli)) {
					t.Fatal("another checksum")
				}
				stretch.Reset()
			}
		}
		if all, whole := w.Whole(); whole && !bytes.Equal(all, want.Bytes()) || whole != (out.Len() == 0) {
			t.Fatal("Whole is wrong")
		}
		w.Flush()
		if !bytes.Equal(out.Bytes(), want.Bytes()) {
			t.Fatal("other bytes")
		}
	}
}

func TestLongDocument(t *testing.T) {
	long := strings.Repeat("x", 3*bufferSize)
	src := `{"` + long + `":["` + long + `\n",` + strings.Repeat("1", 2*bufferSize) + `,"` + strings.Repeat(`\u0001`, bufferSize) + `"]}`
	want := "{s" + size(long) + long + "[s" + size(long+"\n") + long + "\n" + "+" + size(strings.Repeat("1", 2*bufferSize)) +
		strings.Repeat("1", 2*bufferSize) + "\x00s" + size(strings.Repeat("\x01", bufferSize)) + strings.Repeat("\x01", bufferSize) + "]}"
	if got, ok := exactForm(src); !ok || got != want {
		t.Error("another exact form")
	}
	text := `{"` + long + `":["` + long + `\n","` + strings.Repeat(`\u0001`, bufferSize) + `"]}`
	if got := jcsText(t, text); got != text {
		t.Error("another RFC 8785 text")
	}
}

func size(s string) string { return string(binary.AppendUvarint(nil, uint64(len(s)))) }

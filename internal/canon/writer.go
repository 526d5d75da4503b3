package canon

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// bufferSize is what a Writer gathers before it passes bytes on: most requests fit, and then reach
// the hash in one call.
const bufferSize = 4096

// Writer gathers small writes for a hash and keeps a checksum of the stretch since the last
// [Writer.Cut]. The hash it feeds must not fail.
type Writer struct {
	out  io.Writer
	buf  []byte
	from int    // where in buf the current stretch begins
	crc  uint32 // of the stretch's bytes that have already left buf
	tab  *crc32.Table
	sent bool // something has left buf since Reset
}

// NewWriter returns a Writer that feeds out.
func NewWriter(out io.Writer) *Writer {
	return &Writer{out: out, buf: make([]byte, 0, bufferSize), tab: crc32.MakeTable(crc32.Castagnoli)}
}

// Reset forgets what was not yet passed on.
func (w *Writer) Reset() {
	w.buf, w.from, w.crc, w.sent = w.buf[:0], 0, 0, false
}

// Flush passes on what was gathered.
func (w *Writer) Flush() {
	w.crc = crc32.Update(w.crc, w.tab, w.buf[w.from:])
	w.pass(w.buf)
	w.buf, w.from = w.buf[:0], 0
}

// Whole returns everything written since Reset, if it all still is here; else the caller must Flush
// and ask the hash.
func (w *Writer) Whole() ([]byte, bool) { return w.buf, !w.sent }

// Cut ends a stretch and returns its CRC-32C.
func (w *Writer) Cut() uint32 {
	c := crc32.Update(w.crc, w.tab, w.buf[w.from:])
	w.from, w.crc = len(w.buf), 0
	return c
}

// Sum returns the CRC-32C of p, which it does not write.
func (w *Writer) Sum(p []byte) uint32 { return crc32.Checksum(p, w.tab) }

func (w *Writer) pass(p []byte) {
	w.sent = true
	w.out.Write(p)
}

// room makes sure that n more bytes fit, if that many ever do.
func (w *Writer) room(n int) {
	if len(w.buf)+n > cap(w.buf) {
		w.Flush()
	}
}

// Byte writes a tag.
func (w *Writer) Byte(c byte) {
	w.room(1)
	w.buf = append(w.buf, c)
}

// Uint writes a count or a length.
func (w *Writer) Uint(n int) {
	w.room(binary.MaxVarintLen64)
	w.buf = binary.AppendUvarint(w.buf, uint64(n))
}

// Raw writes bytes as they are. Large ones are not copied.
func (w *Writer) Raw(p []byte) {
	w.room(len(p))
	if len(p) <= cap(w.buf) {
		w.buf = append(w.buf, p...)
		return
	}
	w.crc = crc32.Update(w.crc, w.tab, p)
	w.pass(p)
}

// Bytes writes p with its length.
func (w *Writer) Bytes(p []byte) {
	w.Uint(len(p))
	w.Raw(p)
}

// String writes s with its length.
func (w *Writer) String(s string) {
	w.Uint(len(s))
	for len(w.buf)+len(s) > cap(w.buf) {
		n := cap(w.buf) - len(w.buf)
		w.buf = append(w.buf, s[:n]...)
		s = s[n:]
		w.Flush()
	}
	w.buf = append(w.buf, s...)
}

// Lower writes s with its length and its ASCII capitals as small letters.
func (w *Writer) Lower(s string) {
	w.Uint(len(s))
	for i := range len(s) {
		w.Byte(lower(s[i]))
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

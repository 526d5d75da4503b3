package ledger

import (
	"errors"
	"io"
	"sync"
)

// Why a [Buffer] was not filled.
var (
	ErrTooLong = errors.New("the body is over the limit")
	ErrNoRoom  = errors.New("too many bytes are held")
)

// first is what a buffer has to begin with. Buffers are reused between requests up to the size of
// what is small: what grew larger is left to the garbage collector.
const first = 4 << 10

var arrays = sync.Pool{New: func() any { b := make([]byte, 0, first); return &b }}

// Buffer holds bytes of an owner in memory, and counts them. It is not safe for concurrent use.
type Buffer struct {
	hold Hold
	data *[]byte // nil: nothing was put into it
}

// Buffer returns an empty buffer.
func (l *Ledger) Buffer(o Owner) Buffer { return Buffer{hold: l.Hold(o)} }

// Fill reads r to its end. length is what r was announced to have; 0 and less is nothing. most is
// what it may have. The error is [ErrTooLong], [ErrNoRoom] or r's. Memory is taken as bytes arrive:
// who announces much and sends nothing holds little.
func (b *Buffer) Fill(r io.Reader, length, most int64) error {
	if length > most {
		return ErrTooLong
	}
	size := min(most+1, first) // one more than there is, or the end could not be told
	if length > 0 {
		size = min(length+1, Small)
	}
	for {
		if !b.grow(size, max(size, length) <= Small+1) {
			return ErrNoRoom
		}
		err := b.read(r, size)
		switch have := int64(len(*b.data)); {
		case have > most:
			return ErrTooLong
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case have <= length:
			size = min(2*size, length+1)
		default:
			size = min(2*size, most+1)
		}
	}
}

// read reads until there are size bytes.
func (b *Buffer) read(r io.Reader, size int64) error {
	for {
		at := len(*b.data)
		n, err := r.Read((*b.data)[at:size])
		*b.data = (*b.data)[:at+n]
		if err != nil || int64(at+n) == size {
			return err
		}
	}
}

// Append adds p, and reports false, changing nothing, where there would be more than most bytes, or
// there is no room.
func (b *Buffer) Append(p []byte, most int64) bool {
	if need := int64(len(b.Bytes()) + len(p)); need > most || !b.reserve(need, most) {
		return false
	}
	if b.data == nil {
		b.take()
	}
	*b.data = append(*b.data, p...)
	return true
}

// reserve makes room for need bytes in all, and for as many more as keep pieces from being copied
// again and again.
func (b *Buffer) reserve(need, most int64) bool {
	if need <= b.hold.n {
		return true
	}
	ample := min(max(2*b.hold.n, first), most)
	return need < ample && b.grow(ample, ample <= Small) || b.grow(need, need <= Small)
}

// grow makes room for size bytes in all.
func (b *Buffer) grow(size int64, small bool) bool {
	if !b.hold.Raise(size, small) {
		return false
	}
	if b.data == nil {
		b.take()
	}
	if int64(cap(*b.data)) < size {
		larger := make([]byte, len(*b.data), size)
		copy(larger, *b.data)
		*b.data = larger
	}
	return true
}

func (b *Buffer) take() { b.data = arrays.Get().(*[]byte) }

// Bytes returns what was put in, and nil where nothing was. It is valid until the buffer is
// dropped.
func (b *Buffer) Bytes() []byte {
	if b.data == nil {
		return nil
	}
	return *b.data
}

// Reset takes back what was put in. The memory stays.
func (b *Buffer) Reset() {
	if b.data != nil {
		*b.data = (*b.data)[:0]
	}
}

// Drop ends the buffer, whose memory is then used for others. Again it does nothing.
func (b *Buffer) Drop() {
	if b.data != nil && cap(*b.data) <= Small {
		*b.data = (*b.data)[:0]
		arrays.Put(b.data)
	}
	b.Leave()
}

// Leave ends the buffer for a holder that may still read its bytes: they are not used again.
func (b *Buffer) Leave() {
	b.data = nil
	b.hold.Free()
}

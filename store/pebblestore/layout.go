package pebblestore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// The first byte of a key says what it is.
const (
	headKey   = 'r'
	bodyKey   = 'b'
	dueKey    = 'd'
	listKey   = 'l'
	tagKey    = 't'
	nameKey   = 'n'
	changeKey = 'h'
	ofKey     = 'i'
)

// never sorts after every instant: the due time of a record that never falls due.
const never = math.MaxInt64

// appendText appends s after its length, so that no text is the beginning of another.
func appendText[S ~string](dst []byte, s S) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func parseID(s string) (stet.ID, error) {
	id, ok := codec.ID(s)
	if !ok {
		return id, fmt.Errorf("%w: an index has no ID", stet.ErrCorrupt)
	}
	return id, nil
}

func keyOf(kind byte, id stet.ID) []byte { return codec.AppendID([]byte{kind}, id) }

// changesOf is what the keys of the changes of one record, and of no other, begin with.
func changesOf(id stet.ID) []byte { return appendText(appendText([]byte{ofKey}, id.Scope), id.Key) }

// number appends a number so that numbers sort as their bytes do.
func number(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// class is what the indexes by time and by number sort by first: the state, and whether a Reaper
// may remove the record when it is due.
type class byte

const reapable class = 8

func classOf(h *stet.Head) class {
	c := class(h.State)
	if h.State == stet.Retryable || h.State == stet.Expired || h.State == stet.Completed && h.Rules.KeepExpired <= 0 {
		c |= reapable
	}
	return c
}

// classes are those that records in these states may have; without states, all.
func classes(states []stet.State) (all []class) {
	for s := stet.Running; s <= stet.Expired; s++ {
		if len(states) == 0 || slices.Contains(states, s) {
			all = append(all, class(s), class(s)|reapable)
		}
	}
	return all
}

// row is a record's head as it is stored, with what only the store knows of it.
type row struct {
	stet.Head
	number uint64 // its place in the order of creation
	body   bool   // it has a body, under a key of its own
}

func due(h *stet.Head) uint64 {
	if h.DueAt.IsZero() {
		return never
	}
	return uint64(h.DueAt.UnixMicro())
}

// indexes are the keys by which a record is found, each with its value.
func (r *row) indexes() (all [][2]string) {
	id := codec.AppendID(nil, r.ID)
	at := func(kind byte, parts ...[]byte) string {
		return string(slices.Concat(append([][]byte{{kind}}, parts...)...))
	}
	c := []byte{byte(classOf(&r.Head))}
	n := number(nil, r.number)
	all = append(make([][2]string, 0, 5), [2]string{at(dueKey, c, number(nil, due(&r.Head)), id), string(n)},
		[2]string{at(listKey, c, n), string(id)})
	if r.Tag != "" {
		all = append(all, [2]string{at(tagKey, appendText(nil, r.Tag), id), ""})
	}
	for i, name := range [...]string{r.DownstreamKey, r.DownstreamID} {
		if name != "" && (i == 0 || name != r.DownstreamKey) {
			all = append(all, [2]string{at(nameKey, appendText(nil, name), id), ""})
		}
	}
	return all
}

// A head is stored as a byte of flags behind the format, six numbers of eight bytes, and the rest
// of it as [codec.AppendHead] writes it.
const (
	numbers  = 6
	restAt   = 2 + numbers*8
	sumLen   = 4
	withBody = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed appends a checksum of the key and of what is stored under it: a value that came under
// another key is noticed, too.
func sealed(key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, checksum(key, value))
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// errFormat is the error of a value that another version wrote.
var errFormat = fmt.Errorf("%w: its format is not known", stet.ErrCorrupt)

// opened is the inverse of sealed. It refuses what was changed, and what another version wrote.
func opened(key, value []byte) ([]byte, error) {
	n := len(value) - sumLen
	switch {
	case n < 1:
		return nil, fmt.Errorf("%w: it is empty", stet.ErrCorrupt)
	case value[0] != codec.Format:
		return nil, errFormat
	case checksum(key, value[:n]) != binary.BigEndian.Uint32(value[n:]):
		return nil, fmt.Errorf("%w: its checksum differs", stet.ErrCorrupt)
	}
	return value[:n], nil
}

// appendRest appends the part of a head that is encoded.
func appendRest(dst []byte, h *stet.Head) []byte {
	rest := *h
	rest.ID, rest.Version = stet.ID{}, 0
	return codec.AppendHead(dst, &rest)
}

// encode returns the value of a head whose encoded part is rest.
func (r *row) encode(key, rest []byte) []byte {
	b := append(make([]byte, 0, restAt+len(rest)+sumLen), codec.Format, 0)
	if r.body {
		b[1] |= withBody
	}
	for _, n := range [numbers]uint64{uint64(r.Version), due(&r.Head), micros(r.CreatedAt), micros(r.UpdatedAt), micros(r.CompletedAt), r.number} {
		b = number(b, n)
	}
	return sealed(key, append(b, rest...))
}

// decode is the inverse of encode.
func decode(key, value []byte) (r row, err error) {
	value, err = opened(key, value)
	if err != nil {
		return r, err
	}
	if len(value) < restAt {
		return r, fmt.Errorf("%w: it is too short", stet.ErrCorrupt)
	}
	var n [numbers]uint64
	for i := range n {
		n[i] = binary.BigEndian.Uint64(value[2+8*i:])
	}
	if err := codec.Head(string(value[restAt:]), &r.Head); err != nil {
		return r, fmt.Errorf("%w: %w", stet.ErrCorrupt, err)
	}
	if r.ID, err = parseID(string(key[1:])); err != nil {
		return r, err
	}
	r.Version, r.number, r.body = stet.Version(n[0]), n[5], value[1]&withBody != 0
	r.CreatedAt, r.UpdatedAt, r.CompletedAt = instant(n[2]), instant(n[3]), instant(n[4])
	if n[1] != never {
		r.DueAt = instant(n[1])
	}
	if err := codec.Check(&r.Head); err != nil {
		return r, fmt.Errorf("%w: %w", stet.ErrCorrupt, err)
	}
	return r, nil
}

// micros and instant turn instants into numbers and back. No instant is 0.
func micros(t time.Time) uint64   { return uint64(codec.Micros(t)) }
func instant(us uint64) time.Time { return codec.Instant(int64(us)) }

// asOf is when h was read. A record's time does not go back, even if the host's clock was set back
// while no process was running (I13).
func asOf(h *stet.Head, now time.Time) time.Time {
	for _, at := range [...]time.Time{h.CreatedAt, h.UpdatedAt} {
		if now.Before(at) {
			now = at
		}
	}
	return now
}

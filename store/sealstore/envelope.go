package sealstore

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/stet-dev/stet"
)

// An envelope is a sealed value:
//
//	magic · format · purpose · flags · length of the key's id · id · nonce, ciphertext and tag
//
// The additional data is everything before the nonce, followed by what the value is bound to.
const (
	magic  = "\x00seal"
	format = 3

	preamble = len(magic) + 4
)

// purpose prevents a value from being opened as another kind of value.
type purpose byte

const (
	ofBody     purpose = 'b' // bound to the stored ID and the fingerprint
	ofHead     purpose = 'h' // Meta and the true ID; bound to the stored ID and the version
	ofEvidence purpose = 'e' // bound to the stored ID
)

const compressed = 1 // flag: the plaintext is a zstd frame

// ErrPlain is returned, together with [stet.ErrCorrupt], for a record that is not sealed.
var ErrPlain = errors.New("sealstore: the record is not sealed")

func errPlain() error { return fmt.Errorf("%w: %w", stet.ErrCorrupt, ErrPlain) }

// sealer seals and opens values. It is safe for concurrent use.
type sealer struct {
	keys         atomic.Pointer[ring]
	compressOver int   // in bytes; negative: never compress
	maxOpened    int64 // largest size of a decompressed value, in bytes
	encoder      *zstd.Encoder
	decoder      *zstd.Decoder
}

func newSealer(k Keys, compressOver int, maxOpened int64) (s *sealer, err error) {
	s = &sealer{compressOver: compressOver, maxOpened: maxOpened}
	keys, err := k.ring()
	if err != nil {
		return nil, err
	}
	s.keys.Store(keys)
	s.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false)) // the seal is a better checksum
	if err != nil {
		return nil, err
	}
	s.decoder, err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(uint64(maxOpened)), zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderLowmem(true))
	return s, err
}

// seal returns plain in an envelope. It does not compress a value that is too large to be opened
// again.
func (s *sealer) seal(as purpose, plain, boundTo []byte) []byte {
	var flags byte
	if s.compressOver >= 0 && len(plain) > s.compressOver && int64(len(plain)) <= s.maxOpened {
		if small := s.encoder.EncodeAll(plain, nil); len(small) < len(plain) {
			plain, flags = small, compressed
		}
	}
	keys := s.keys.Load()
	aead, id := keys.ciphers[keys.primary], keys.primary
	out := make([]byte, 0, preamble+len(id)+aead.Overhead()+len(plain))
	out = append(append(out, magic...), format, byte(as), flags, byte(len(id)))
	out = append(out, id...)
	return aead.Seal(out, nil, plain, additional(out, boundTo))
}

// additional returns header and boundTo in a new slice, because Seal appends to the envelope while
// it reads them.
func additional(header, boundTo []byte) []byte {
	return append(append(make([]byte, 0, len(header)+len(boundTo)), header...), boundTo...)
}

func isSealed(b []byte) bool { return len(b) >= preamble && string(b[:len(magic)]) == magic }

// open returns what seal was given. The error is [stet.ErrCorrupt], with a reason.
func (s *sealer) open(as purpose, b, boundTo []byte) ([]byte, error) {
	return s.openUpTo(math.MaxInt64, as, b, boundTo)
}

// tooLarge is the error for a value that would be larger than was asked for.
type tooLarge struct{ size int64 }

func (t *tooLarge) Error() string { return fmt.Sprintf("it has %d bytes", t.size) }

// openUpTo is open for a value of at most that many bytes: any other is [tooLarge].
func (s *sealer) openUpTo(most int64, as purpose, b, boundTo []byte) ([]byte, error) {
	if !isSealed(b) {
		return nil, errPlain()
	}
	if v := b[len(magic)]; v != format {
		return nil, fmt.Errorf("%w: its seal is of format %d, which this version does not know", stet.ErrCorrupt, v)
	}
	flags, end := b[len(magic)+2], preamble+int(b[len(magic)+3])
	if b[len(magic)+1] != byte(as) || end > len(b) || flags&^compressed != 0 {
		return nil, errBroken()
	}
	id := string(b[preamble:end])
	aead, ok := s.keys.Load().ciphers[id]
	if !ok {
		if !validID(id) {
			return nil, errBroken()
		}
		return nil, fmt.Errorf("%w: it is sealed with key %q, which is not among the keys", stet.ErrCorrupt, id)
	}
	plain, err := aead.Open(nil, nil, b[end:], additional(b[:end], boundTo))
	if err != nil {
		return nil, errBroken()
	}
	if flags&compressed == 0 {
		return plain, nil
	}
	var frame zstd.Header // what was sealed tells the truth: a frame that was made by seal has its size
	if frame.Decode(plain) == nil && frame.HasFCS && frame.FrameContentSize > uint64(most) {
		return nil, &tooLarge{int64(min(frame.FrameContentSize, math.MaxInt64))}
	}
	if plain, err = s.decoder.DecodeAll(plain, nil); err != nil {
		return nil, fmt.Errorf("%w: its body cannot be decompressed within %d bytes: %w",
			stet.ErrCorrupt, s.maxOpened, err)
	}
	return plain, nil
}

// errSeal is of a value that its key does not open, by its id.
var errSeal = errors.New("its seal is broken")

func errBroken() error { return fmt.Errorf("%w: %w", stet.ErrCorrupt, errSeal) }

// keyOf is the id of the key that has sealed b.
func keyOf(b []byte) (id string, ok bool) {
	if !isSealed(b) || preamble+int(b[len(magic)+3]) > len(b) {
		return "", false
	}
	id = string(b[preamble : preamble+int(b[len(magic)+3])])
	return id, validID(id)
}

// textPrefix begins a sealed value in a text field; the rest is base64.
const textPrefix = "stet.sealed:"

func isSealedText(s string) bool { return strings.HasPrefix(s, textPrefix) }

func (s *sealer) sealText(as purpose, plain, boundTo []byte) string {
	return textPrefix + base64.RawStdEncoding.EncodeToString(s.seal(as, plain, boundTo))
}

func (s *sealer) openText(as purpose, text string, boundTo []byte) ([]byte, error) {
	b, err := sealedText(text)
	if err != nil {
		return nil, err
	}
	return s.open(as, b, boundTo)
}

// sealedText is the value that a text field holds.
func sealedText(text string) ([]byte, error) {
	text, ok := strings.CutPrefix(text, textPrefix)
	if !ok {
		return nil, errPlain()
	}
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || !isSealed(b) {
		return nil, errBroken()
	}
	return b, nil
}

// bound encodes what a value belongs to. Each part has its length before it, so that different
// parts never give the same bytes.
func bound(parts ...string) []byte {
	var b []byte
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

func boundBody(h *stet.Head) []byte {
	return bound(string(h.Scope), string(h.Key), h.Fingerprint.Recipe, string(h.Fingerprint.Sum[:]))
}

func boundHead(h *stet.Head) []byte {
	return binary.BigEndian.AppendUint64(boundID(h.ID), uint64(h.Version))
}

func boundID(id stet.ID) []byte { return bound(string(id.Scope), string(id.Key)) }

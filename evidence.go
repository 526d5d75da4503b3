package stet

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/digest"
	"github.com/stet-dev/stet/internal/tag"
)

// Execution names one execution of a key, for a statement about what became of it. The key alone
// names none: it is executed again after proof that nothing happened, and in each new life. All
// that is given has to match the record, else the statement is about another execution and changes
// nothing. What suffices is the Fence; the Version; and, for the statement that the effect happened,
// a DownstreamKey that Stet has derived, or a DownstreamID. Anything less is [ErrUnnamed].
type Execution struct {
	// Fence is what the handler and systems further down were told: [Head.Fence].
	Fence int64
	// Version is that of the record as the one who decides saw it.
	Version Version
	// DownstreamKey is the key that a system further down was sent for the effect: [Head.LifeKey],
	// the key that a flow has derived for the phase that the record is at, or the record's
	// [Head].DownstreamKey. The first two name a life of the key and no attempt. That suffices for
	// the statement that the effect happened, which holds for the whole life. It never suffices for
	// the opposite, since an earlier attempt may be meant. A key that the handler has chosen may
	// have been sent in several lives: it names none, and has to match where it is given.
	DownstreamKey string
	// DownstreamID is the id that a system further down has given the effect, and that this
	// execution has reported: the record's [Head].DownstreamID. It suffices for the statement that
	// the effect happened, unless the record has a recovery point: the id may then be that of an
	// effect before the point.
	DownstreamID string
}

// Execution names the execution that the record is about.
func (h *Head) Execution() Execution { return Execution{Fence: h.Fence()} }

// ErrUnnamed is returned for a statement that does not say which execution it is about.
var ErrUnnamed = errors.New("stet: the statement does not say which execution it is about")

var (
	errUnnamedEffect = fmt.Errorf("%w: give its fence (Stet-Fence), the downstream key of its life, the downstream id that it has reported, "+
		"or the version of the record that it was decided on", ErrUnnamed)
	errUnnamedRelease = fmt.Errorf("%w: that nothing happened has to name its fence (Stet-Fence), or the version of the record that it "+
		"was decided on: a name further down may be an earlier attempt's", ErrUnnamed)
	errChosenKey = fmt.Errorf("%w: the handler has chosen that downstream key, which may name several lives: give the fence (Stet-Fence), "+
		"or the key that Stet derives (Stet-Downstream-Key)", ErrUnnamed)
	errPhase = fmt.Errorf("%w: the record has a recovery point, and the downstream id may be that of an effect before it: give the fence "+
		"(Stet-Fence), or the downstream key of its phase", ErrUnnamed)
)

// Names returns nil if x names the execution that h is about, for a statement about what became of
// it: that it happened, or that it did not. Else it is [ErrUnnamed], [ErrOtherRun], or [ErrStale] if
// h has another version.
func (x Execution) Names(h *Head, happened bool) error {
	if err := x.named(happened); err != nil {
		return err
	}
	if x.Version != 0 && x.Version != h.Version {
		return ErrStale
	}
	return x.matches(h)
}

// named returns an error if x names too little for a statement that the effect happened, or that it
// did not.
func (x *Execution) named(happened bool) error {
	switch {
	case x.Fence != 0, x.Version != 0:
		return nil
	case !happened:
		return errUnnamedRelease
	case x.DownstreamKey == "" && x.DownstreamID == "":
		return errUnnamedEffect
	}
	return nil
}

// matches returns an error if x names another execution than the record's.
func (x *Execution) matches(h *Head) error {
	derived := x.DownstreamKey != "" && h.derives(x.DownstreamKey)
	switch {
	case x.Fence != 0 && x.Fence != h.Fence(),
		x.DownstreamKey != "" && x.DownstreamKey != h.DownstreamKey && !derived,
		x.DownstreamID != "" && x.DownstreamID != h.DownstreamID:
		return ErrOtherRun
	case x.Fence != 0, x.Version != 0, derived, x.DownstreamID != "" && h.Point == "":
		return nil
	case x.DownstreamID != "":
		return errPhase
	}
	return errChosenKey
}

// earlier reports whether x names an execution of the record's life that came before the record's.
func (x *Execution) earlier(h *Head) bool {
	return x.Fence > h.CreatedAt.UnixMicro() && x.Fence < h.Fence()
}

// derives reports whether Stet has derived a downstream key for this life: for the whole of it, or
// for the phase of a flow that the record is at.
func (h *Head) derives(key string) bool {
	return key == h.LifeKey() ||
		h.Point != "" && key == digest.Phase(string(h.Scope), string(h.Key), h.Point, h.CreatedAt.UnixMicro())
}

// LifeKey is what [Claim.DownstreamKey] returns, for those who have the record alone. It names this
// life of the key to systems further down: the same for all attempts of a life, and another for
// each life, scope and key. It is opaque, in 43 characters of base64url of 32 bytes: the 8 of the
// record's [Head].Tag, by which [Operator.Find] finds it, and 24 of a SHA-256 over scope, key and
// CreatedAt. It holds nothing that the key could be read from, and is never stored. The store has to
// have stamped CreatedAt. A change of the Pepper changes the keys of lives that go on over it.
func (h *Head) LifeKey() string {
	const usual = 256 // bytes; no memory is taken for them
	text := make([]byte, 0, usual)
	for _, part := range [...]string{"stet life", string(h.Scope), string(h.Key)} {
		text = binary.BigEndian.AppendUint64(text, uint64(len(part)))
		text = append(text, part...)
	}
	text = binary.BigEndian.AppendUint64(text, uint64(h.CreatedAt.UnixMicro()))
	sum := sha256.Sum256(text)
	bits, _ := tag.Parse(h.Tag)
	key := append(binary.BigEndian.AppendUint64(make([]byte, 0, sha256.Size), bits), sum[:24]...)
	return base64.RawURLEncoding.EncodeToString(key)
}

// tagOf is the tag of the record that a key of [Head.LifeKey] is of; ok is false for other names.
func tagOf(lifeKey string) (text string, ok bool) {
	key, err := base64.RawURLEncoding.Strict().DecodeString(lifeKey)
	if err != nil || len(key) != sha256.Size {
		return "", false
	}
	return tag.Text(binary.BigEndian.Uint64(key)), true
}

// held is what is known of the handler's own answer to a record in doubt.
type held uint8

const (
	heldNothing held = iota
	heldAnswer       // an answer that came too late, whole or with its headers
	heldStatus       // ... of which the status and the size are known alone
)

func holds(h *Head, b *Body) held {
	switch {
	case b.Response == nil:
		return heldNothing
	case h.Kept == KeptWhole:
		return heldAnswer
	}
	return heldStatus
}

// conclusion is what becomes of a record in doubt on evidence: Completed with an answer, or
// Retryable.
type conclusion struct {
	state    State
	response *Response // nil: the status alone
	status   int
	size     int64
	kept     Kept
}

// conclude is the one place where evidence meets what is held of the handler's own answer. Evidence
// decides whether the effect happened; the handler's own answer, if there is one, decides what
// retries receive. Evidence that contradicts that answer ends nothing, unless it is overridden.
func (r *Resolution) conclude(h *Head, b *Body) (conclusion, error) {
	own := holds(h, b)
	switch {
	case r.Response == nil && h.Published:
		return conclusion{}, fmt.Errorf("%w: bytes of an answer have left, so that it did happen", ErrState)
	case r.Response == nil && own != heldNothing && !r.Override:
		return conclusion{}, ErrContradicted
	case r.Response == nil && h.found() && !r.Override:
		return conclusion{}, ErrFound
	case r.Response == nil:
		return conclusion{state: Retryable}, nil
	case own != heldNothing && r.agrees(h, b, own):
		return conclusion{Completed, b.Response, h.Status, h.Size, h.Kept}.published(h), nil
	case own != heldNothing && !r.Override:
		return conclusion{}, fmt.Errorf("%w: it was answered %d", ErrContradicted, h.Status)
	case h.Published && r.Kept != KeptStatus:
		return conclusion{}, fmt.Errorf("%w: bytes of an answer have left, and another may not follow: give the status alone", ErrState)
	}
	return conclusion{Completed, r.Response, r.Response.Status, int64(len(r.Response.Body)), r.Kept}, nil
}

// published is what is left of an answer whose first bytes were sent before it was stored: another
// client must not receive it as if it were whole.
func (e conclusion) published(h *Head) conclusion {
	if h.Published {
		e.kept = KeptStatus
	}
	return e
}

// agrees reports whether the evidence may be about the answer that is held: both are successes, or
// both are the same kind of failure, and a body that the evidence claims to be the answer's is the
// same.
func (r *Resolution) agrees(h *Head, b *Body, own held) bool {
	if succeeded(r.Response.Status) != succeeded(h.Status) || !succeeded(h.Status) && r.Response.Status/100 != h.Status/100 {
		return false
	}
	switch {
	case r.Substitute, r.Kept != KeptWhole, len(r.Response.Body) == 0: // it claims no body
		return true
	case own == heldStatus:
		return int64(len(r.Response.Body)) == h.Size
	}
	return bytes.Equal(r.Response.Body, b.Response.Body)
}

// repeats reports whether the evidence says of a record that has a result what the record says. A
// result that was found out by evidence may have another body than the handler's answer had.
func (r *Resolution) repeats(h *Head, b *Body) bool {
	again, own := *r, heldStatus
	if again.Substitute = r.Substitute || h.Reconciled; b.Response != nil && h.Kept == KeptWhole {
		own = heldAnswer
	}
	return again.agrees(h, b, own)
}

// succeeded reports whether an answer with the status says that the effect happened.
func succeeded(status int) bool { return status < 400 }

// overrides adds to the evidence what spoke against it.
func (r *Resolution) overrides(h *Head, b *Body, evidence string) string {
	var against []string
	if evidence != "" {
		against = append(against, evidence)
	}
	if own := holds(h, b); own != heldNothing && (r.Response == nil || !r.agrees(h, b, own)) {
		against = append(against, fmt.Sprintf("against a late answer with status %d", h.Status))
	}
	if r.Response == nil && h.found() {
		against = append(against, "against a probe that found it")
	}
	switch idle := h.Idle(); {
	case r.Response != nil:
	case h.Attended():
		against = append(against, "against a handler that had not returned")
	case idle < r.Settle:
		against = append(against, fmt.Sprintf("%s after the attempt ended, before it had settled", idle.Truncate(time.Second)))
	}
	return strings.Join(against, "; ")
}

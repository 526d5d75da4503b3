package stet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Snooze takes an unknown record out of what calls for people, until it ends by itself. It changes
// nothing else: the record is probed, and waits for evidence, as before.
type Snooze struct {
	Until time.Time `json:"until"` // by the store's clock
	Who   string    `json:"who"`
	Why   string    `json:"why"`
}

// Handover says who looks after an unknown record.
type Handover struct {
	To  string    `json:"to"`
	Who string    `json:"who"` // handed it over
	Why string    `json:"why"`
	At  time.Time `json:"at"` // by the store's clock
}

// LastProbe is what a probe of an unknown record was answered that ended nothing.
type LastProbe struct {
	At       time.Time     `json:"at"` // by the store's clock: [Operator.Probed] writes it
	Took     time.Duration `json:"took"`
	Found    string        `json:"found"`             // [FoundHappened], [FoundVoided], or another word, which decides nothing
	Status   int           `json:"status,omitzero"`   // of the HTTP answer; 0 where there was none
	Evidence string        `json:"evidence,omitzero"` // no secret
}

// What a probe finds for good.
const (
	FoundHappened = "happened"
	FoundVoided   = "voided" // it did not happen, and cannot any more
)

// final reports whether the answer says for good what became of the execution.
func (p *LastProbe) final() bool {
	return p != nil && (p.Found == FoundHappened || p.Found == FoundVoided)
}

// MaxSnooze is the longest that a record can be snoozed at a time: what may have happened must not
// be forgotten.
const MaxSnooze = 7 * 24 * time.Hour

// MaxRemark is how many bytes each text of a [Snooze], a [Handover] or a [LastProbe] has at most.
// Every list reads them with the head.
const MaxRemark = 1000

// attention is what the head of an unknown record says for people, besides its fields. It is part
// of the head, so that lists know it without another look, and every write that copies the head
// keeps it. It ends with the state.
type attention struct {
	Since    time.Time  `json:"since,omitzero"` // when it became unknown; zero: at [Head.Ended]
	Late     time.Time  `json:"late,omitzero"`  // when a result came too late
	Snooze   *Snooze    `json:"snooze,omitempty"`
	Handover *Handover  `json:"handover,omitempty"`
	Probe    *LastProbe `json:"probe,omitempty"`
}

// attentionName is where it is in [Head.Meta], which every store keeps. Like [OwnScope] it begins
// with a space.
const attentionName = " stet"

func (h *Head) attention() (a attention) {
	if text := h.Meta[attentionName]; text != "" && h.State == Unknown {
		if json.Unmarshal([]byte(text), &a) != nil { // nothing rests on it
			a = attention{}
		}
	}
	return a
}

// setAttention makes a the head's. Its Meta belongs to others, too, and is not written to.
func (h *Head) setAttention(a *attention) {
	meta := maps.Clone(h.Meta)
	delete(meta, attentionName)
	if *a != (attention{}) {
		if meta == nil {
			meta = map[string]string{}
		}
		text, err := json.Marshal(a)
		if err != nil {
			panic("stet: an instant that is none: " + err.Error())
		}
		meta[attentionName] = string(text)
	}
	if h.Meta = meta; len(meta) == 0 {
		h.Meta = nil
	}
}

// dropAttention drops it from a head that is not unknown any more.
func (h *Head) dropAttention() {
	if _, there := h.Meta[attentionName]; there && h.State != Unknown {
		h.setAttention(&attention{})
	}
}

// keepSince keeps when the record became unknown, for a write that moves [Head.Ended].
func (h *Head) keepSince(at time.Time) {
	if a := h.attention(); a.Since.IsZero() {
		a.Since = at.UTC()
		h.setAttention(&a)
	}
}

// Snooze returns the snooze of an unknown record that had not ended when it was read.
func (h *Head) Snooze() (Snooze, bool) {
	if s := h.attention().Snooze; s != nil && h.AsOf.Before(s.Until) {
		return *s, true
	}
	return Snooze{}, false
}

// Handover returns who an unknown record was handed to last.
func (h *Head) Handover() (Handover, bool) {
	if to := h.attention().Handover; to != nil {
		return *to, true
	}
	return Handover{}, false
}

// LastProbe returns what counts of what the probes of an unknown record were answered: the last that
// says for good what became of it or, without one, the last. A probe that then gets no answer takes
// nothing from what was found, and one that finds no trace contradicts it, so that people decide.
func (h *Head) LastProbe() (LastProbe, bool) {
	if p := h.attention().Probe; p != nil {
		return *p, true
	}
	return LastProbe{}, false
}

// found reports whether a probe has found that it happened.
func (h *Head) found() bool {
	p := h.attention().Probe
	return p != nil && p.Found == FoundHappened
}

// Late is when a result came too late for an unknown record: [Head.Status] and [Head.Size] are that
// result's. It is zero if none came.
func (h *Head) Late() time.Time { return h.attention().Late }

// UnknownSince is when the record became unknown, as far as is known. Unlike [Head.Ended] it stays
// the same.
func (h *Head) UnknownSince() time.Time {
	if at := h.attention().Since; !at.IsZero() {
		return at
	}
	return h.Ended()
}

// Basis stands for what a decision about the record rests on, in 16 hex digits: who decides names
// it, and is refused where it is another one meanwhile. Of an unknown record it is the attempt, a
// late answer, the snooze and the handover, and it stays the same while probes go on; of others it
// changes with the [Version].
func (h *Head) Basis() string {
	seen := fmt.Sprint(h.Version)
	if h.State == Unknown {
		a := h.attention()
		a.Since, a.Probe = time.Time{}, nil
		text, _ := json.Marshal(a) // it was read from JSON
		seen = fmt.Sprintf("%d %d %d %s", h.Fence(), h.Status, h.Size, text)
	}
	sum := sha256.Sum256([]byte(seen))
	return hex.EncodeToString(sum[:8])
}

// Verdict is what a request is told that has the record's key and its content, and comes when the
// record was read.
func (h *Head) Verdict() Verdict { return judge(h, true).Verdict }

// Snooze takes an unknown record out of what calls for people for so long, up to [MaxSnooze]; 0
// wakes it. A late answer wakes it, too. version and n are as in [Operator.Resolve], and the error
// is [ErrState] if the record is not unknown.
func (o *Operator) Snooze(ctx context.Context, id ID, version Version, d time.Duration, n Note) (Head, error) {
	if err := snoozeBounds.Check(int64(d)); err != nil {
		return Head{}, fmt.Errorf("stet: Snooze: %w", err)
	}
	if n.Action = "snooze"; d == 0 {
		n.Action = "wake"
	}
	return o.regard(ctx, id, version, n, func(h *Head, a *attention) {
		if a.Snooze = nil; d > 0 {
			a.Snooze = &Snooze{Until: h.AsOf.Add(d).UTC(), Who: n.Who, Why: n.Why}
		}
	})
}

// Hand hands an unknown record over to a person. version and n are as in [Operator.Resolve]; the
// error is [ErrState] if the record is not unknown.
func (o *Operator) Hand(ctx context.Context, id ID, version Version, to string, n Note) (Head, error) {
	if blank(to) {
		return Head{}, errors.New("stet: Hand: it is handed to nobody")
	}
	n.Action, n.Evidence = "hand", "to "+to
	return o.regard(ctx, id, version, n, func(h *Head, a *attention) {
		a.Handover = &Handover{To: to, Who: n.Who, Why: n.Why, At: h.AsOf.UTC()}
	})
}

// regard changes who looks at a record, and nothing else of it. What it keeps of the note is
// bounded by [MaxRemark].
func (o *Operator) regard(ctx context.Context, id ID, version Version, n Note, edit func(h *Head, a *attention)) (Head, error) {
	if max(len(n.Who), len(n.Why), len(n.Evidence)) > MaxRemark {
		return Head{}, fmt.Errorf("stet: %s: each of its texts has at most %d bytes", n.Action, MaxRemark)
	}
	return o.e.change(ctx, id, version, n, n.Action, func(h *Head, _ *Body) (*Body, error) {
		return nil, h.attend(func(a *attention) { edit(h, a) })
	})
}

// attend edits what h says for people, where its outcome is unknown.
func (h *Head) attend(edit func(a *attention)) error {
	switch {
	case h.State == Running && h.Over() && judge(h, true).move == lapse:
		note := h.Note
		*h = lapsed(h)
		h.Note = note
	case h.State != Unknown:
		return fmt.Errorf("%w: it is %s, not unknown", ErrState, h.State)
	default:
		h.DueIn = h.dueStill()
	}
	a := h.attention()
	edit(&a)
	h.setAttention(&a)
	return nil
}

// Probed keeps with an unknown record what a probe of the execution of h was answered, if that ended
// nothing: see [Head.LastProbe]. The history gets an entry if n is not nil. Of h only the execution
// has to be the record's still. The errors are [ErrState] if it is not unknown, [ErrOtherRun] if it
// is another run.
func (o *Operator) Probed(ctx context.Context, h *Head, p LastProbe, n *Note) (Head, error) {
	if err := lastProbeBounds.Check(&p); err != nil {
		return Head{}, fmt.Errorf("stet: Probed: %w", err)
	}
	if max(len(p.Found), len(p.Evidence)) > MaxRemark {
		return Head{}, fmt.Errorf("stet: Probed: each of its texts has at most %d bytes", MaxRemark)
	}
	call := detach(ctx, o.e.cfg.StoreTimeout)
	defer call.release()
	call.most = 0 // no body is read for this
	for range tries {
		have, err := o.e.look(call, h.ID)
		if err != nil {
			return Head{}, fmt.Errorf("stet: probed: %w", err)
		}
		next := have.Head
		next.Version, next.Note = newVersion(), n
		if next.Fence() != h.Fence() {
			err = ErrOtherRun
		} else {
			err = next.attend(func(a *attention) {
				if p.final() || !a.Probe.final() {
					p.At = have.AsOf.UTC()
					a.Probe = &p
				}
			})
		}
		if err != nil {
			return have.Head, fmt.Errorf("stet: probed: %w", err)
		}
		got, err := o.e.replace(call, have.Version, next, nil)
		switch {
		case err == nil:
			if have.State != Unknown {
				o.e.moved(&got, have.origin(), "operator")
			}
			return got, nil
		case !errors.Is(err, ErrStale):
			return got, fmt.Errorf("stet: probed: %w", err)
		}
	}
	return Head{}, fmt.Errorf("stet: probed: %w: it kept changing", ErrStale)
}

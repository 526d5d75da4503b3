package sealstore

import (
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// metaName is the only entry of a sealed Meta.
const metaName = "stet.sealed"

// seal returns the head as it is stored. It does not change h.
func (s *Store) seal(h *stet.Head) stet.Head {
	out := *h
	out.ID = s.names.id(h.ID)
	if len(h.Meta) > 0 || s.names != nil {
		out.Meta = map[string]string{metaName: s.sealer.sealText(ofHead, codec.AppendHead(nil, &stet.Head{ID: h.ID, Meta: h.Meta}), boundHead(&out))}
	}
	if h.Note != nil {
		n := *h.Note
		n.Evidence = s.sealEvidence(out.ID, h.ID, n.Evidence)
		out.Note = &n
	}
	return out
}

// sealEvidence seals the evidence of a note together with the true names, because the history
// outlives the record. stored is the ID under which the record is stored.
func (s *Store) sealEvidence(stored, id stet.ID, evidence string) string {
	h := stet.Head{ID: id, Note: &stet.Note{Evidence: evidence}}
	return s.sealer.sealText(ofEvidence, codec.AppendHead(nil, &h), boundID(stored))
}

// sealBody returns the body as it is stored with the sealed head h.
func (s *Store) sealBody(h *stet.Head, b *stet.Body) stet.Body {
	return stet.Body{Progress: s.sealer.seal(ofBody, sealedBody(b), boundBody(h))}
}

// given returns the head that was written, with the instants that the store stamped.
func given(got stet.Head, written *stet.Head) stet.Head {
	got.ID, got.Meta, got.Note = written.ID, written.Meta, written.Note
	return got
}

// open opens the record that the inner store returned for id. A body of more than most bytes is
// left, sealed or opened: a compressed one may grow.
func (s *Store) open(got stet.Record, id stet.ID, most int64) (stet.Record, error) {
	stored := got.Head
	if err := s.openHead(&got.Head); err != nil {
		return stet.Record{}, err
	}
	if got.ID != id {
		return stet.Record{}, fmt.Errorf("%w: the store answered with another record", stet.ErrCorrupt)
	}
	if got.Left > 0 {
		got.Left = max(got.Left, got.Size)
		return got, nil
	}
	if s.plain && isPlain(&got.Body) {
		return got, nil
	}
	if isPlain(&got.Body) {
		return stet.Record{}, errPlain()
	}
	text, err := s.sealer.openUpTo(most, ofBody, got.Progress, boundBody(&stored))
	if large, ok := errors.AsType[*tooLarge](err); ok {
		got.Body = stet.Body{Left: large.size}
		return got, nil
	}
	if err == nil {
		got.Body, err = readBody(text)
	}
	if err != nil {
		return stet.Record{}, err
	}
	got.Body = got.UpTo(most)
	return got, nil
}

func isPlain(b *stet.Body) bool {
	return b.Response != nil || b.Request != nil || !isSealed(b.Progress)
}

// openHead opens what is sealed in h. If it returns an error, h must not be used.
func (s *Store) openHead(h *stet.Head) error {
	stored := *h
	switch text, sealed := h.Meta[metaName]; {
	case sealed:
		plain, err := s.sealer.openText(ofHead, text, boundHead(&stored))
		if err != nil {
			return err
		}
		own, err := readHead(plain)
		if err != nil {
			return err
		}
		if s.names.id(own.ID) != stored.ID {
			return fmt.Errorf("%w: its names were hashed with another key", stet.ErrCorrupt)
		}
		h.ID, h.Meta = own.ID, own.Meta
	case s.names != nil, len(h.Meta) > 0 && !s.plain:
		return errPlain()
	}
	if h.Note != nil {
		_, note, err := s.openNote(stored.ID, *h.Note)
		if err != nil {
			return err
		}
		h.Note = &note
	}
	return nil
}

// openNote opens the evidence of a note, and returns it with the true names of its record. stored
// is the ID under which the record is stored.
func (s *Store) openNote(stored stet.ID, n stet.Note) (stet.ID, stet.Note, error) {
	if s.plain && !isSealedText(n.Evidence) {
		return stored, n, nil
	}
	plain, err := s.sealer.openText(ofEvidence, n.Evidence, boundID(stored))
	if err != nil {
		return stored, n, err
	}
	h, err := readHead(plain)
	if err == nil && h.Note == nil {
		err = errContent
	}
	if err != nil {
		return stored, n, err
	}
	n.Evidence = h.Note.Evidence
	return h.ID, n, nil
}

// unopened reports whether h was read, but could not be opened.
func unopened(h *stet.Head) bool {
	_, sealed := h.Meta[metaName]
	return sealed || h.Note != nil && isSealedText(h.Note.Evidence)
}

package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// StoreIdentity says which store the records are in: see [stet.Identified].
type StoreIdentity struct {
	ID       string    `json:"id"` // "" where it has none, such as after it was emptied
	Mark     int64     `json:"mark"`
	MadeAt   time.Time `json:"made_at,omitzero"`
	Replaces []string  `json:"replaces,omitempty"` // the stores that it was accepted for, the latest first
	Foreign  bool      `json:"foreign"`            // it is not the known one: no new keys, replays go on
	Known    KnownName `json:"known"`              // what this process has seen of it last, or expects
	Why      string    `json:"why,omitzero"`       // it is foreign, in a sentence
}

// KnownName is the identity that a store has to have.
type KnownName struct {
	ID   string `json:"id"`
	Mark int64  `json:"mark"`
}

// Acceptance says which store is accepted, and why.
type Acceptance struct {
	Reason   string  `json:"reason"` // kept in the audit trail
	Evidence string  `json:"evidence,omitzero"`
	ID       *string `json:"id"` // of the store as it was shown, which may be ""
}

const actionAccept = "store-accept" // an operator took the store as it is

var unidentified = &Problem{Status: 501, Code: "not-supported", Title: "This store has no identity",
	Detail: "Nothing else can be in its place: it is this process's memory, or a store that does not say which it is."}

func identityOf(now, known *stet.Identity, err error) *StoreIdentity {
	s := &StoreIdentity{ID: now.ID, Mark: now.Mark, MadeAt: now.Made, Replaces: now.Replaces, Foreign: err != nil,
		Known: KnownName{known.ID, known.Mark}}
	if err != nil {
		s.Why = reasonOf(err)
	}
	return s
}

// reasonOf is what an [stet.ErrForeign] says beside that it is one.
func reasonOf(err error) string {
	_, why, _ := strings.Cut(err.Error(), stet.ErrForeign.Error()+": ")
	return why
}

// Store says which store the records are in. It takes a viewer who is bound to no scopes.
func (d *Desk) Store(ctx context.Context) (*StoreIdentity, error) {
	if err := d.caller.unbound(); err != nil {
		return nil, err
	}
	_, doc, err := d.identity(ctx)
	return doc, err
}

func (s *service) identity(ctx context.Context) (stet.Identified, *StoreIdentity, error) {
	store, ok := stet.As[stet.Identified](s.engine.Store())
	if !ok {
		return nil, nil, unidentified
	}
	now, known, err := store.Identity(ctx)
	if err != nil && !errors.Is(err, stet.ErrForeign) {
		return nil, nil, unavailable
	}
	return store, identityOf(&now, &known, err), nil
}

// AcceptStore takes the store as it is. The audit trail is in the store, which takes the entry once
// it is accepted. It takes an admin who is bound to no scopes.
func (d *Desk) AcceptStore(ctx context.Context, a Acceptance) (*StoreIdentity, error) {
	c := Change{Reason: a.Reason, Evidence: a.Evidence}
	if err := cmp.Or(d.caller.unbound(), d.caller.Takes(Admin), c.check()); err != nil {
		return nil, err
	}
	if a.ID == nil {
		return nil, BadParameter("id", "name the store as GET /api/v1/store shows it; the text may be empty")
	}
	s, was, err := d.identity(ctx)
	switch {
	case err != nil:
		return nil, err
	case was.ID != *a.ID:
		return nil, &Problem{Status: 409, Code: "state-changed", Title: "The store is another one by now",
			Detail: fmt.Sprintf("It is %q, not %q. Look again.", was.ID, *a.ID)}
	case !was.Foreign:
		return nil, &Problem{Status: 409, Code: "state-changed", Title: "The store is the one that it was", Detail: "There is nothing to accept."}
	}
	now, err := s.Accept(ctx)
	switch {
	case errors.Is(err, stet.ErrForeign): // such as a file that was moved away while it is open
		return nil, &Problem{Status: 409, Code: "state-changed", Title: "The store cannot be accepted as it is", Detail: reasonOf(err) + "."}
	case err != nil:
		return nil, unavailable
	}
	entry := d.by(&c)
	entry.Action = actionAccept
	entry.Evidence = strings.TrimSuffix(fmt.Sprintf("%s; it was accepted as %s; %s", was.Why, now.ID, entry.Evidence), "; ")
	d.log.Warn("the store was accepted as it is", "who", d.caller.Name, "id", now.ID, "was", was.Why)
	if err := d.engine.Operator().Audit(ctx, stet.ID{}, entry); err != nil && !errors.Is(err, stet.ErrUnsupported) {
		return nil, untraced
	}
	return identityOf(&now, &now, nil), nil
}

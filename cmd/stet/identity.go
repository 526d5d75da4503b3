package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/operate"
)

type storeCmds struct {
	Show   storeShowCmd   `cmd:"" help:"Show which store the records are in; ends with 6 if it is not the one that it was."`
	Accept storeAcceptCmd `cmd:"" help:"Take the store as it is, after it was restored, emptied or exchanged."`
}

type storeShowCmd struct {
	source
	JSON bool `name:"json" help:"Print the API's document."`
}

func (c *storeShowCmd) Run(w *world, a *api) error {
	s, err := shown(w, a, "/api/v1/store", c.JSON, func(s *operate.StoreIdentity, w *world) error {
		return pairs(w.stdout, "id", s.ID, "mark", strconv.FormatInt(s.Mark, 10), "made", w.when(s.MadeAt), "replaces", strings.Join(s.Replaces, ", "),
			"known", ifTrue(s.Foreign, known(s)), "foreign", ifTrue(s.Foreign, s.Why))
	})
	if err == nil && s.Foreign {
		return failf(exitFindings, "no key is new in this store before it is accepted: look what became of the one that was here; "+
			"stet store accept --reason TEXT takes it as it is")
	}
	return err
}

// known is the store that has to be there.
func known(s *operate.StoreIdentity) string {
	return fmt.Sprintf("%s at mark %d", s.Known.ID, s.Known.Mark)
}

type storeAcceptCmd struct {
	source
	change
	ID       *string `placeholder:"ID" help:"Accept it only if it has this id, as stet store show shows it; it may be empty."`
	Evidence string  `placeholder:"TEXT" help:"What was found out; it is kept in the audit trail."`
}

func (c *storeAcceptCmd) Run(w *world, a *api) error {
	if c.ID == nil { // what changes while the operator reads the question is not what was meant
		s, err := a.Store(w.ctx)
		if err != nil {
			return a.explainError(err)
		}
		if !s.Foreign {
			return failf(exitError, "the store is the one that it was: there is nothing to accept")
		}
		fmt.Fprintf(w.stderr, "%s\nKeys that were done between the two are new keys from then on, and run again.\n", visible(s.Why))
		c.ID = &s.ID
	}
	if err := c.sure(w, fmt.Sprintf("accept the store %s as it is", strconv.Quote(*c.ID))); err != nil {
		return err
	}
	if _, err := a.AcceptStore(w.ctx, operate.Acceptance{Reason: c.Reason, Evidence: c.Evidence, ID: c.ID}); err != nil {
		return a.explainError(err)
	}
	return c.done(w, 1)
}

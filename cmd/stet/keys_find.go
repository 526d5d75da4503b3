package main

import (
	"fmt"
	"strings"

	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
)

type keysFindCmd struct {
	source
	Name  string `arg:"" help:"An id (k_…), a key, a trace id, or the key or id that a downstream system knows the effect by."`
	Scope string `placeholder:"SCOPE" help:"Only in this scope."`
	printed
}

// check implements [checked].
func (c *keysFindCmd) check(*world) error { return foundList.check(&c.printed) }

func (c *keysFindCmd) Run(w *world, a *api) error {
	path := adminclient.FindPath(c.Name, c.Scope)
	s, err := shown(w, a, path, c.JSON, func(s *operate.Search, w *world) error {
		if len(s.Found) == 0 {
			return nil
		}
		return foundList.rows(w, s.Found, &c.printed)
	})
	if err != nil {
		return err
	}
	if len(s.Skipped) > 0 {
		fmt.Fprintf(w.stderr, "stet: not searched: %s; your role, or the store, does not allow it\n",
			visible(strings.Join(s.Skipped, ", ")))
	}
	if s.More {
		fmt.Fprintln(w.stderr,
			"stet: there may be more: the search ended before it had looked through all records; --scope narrows it")
	}
	if len(s.Found) == 0 {
		return failf(exitNotFound, "no record was found that has it as its key, id, trace, downstream key or provider's id; "+
			"stet keys list --help shows other filters")
	}
	return nil
}

// foundList are the columns of records, and by what each was found.
var foundList = list[operate.Found]{"found",
	append([]column[operate.Found]{{"by", func(f *operate.Found) any { return f.By }}},
		each(keysList.columns, func(c *column[operate.Record]) column[operate.Found] {
			return column[operate.Found]{c.name, func(f *operate.Found) any { return c.of(&f.Key) }}
		})...), keysList.usual + 1}

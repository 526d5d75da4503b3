package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/adminclient"
)

// completeCmd prints what may follow on a command line, for the scripts of stet completion. It says
// nothing of mistakes: a shell would show them in the middle of the line.
type completeCmd struct {
	Words []string `arg:"" help:"What is asked for, such as SCOPE or WORD; then the line, of which --store, --admin and --config count."`
}

// completionTime is how long a shell waits for words.
const completionTime = 2 * time.Second

// completed are words that the API knows, by what is asked for.
var completed = map[string]func(ctx context.Context, a *api) ([]string, error){
	"SCOPE": ofRecords(func(r *admin.Record) string { return r.Scope }),
	"ROUTE": ofRecords(func(r *admin.Record) string { return r.Route }),
	"ID":    ofRecords(func(r *admin.Record) string { return r.ID }),
	"INCIDENT": func(ctx context.Context, a *api) ([]string, error) {
		rows, err := a.Incidents(ctx, adminclient.IncidentQuery{})
		return each(rows, func(i *admin.Incident) string { return i.ID }), err
	},
	"JOB": func(ctx context.Context, a *api) ([]string, error) {
		rows, err := a.Jobs(ctx)
		return each(rows, func(j *admin.Job) string { return j.Job }), err
	},
}

// offered are words that the program knows.
var offered = map[string]func(program *kong.Node) []string{
	"WORD": func(*kong.Node) []string { return wordsKnown() },
	"HELP": helpWords,
}

// ofRecords are words of the latest records.
func ofRecords(word func(*admin.Record) string) func(ctx context.Context, a *api) ([]string, error) {
	return func(ctx context.Context, a *api) ([]string, error) {
		rows, _, err := a.Keys(adminclient.Query{}).Take(ctx, "", stet.MaxLimit)
		return each(rows, word), err
	}
}

func (c *completeCmd) Run(w *world, k *kong.Context) error {
	if of := offered[c.Words[0]]; of != nil {
		return offer(w, of(k.Model.Node))
	}
	of := completed[c.Words[0]]
	if of == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, completionTime)
	defer cancel()
	quiet := *w
	quiet.ctx, quiet.given, quiet.stderr = ctx, map[string]bool{}, io.Discard
	a, err := c.source(quiet.given).open(&quiet)
	if err != nil {
		return nil
	}
	defer a.close()
	words, _ := of(ctx, a)
	return offer(w, words)
}

// offer prints words, each once, without those that would steer a terminal.
func offer(w *world, words []string) error {
	slices.Sort(words)
	for _, word := range slices.Compact(words) {
		if visible(word) == word {
			fmt.Fprintln(w.stdout, word)
		}
	}
	return nil
}

// source is where the line, or the environment, says that records are. given gets the flags of the
// line.
func (c *completeCmd) source(given map[string]bool) *source {
	s := &source{Config: os.Getenv("STET_CONFIG"), Store: os.Getenv("STET_STORE"),
		place: place{Admin: os.Getenv("STET_ADMIN_URL")}}
	for name, at := range map[string]*string{"config": &s.Config, "store": &s.Store, "admin": &s.Admin} {
		for i, word := range c.Words[1:] {
			value, ok := strings.CutPrefix(word, "--"+name+"=")
			if word == "--"+name && i+2 < len(c.Words) {
				value, ok = c.Words[i+2], true
			}
			if ok {
				*at, given[name] = value, true
			}
		}
	}
	return s
}

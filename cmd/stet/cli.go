package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stet-dev/stet/internal/spell"
)

// cli is every command with its flags. A flag beats its environment variable, that beats the file,
// that beats the default.
type cli struct {
	Gateway gatewayCmd `cmd:"" help:"Run the gateway in front of an API."`
	Demo    demoCmd    `cmd:"" help:"Start a sample payments API behind the gateway, with curl lines to paste."`
	Keys    keysCmds   `cmd:"" help:"Look at records, and settle what is unknown."`
	Outbox  outboxCmds `cmd:"" help:"Look at messages that wait for delivery, and settle dead letters."`
	Audit   auditCmds  `cmd:"" help:"Show who changed which record, and why."`

	Store storeCmds `cmd:"" help:"Show which store the records are in, and take it as it is."`

	Incidents incidentsCmds `cmd:"" help:"Look at unknown outcomes by incident: one row for all that a crash left behind."`
	Routes    routesCmd     `cmd:"" help:"List what the requests of each route were told, and what ran unprotected."`
	Whoami    whoamiCmd     `cmd:"" help:"Show whose token you have, and what it allows."`

	Migrate migrateCmd     `cmd:"" help:"Bring a store's schema up to date."`
	Config  configCmds     `cmd:"" help:"Make, check and explain the configuration file."`
	Status  statusCmd      `cmd:"" help:"Show what needs a person, and how the parts are."`
	Doctor  doctorCmd      `cmd:"" help:"Look for what will go wrong: settings, store, clock, routes."`
	Compare compareCmd     `cmd:"" help:"Compare your ledger with the provider's, entry by entry."`
	Report  reportCmd      `cmd:"" help:"Show what requests were told, and what people did, since yesterday."`
	Explain explainCmd     `cmd:"" help:"Explain a word that Stet says: a problem code, state, verdict, result, metric, alert, cause, job cause, finding, outlook, audit action, check or exit status."`
	Token   tokenCmds      `cmd:"" help:"Make tokens for operators."`
	Secret  secretCmds     `cmd:"" help:"Make secrets for a gateway."`
	Health  healthcheckCmd `cmd:"" name:"healthcheck" help:"Ask a gateway whether it is ready."`
	Version versionCmd     `cmd:"" help:"Print the version."`
	Help    helpCmd        `cmd:"" help:"Explain a command."`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version."`

	Completion completionCmd `cmd:"" help:"Print a shell script that completes stet's commands and flags."`
}

// story is what stet says when it is asked nothing.
const story = `Stet makes HTTP requests safe to retry. It stands in front of your API, stores the first answer to
an Idempotency-Key, and gives that answer to every retry instead of doing the work again.

  $ stet demo                                      try it, with nothing to install
  $ stet gateway --upstream http://127.0.0.1:3000  protect an API; clients use http://127.0.0.1:8080
  $ stet status                                    what an operator has to look at
  $ stet keys list                                 what happened to which key
  $ stet doctor --config stet.yaml                 what will go wrong
  $ stet config init > stet.yaml                   every setting with its default
  $ stet config check --config stet.yaml           find mistakes before they run

stet help COMMAND explains a command, stet explain WORD a problem code, a state, a metric, an alert,
an exit status.
`

// ended is thrown by kong's Exit, after it has printed what it was asked for.
type ended struct{}

// newParser returns what parses commands.
func newParser(w *world) (*kong.Kong, error) {
	parser, err := kong.New(&cli{}, kong.Name("stet"),
		kong.Description("Makes HTTP requests safe to retry. Without a command it prints how to begin."),
		kong.Writers(w.stdout, w.stderr),
		kong.Vars{"version": versionLine()}, kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(mapSpan)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Exit(func(int) { panic(ended{}) }))
	if err == nil {
		describe(parser.Model.Node, "")
	}
	return parser, err
}

// command parses and runs one command.
func (w *world) command(args []string) (err error) {
	parser, err := newParser(w)
	if err != nil {
		return err
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case ended:
			err = nil
		default:
			panic(p)
		}
	}()
	k, err := parser.Parse(args)
	if err != nil {
		return misused(err)
	}
	w.given = map[string]bool{}
	for _, p := range k.Path {
		if p.Flag != nil && !p.Resolved {
			w.given[p.Flag.Name] = true
		}
	}
	if err := checkValues(k); err != nil {
		return err
	}
	parts := partsOf(k.Selected().Target)
	if err := w.check(parts); err != nil {
		return err
	}
	return w.perform(k, parts)
}

// perform runs a command with what its flags name: records, a running gateway, or a configuration.
func (w *world) perform(k *kong.Context, parts []any) (err error) {
	for _, part := range parts {
		var a *api
		switch flags := part.(type) {
		case *source: // which has a place in it
			a, err = flags.open(w)
		case *place:
			a, err = flags.gateway()
		case *settings:
			conf, err := flags.load(w)
			if err != nil {
				return err
			}
			return k.Run(w, conf)
		default:
			continue
		}
		if err != nil {
			return err
		}
		defer a.close()
		return a.explainError(k.Run(w, a))
	}
	return k.Run(w)
}

// partsOf are a pointer to a command, and one to each struct that is embedded in it, deeply.
func partsOf(v reflect.Value) []any {
	// What is embedded has no exported name, and reflect gives out its value by its address alone.
	all := []any{reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface()}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Anonymous && f.Type.Kind() == reflect.Struct {
			all = append(all, partsOf(v.Field(i))...)
		}
	}
	return all
}

// checked is a command, or flags that several commands share, whose arguments can be wrong in
// themselves. It is asked before the command runs, so that a mistake of the command line is not
// reported as one of a store that was opened first.
type checked interface{ check(w *world) error }

// check asks the parts of a command.
func (w *world) check(parts []any) error {
	for _, part := range parts {
		if c, ok := part.(checked); ok {
			if err := c.check(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkValues refuses what is not on the list of a flag that has one, since what is offered after
// Tab is all there is, and what is less than the least that the tag least names.
func checkValues(k *kong.Context) error {
	for _, p := range k.Path {
		if p.Flag == nil {
			continue
		}
		given, words := fmt.Sprint(k.FlagValue(p.Flag)), listed(p.Flag.Tag)
		if words != nil && given != "" && !slices.Contains(words, given) {
			from := "--" + p.Flag.Name
			if p.Resolved {
				from = strings.Join(p.Flag.Envs, ", ")
			}
			return failf(exitUsage, "%s: %q is not one of %s%s", from, given, strings.Join(words, ", "),
				spell.Hint(given, words))
		}
		if least := p.Flag.Tag.Get("least"); least != "" && tooLittle(k.FlagValue(p.Flag), least) {
			return failf(exitUsage, "--%s is %s; it must be at least %s", p.Flag.Name, given, least)
		}
	}
	return nil
}

// tooLittle reports a number, or a span of time, that is less than least.
func tooLittle(given any, least string) bool {
	if d, ok := given.(time.Duration); ok {
		bound, err := time.ParseDuration(least)
		return err != nil || d < bound
	}
	bound, err := strconv.Atoi(least)
	return err != nil || given.(int) < bound
}

// misused says what to do about a command line that cannot be understood.
func misused(err error) error {
	command := "stet"
	if bad, ok := errors.AsType[*kong.ParseError](err); ok && bad.Context != nil {
		for _, p := range bad.Context.Path {
			if p.Command != nil {
				command += " " + p.Command.Name
			}
		}
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if flag, _, ok := strings.Cut(text, `: expected `); ok && strings.Contains(text, `but got "EOL"`) {
		text = flag + " needs a value"
	}
	if name, ok := strings.CutPrefix(text, `expected "<`); ok {
		text = strings.TrimSuffix(name, `>"`) + " is missing"
	}
	text = strings.Replace(text, "expected a valid 64 bit int but got", "a number is needed, and not", 1)
	text = strings.Replace(text, ` must be one of "",`, " must be one of ", 1) // nothing is what a flag has that is not given
	return &statusError{exitUsage, fmt.Errorf("%s\n%s --help shows what there is", text, command)}
}

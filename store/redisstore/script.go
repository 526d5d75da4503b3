package redisstore

import (
	"context"
	"crypto/sha1" // the name that Redis gives a script
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
)

//go:embed lua
var lua embed.FS

// script is one atomic verb.
type script struct {
	text, sha string
	writes    bool // and looks first whether this is the store that it was
}

// newScript joins the parts of a script, behind its flags. A script contains only what it uses,
// because a server defines all functions of a script anew each time it runs.
func newScript(flags string, parts ...string) *script {
	text := flags
	for _, part := range parts {
		code, err := lua.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // they are embedded
		}
		text += string(code)
	}
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:]), slices.Contains(parts, "same")}
}

// beyondMaxmemory lets a script write when the server is full: a full store refuses new keys, but
// executions that have begun can end.
const beyondMaxmemory = "#!lua flags=allow-oom\n"

var (
	createScript  = newScript("", "same", "now", "names", "create")
	replaceScript = newScript(beyondMaxmemory, "same", "now", "names", "head", "replace")
	deleteScript  = newScript(beyondMaxmemory, "same", "names", "delete")
	appendScript  = newScript("", "same", "now", "append")
	trimScript    = newScript(beyondMaxmemory, "same", "now", "trim")
	copyScript    = newScript("", "same", "now", "copy")
	getScript     = newScript("", "now", "get")
	dueScript     = newScript("", "now", "head", "due", "shown")
	listScript    = newScript("", "now", "head", "list", "shown")
	taggedScript  = newScript("", "now", "head", "tagged", "shown")
	namedScript   = newScript("", "now", "head", "named", "shown")
	countScript   = newScript("", "count")

	raiseScript    = newScript(beyondMaxmemory, "same", "raise")
	followScript   = newScript(beyondMaxmemory, "same", "follow")
	exchangeScript = newScript(beyondMaxmemory, "same", "exchange")
	rightsScript   = newScript("", "rights")
)

// These are the answers of scripts that found another store than they had to, that found no record,
// that found another version or format and do not return it, and that have deleted. A script that
// has written a record answers with its instants, and every other one with a list or a number.
const (
	other   = "other"
	gone    = "gone"
	stale   = "stale"
	foreign = "foreign"
	done    = "ok"
)

// run carries out a script on a record of a shard, or on a shard, and then the commands that then
// makes of the answer. A server that does not know the script, because it was restarted or failed
// over, has done nothing; it is sent the text.
func (s *Store) run(ctx context.Context, script *script, p *place, then func(any) [][]string, args ...string) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	command := append(make([]string, 0, 6+len(p.also)+len(args)), "EVALSHA", script.sha, "2", p.record, p.shard)
	if script.writes {
		command[2] = strconv.Itoa(3 + len(p.also))
		command = append(append(command, p.identity), p.also...)
	}
	command = append(command, args...)
	carriedOut := false
	if make := then; make != nil {
		then = func(answer any) [][]string {
			carriedOut = true
			return make(answer)
		}
	}
	got, err := s.again(ctx, func() ([]any, error) {
		got, err := s.client.Do(ctx, p.record, command, then)
		if answered(err, "NOSCRIPT") && !carriedOut {
			command[0], command[1] = "EVAL", script.text
			got, err = s.client.Do(ctx, p.record, command, then)
		}
		if err != nil && carriedOut { // it is about what follows the script
			err = fmt.Errorf("behind the write, which has happened: %v", err)
		}
		return got, err
	})
	if err == nil && len(got) == 0 {
		err = errTorn
	}
	return got, err
}

// elsewhere is the answer to a script whose keys are not all here.
const elsewhere = "Script attempted to access a non local key"

// How long a call waits for a slot that is on its way to another server, and how often it looks.
const (
	moveTime  = 5 * time.Second
	firstMove = 2 * time.Millisecond
	lastMove  = 50 * time.Millisecond
)

// again does something until no server answers that it did nothing of it, since the slot is on its
// way to another server, and as long as there is time. The error is then [stet.ErrBusy].
func (s *Store) again(ctx context.Context, do func() ([]any, error)) ([]any, error) {
	end := time.Now().Add(moveTime)
	if at, limited := ctx.Deadline(); limited && at.Before(end) {
		end = at
	}
	for n := 0; ; n++ {
		got, err := do()
		if !answered(err, "TRYAGAIN", "ASK ", elsewhere) && (!s.sharded || !answered(err, "MOVED ")) {
			return got, err
		}
		pause := rest.Doubled(firstMove, lastMove, n)
		if time.Until(end) < 2*pause || !rest.For(ctx, pause) {
			return nil, fmt.Errorf("%w: %w", stet.ErrBusy, err)
		}
	}
}

// ask carries out a script without further commands.
func (s *Store) ask(ctx context.Context, script *script, p *place, args ...string) (any, error) {
	got, err := s.run(ctx, script, p, nil, args...)
	return first(got), err
}

func first(answers []any) any {
	if len(answers) == 0 {
		return nil
	}
	return answers[0]
}

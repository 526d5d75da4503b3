package redisstore

import (
	"context"
	"crypto/sha1" // the name that Redis gives a script
	"embed"
	"encoding/hex"
)

//go:embed lua
var lua embed.FS

// script is one atomic verb.
type script struct{ text, sha string }

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
	return &script{text, hex.EncodeToString(sum[:])}
}

// beyondMaxmemory lets a script write when the server is full: a full store refuses new keys, but
// executions that have begun can end.
const beyondMaxmemory = "#!lua flags=allow-oom\n"

var (
	createScript  = newScript("", "now", "names", "create")
	replaceScript = newScript(beyondMaxmemory, "now", "names", "head", "replace")
	deleteScript  = newScript(beyondMaxmemory, "names", "delete")
	appendScript  = newScript("", "now", "append")
	getScript     = newScript("", "now", "get")
	dueScript     = newScript("", "now", "head", "due", "shown")
	listScript    = newScript("", "now", "head", "list", "shown")
	taggedScript  = newScript("", "now", "head", "tagged", "shown")
	namedScript   = newScript("", "now", "head", "named", "shown")
	countScript   = newScript("", "count")
)

// These are the answers of scripts that found no record, that found another version or format and
// do not return it, and that have deleted. A script that has written a record answers with its
// instants, and every other one with a list or a number.
const (
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
	command := append(append(make([]string, 0, 5+len(args)), "EVALSHA", script.sha, "2", p.record, p.shard), args...)
	got, err := s.client.Do(ctx, p.record, command, then)
	if answered(err, "NOSCRIPT") {
		command[0], command[1] = "EVAL", script.text
		got, err = s.client.Do(ctx, p.record, command, then)
	}
	if err == nil && len(got) == 0 {
		err = errTorn
	}
	return got, err
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

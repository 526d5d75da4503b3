package redisstore

import (
	"context"
	"crypto/sha1" // the name that Redis gives a script
	_ "embed"
	"encoding/hex"
	"strings"
)

var (
	//go:embed lua/now.lua
	nowText string
	//go:embed lua/names.lua
	namesText string
	//go:embed lua/head.lua
	headText string
	//go:embed lua/create.lua
	createText string
	//go:embed lua/replace.lua
	replaceText string
	//go:embed lua/delete.lua
	deleteText string
	//go:embed lua/append.lua
	appendText string
	//go:embed lua/get.lua
	getText string
	//go:embed lua/due.lua
	dueText string
	//go:embed lua/list.lua
	listText string
	//go:embed lua/tagged.lua
	taggedText string
	//go:embed lua/named.lua
	namedText string
	//go:embed lua/shown.lua
	shownText string
	//go:embed lua/count.lua
	countText string
)

// script is one atomic verb.
type script struct{ text, sha string }

// newScript joins the parts of a script. A script contains only what it uses, because a server
// defines all functions of a script anew each time it runs.
func newScript(parts ...string) *script {
	text := strings.Join(parts, "")
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// beyondMaxmemory lets a script write when the server is full: a full store refuses new keys, but
// executions that have begun can end.
const beyondMaxmemory = "#!lua flags=allow-oom\n"

var (
	createScript  = newScript(nowText, namesText, createText)
	replaceScript = newScript(beyondMaxmemory, nowText, namesText, headText, replaceText)
	deleteScript  = newScript(beyondMaxmemory, namesText, deleteText)
	appendScript  = newScript(nowText, appendText)
	getScript     = newScript(nowText, getText)
	dueScript     = newScript(nowText, headText, dueText, shownText)
	listScript    = newScript(nowText, headText, listText, shownText)
	taggedScript  = newScript(nowText, headText, taggedText, shownText)
	namedScript   = newScript(nowText, headText, namedText, shownText)
	countScript   = newScript(countText)
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

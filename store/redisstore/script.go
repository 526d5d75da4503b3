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

// newScript puts a script together. It begins with what it uses, and nothing else: a server makes all functions of a script
// anew each time it runs.
func newScript(parts ...string) *script {
	text := strings.Join(parts, "")
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// beyondMaxmemory lets a script write when the server is full: a full store refuses new keys, and what runs can still end.
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

// What scripts answer that found no record, that found another version or format and do not return
// it, and that have deleted. Those that have written a record answer with its instants, and all
// others with a list or a number.
const (
	gone    = "gone"
	stale   = "stale"
	foreign = "foreign"
	done    = "ok"
)

// run carries out a script on a record of a shard, or on a shard alone, and then what then makes of
// the answer. A server that does not know the script (it was restarted, or failed over) is sent the
// text: it has done nothing.
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

// ask carries out a script that nothing has to follow.
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

package redisstore

import (
	"context"
	"crypto/sha1" // the name that Redis gives a script
	_ "embed"
	"encoding/hex"
	"fmt"
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
	//go:embed lua/get.lua
	getText string
	//go:embed lua/heads.lua
	headsText string
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
	getScript     = newScript(nowText, getText)
	headsScript   = newScript(nowText, headText, headsText)
	countScript   = newScript(countText)
)

// What scripts answer that found no record, that found another version and do not return it, and that have deleted. Those that have
// written a record answer with its instants, and all others with a list or a number.
const (
	gone  = "gone"
	stale = "stale"
	done  = "ok"
)

// run carries out a script on a record of a shard, or on the shard alone. A server that does not know it (it was restarted, or
// failed over) is sent the text: it has done nothing.
func (s *Store) run(ctx context.Context, p *script, record, shard string, wait bool, args ...string) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	command := append(append(make([]string, 0, 5+len(args)), "EVALSHA", p.sha, "2", record, shard), args...)
	got, err := s.send(ctx, record, command, wait)
	if answered(err, "NOSCRIPT") {
		command[0], command[1] = "EVAL", p.text
		got, err = s.send(ctx, record, command, wait)
	}
	return got, err
}

// send sends a command and, after a write, has the replicas confirm it.
func (s *Store) send(ctx context.Context, key string, command []string, wait bool) (any, error) {
	commands := [][]string{command}
	if wait = wait && s.wait > 0; wait {
		commands = append(commands, []string{"WAIT", s.waitFor, s.waitUpTo})
	}
	got, err := s.client.Do(ctx, key, commands...)
	switch {
	case err != nil:
		return nil, err
	case len(got) != len(commands):
		return nil, fmt.Errorf("redisstore: %d answers to %d commands", len(got), len(commands))
	}
	if wait {
		if n, ok := got[1].(int64); !ok || n < int64(s.wait) {
			if text, ok := got[0].(string); !ok || text == gone || text == stale {
				return got[0], nil // nothing was written
			}
			return nil, fmt.Errorf("redisstore: %d of %d replicas confirmed the write, which may have happened", n, s.wait)
		}
	}
	return got[0], nil
}

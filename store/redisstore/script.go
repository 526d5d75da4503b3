package redisstore

import (
	"context"
	"crypto/sha1" // the name that Redis gives a script
	_ "embed"
	"encoding/hex"
	"fmt"
)

var (
	//go:embed lua/common.lua
	common string
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

func newScript(flags, text string) *script {
	text = flags + common + text
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// beyondMaxmemory lets a script write when the server is full: a full store refuses new keys, and what runs can still end.
const beyondMaxmemory = "#!lua flags=allow-oom\n"

var (
	createScript  = newScript("", createText)
	replaceScript = newScript(beyondMaxmemory, replaceText)
	deleteScript  = newScript("", deleteText)
	getScript     = newScript("", getText)
	headsScript   = newScript("", headsText)
	countScript   = newScript("", countText)
)

// run carries out a script on a record of a shard, or on the shard alone. A server that does not know it (it was restarted, or
// failed over) is sent the text: it has done nothing.
func (s *Store) run(ctx context.Context, p *script, record, shard string, wait bool, args ...string) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	command := append([]string{"EVALSHA", p.sha, "2", record, shard}, args...)
	got, err := s.send(ctx, record, command, wait)
	if answered(err, "NOSCRIPT") {
		command[0], command[1] = "EVAL", p.text
		got, err = s.send(ctx, record, command, wait)
	}
	if err != nil {
		return nil, err
	}
	if n, ok := got.(int64); ok {
		return []any{n}, nil
	}
	list, ok := got.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("redisstore: the server answered %T", got)
	}
	return list, nil
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
			if list, ok := got[0].([]any); ok && len(list) > 0 && list[0] != "ok" {
				return got[0], nil // nothing was written
			}
			return nil, fmt.Errorf("redisstore: %d of %d replicas confirmed the write, which may have happened", n, s.wait)
		}
	}
	return got[0], nil
}

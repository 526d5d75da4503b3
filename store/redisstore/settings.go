package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
)

// oldest is the first Redis whose scripts have flags.
const oldest = 7

// Check implements [stet.Checker]. It reads the settings of every server that has records again.
func (s *Store) Check(ctx context.Context) error {
	if s.volatile {
		return nil
	}
	if err := s.check(ctx, func(string) {}); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}

// check checks every server that has shards.
func (s *Store) check(ctx context.Context, warn func(string)) error {
	servers := make([]map[string]string, s.places())
	err := s.inPlaces(ctx, 0, func(ctx context.Context, i int) (err error) {
		servers[i], err = s.server(ctx, s.shard(i))
		return err
	})
	for _, server := range servers { // one without an answer does not hide another that forgets
		if server == nil {
			continue
		}
		if wrong := s.settings(server, warn); wrong != nil {
			return wrong
		}
	}
	return err
}

// server returns what the server that has key reports about itself, with its settings that are not
// part of that. What its user may not read is left out.
func (s *Store) server(ctx context.Context, key string) (map[string]string, error) {
	server := map[string]string{}
	got, err := s.client.Do(ctx, key, []string{"EVAL", "return redis.call('INFO', 'all')", "1", key}, nil)
	switch {
	case untold(err):
	case err != nil:
		return nil, err
	}
	text, _ := first(got).(string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			server[name] = value
		}
	}
	ask := func(any) [][]string { return [][]string{{"CONFIG", "GET", fsync}} }
	got, err = s.client.Do(ctx, key, []string{"EVAL", "return 1", "1", key}, ask) // on the connection to that server
	switch {
	case untold(err):
		return server, nil
	case err != nil, len(got) != 2:
		return nil, cmp.Or(err, errTorn)
	}
	server[fsync] = setting(got[1], fsync)
	return server, nil
}

// untold reports whether the user may not read that, or the server does not have it.
func untold(err error) bool {
	e, ok := errors.AsType[ServerError](err)
	return ok && (e.denies() || answered(err, "unknown command", "unknown subcommand", "Unknown Redis command", "This Redis command is not allowed"))
}

// fsync is the setting that says when an append-only file is on the disk.
const fsync = "appendfsync"

// once makes warn report each text once. warn may be nil.
func once(warn func(string)) func(string) {
	said := map[string]bool{}
	return func(text string) {
		if warn != nil && !said[text] {
			warn(text)
		}
		said[text] = true
	}
}

// settings checks one server.
func (s *Store) settings(server map[string]string, warn func(string)) error {
	if err := made(server); err != nil {
		return err
	}
	major, _, _ := strings.Cut(server["redis_version"], ".") // Valkey says whose equal it is
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return fmt.Errorf("the server is Redis %s, and has to be %d or newer", server["redis_version"], oldest)
	}
	forgets := append(s.evicts(server), s.loses(server, warn)...)
	if n, err := strconv.Atoi(server["connected_slaves"]); err == nil && n < s.wait {
		warn(fmt.Sprintf("the server has %d replicas, and each write waits for %d: no key can be new before it has them", n, s.wait))
	}
	if len(forgets) > 0 && !s.volatile {
		return fmt.Errorf("%w: %s", stet.ErrVolatile, strings.Join(forgets, "; and "))
	}
	for _, text := range forgets {
		warn("the server may forget records: " + text)
	}
	return nil
}

// evicts returns why the server may remove records to make room for others.
func (s *Store) evicts(server map[string]string) []string {
	switch policy := server["maxmemory_policy"]; {
	case policy == "" && s.service, policy == "noeviction":
		return nil
	case policy == "":
		return []string{"it does not say its maxmemory-policy, which has to be noeviction" + unread}
	case server["maxmemory"] == "0":
		return []string{fmt.Sprintf("its maxmemory-policy is %s and would evict as soon as there is a maxmemory; it has to be noeviction (%s)",
			policy, s.set(server, "maxmemory-policy", "noeviction"))}
	default:
		return []string{fmt.Sprintf("its maxmemory-policy is %s, and has to be noeviction (%s)", policy, s.set(server, "maxmemory-policy", "noeviction"))}
	}
}

// loses returns why the server may forget records when it, or its machine, ends.
func (s *Store) loses(server map[string]string, warn func(string)) []string {
	aof, when := server["aof_enabled"], server[fsync]
	switch {
	case s.service:
		warn("it is stated (durable=service) that the service which runs the server keeps what it acknowledges: Stet does not look at the append-only file")
		return nil
	case aof == "", aof == "1" && when == "":
		return []string{"it does not say whether it writes an append-only file, and when (" + fsync + "); without one a restart or a crash loses keys" + unread}
	case aof == "0":
		return []string{"it writes no append-only file: a restart or a crash loses keys, and what they protect may run again (" + s.set(server, "appendonly", "yes") + ")"}
	case when == "no":
		return []string{"its " + fsync + " is no: when its machine ends, the last half minute is lost, and what ran in it may run again (" +
			s.set(server, fsync, "everysec") + ", or always)"}
	case calls(server, "config|set") > 0 && calls(server, "config|rewrite") == 0:
		warn("the server's settings were changed while it ran, and not written into its configuration: if its append-only file was among them, " +
			"the next restart loses all keys (" + s.rewrite(server) + ")")
	}
	return nil
}

// unread is how a server that does not tell its settings is taken.
const unread = ": give the user the rights +info and +config|get; or, if the service that runs it keeps what it acknowledges, state that with ?durable=service"

// set says how a setting is changed for good. The order matters: a server that is restarted with an
// append-only file switched on in its configuration alone does not read the records that it has.
func (s *Store) set(server map[string]string, name, value string) string {
	return fmt.Sprintf("CONFIG SET %s %s, and then %s", name, value, s.rewrite(server))
}

// rewrite says how a setting that was changed outlives a restart.
func (s *Store) rewrite(server map[string]string) string {
	file, told := server["config_file"]
	switch {
	case !told:
		return "CONFIG REWRITE"
	case file == "":
		return "the same on the server's command line, as it has no configuration file"
	}
	return "CONFIG REWRITE, or the same in " + file + "; without that the next restart undoes it"
}

// calls returns how many times the server has carried out a command since its start.
func calls(server map[string]string, command string) int {
	var all, failed, rejected int
	for field := range strings.SplitSeq(server["cmdstat_"+command], ",") {
		name, value, _ := strings.Cut(field, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "calls":
			all = n
		case "failed_calls":
			failed = n
		case "rejected_calls":
			rejected = n
		}
	}
	return all - failed - rejected
}

// agree lets the first Open decide the number of shards.
func (s *Store) agree(ctx context.Context) error {
	key := s.prefix + ":shards"
	mine := strconv.Itoa(s.shards)
	got, err := s.client.Do(ctx, key, []string{"SET", key, mine, "NX", "GET"}, nil)
	if err != nil {
		return err
	}
	if have := first(got); have != nil && have != mine {
		return fmt.Errorf("the records are in %v shards, and the configuration says %s: keep what is there", have, mine)
	}
	return nil
}

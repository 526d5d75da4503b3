package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/freeport"
)

var redis shared

// Redis returns the shared Redis, which keeps nothing on disk.
func Redis(t testing.TB) *Server {
	t.Helper()
	return redis.get(t, func(t testing.TB) *Server { return newRedis(t) })
}

// NewRedis returns a Redis of the test's own, with options such as "--maxmemory", "10mb".
func NewRedis(t testing.TB, options ...string) *Server {
	t.Helper()
	return own(t, newRedis(t, options...))
}

func newRedis(t testing.TB, extra ...string) *Server {
	t.Helper()
	return redisOn(t, freeport.Of(t, 1)[0], append([]string{"--appendonly", "no", "--databases", "4096"}, extra...)...)
}

func redisOn(t testing.TB, port int, extra ...string) *Server {
	t.Helper()
	program := look("redis-server")
	if program == "" {
		missing(t, "Redis", "redis-server")
	}
	dir := directory(t, "", "redis", nil)
	s := &Server{Addr: address(port), dir: dir, kind: kind{"redis", program, syscall.SIGTERM, syscall.SIGKILL, redisReady}}
	s.args = append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "", "--protected-mode", "no"}, extra...)
	s.Start(t)
	return s
}

// NewRedisWithFile returns a Redis of the test's own that has its settings in a file, and the file.
// It keeps nothing on a disk.
func NewRedisWithFile(t testing.TB) (s *Server, file string) {
	t.Helper()
	s = newRedis(t)
	s.Kill(t)
	file = filepath.Join(s.dir, "redis.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsave \"\"\nprotected-mode no\nappendonly no\n", s.port(), s.dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{file}
	s.Start(t)
	return own(t, s), file
}

func redisReady(addr string) error {
	got, err := ask(addr, []byte("PING\r\n"), 5)
	if err == nil && string(got) != "+PONG" {
		err = errors.New("it is loading")
	}
	return err
}

var pair struct {
	mu              sync.Mutex
	master, replica *Server
}

// RedisPair returns the shared Redis that has a replica, and the replica.
func RedisPair(t testing.TB) (master, replica *Server) {
	t.Helper()
	pair.mu.Lock()
	defer pair.mu.Unlock()
	if pair.master == nil {
		master, replica := newRedis(t, quickSync...), newRedis(t, quickSync...)
		remember(master)
		remember(replica)
		replica.Follow(t, master)
		pair.master, pair.replica = master, replica
	}
	return pair.master, pair.replica
}

// NewRedisPair returns a Redis of the test's own, and a replica of it.
func NewRedisPair(t testing.TB) (master, replica *Server) {
	t.Helper()
	master, replica = NewRedis(t, quickSync...), NewRedis(t, quickSync...)
	replica.Follow(t, master)
	return master, replica
}

// quickSync are options of a Redis that is going to have replicas.
var quickSync = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// Follow makes a Redis a replica of master, and returns when it has all that the master has.
func (s *Server) Follow(t testing.TB, master *Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	must(t, s, "REPLICAOF "+host+" "+port)
	until(t, "the replica has what its master has", func() bool {
		mine, err1 := command(s, "INFO replication")
		its, err2 := command(master, "INFO replication")
		return errors.Join(err1, err2) == nil && strings.Contains(mine, "master_link_status:up") &&
			strings.Contains(its, "port="+s.port()+",state=online")
	})
}

// CatchUp returns when a replica has all that master has.
func (s *Server) CatchUp(t testing.TB, master *Server) {
	t.Helper()
	offset := func(s *Server, name string) string {
		said, err := command(s, "INFO replication")
		_, rest, found := strings.Cut(said, "\r\n"+name+":")
		if err != nil || !found {
			return name // which no other is
		}
		offset, _, _ := strings.Cut(rest, "\r")
		return offset
	}
	until(t, "the replica has what its master has", func() bool {
		return offset(s, "slave_repl_offset") == offset(master, "master_repl_offset")
	})
}

// CutOff leaves a replica without its master, as a network does that has failed: what the master
// writes from now on is lost on it.
func (s *Server) CutOff(t testing.TB) {
	t.Helper()
	must(t, s, "REPLICAOF 127.0.0.1 1") // nothing serves there
}

// Promote makes a replica a master.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	must(t, s, "REPLICAOF NO ONE")
}

// KeepLog makes a Redis write an append-only file: one that a gateway takes.
func (s *Server) KeepLog(t testing.TB) {
	t.Helper()
	must(t, s, "CONFIG SET appendonly yes")
}

// Sentinel returns a sentinel of the test's own, alone and quick, that watches master under a name.
func Sentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	on := freeport.Of(t, 1)[0]
	dir := directory(t, "", "sentinel", nil)
	config := filepath.Join(dir, "sentinel.conf") // which it writes to, too
	text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nprotected-mode no\nsentinel monitor %s %s %s 1\n"+
		"sentinel down-after-milliseconds %[3]s 500\nsentinel failover-timeout %[3]s 3000\n", on, dir, name, host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: address(on), dir: dir, args: []string{config, "--sentinel"},
		kind: kind{"sentinel", look("redis-server"), syscall.SIGTERM, syscall.SIGKILL, redisReady}}
	s.Start(t)
	until(t, "the sentinel knows the replica", func() bool {
		said, err := command(s, "INFO sentinel")
		return err == nil && strings.Contains(said, "slaves=1")
	})
	return own(t, s)
}

// Lock makes a Redis, or a sentinel, want a password.
func (s *Server) Lock(t testing.TB, password string) {
	t.Helper()
	must(t, s, "ACL SETUSER default resetpass >"+password) // a sentinel has no requirepass to set
}

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Cluster is a Redis Cluster of three masters, Nodes 0 to 2, each with one replica, Nodes 3 to 5 in
// the same order.
type Cluster struct{ Nodes []*Server }

// Addrs are where its nodes serve.
func (c *Cluster) Addrs() (all []string) {
	for _, n := range c.Nodes {
		all = append(all, n.Addr)
	}
	return all
}

var cluster struct {
	shared
	all *Cluster
}

// RedisCluster returns the shared cluster.
func RedisCluster(t testing.TB) *Cluster {
	t.Helper()
	cluster.mu.Lock()
	defer cluster.mu.Unlock()
	if cluster.all == nil {
		c := newCluster(t)
		for _, n := range c.Nodes {
			remember(n)
		}
		cluster.all = c
	}
	return cluster.all
}

// NewRedisCluster returns a cluster of the test's own. A master that is killed is replaced in about
// two seconds.
func NewRedisCluster(t testing.TB) *Cluster {
	t.Helper()
	c := newCluster(t)
	for _, n := range c.Nodes {
		own(t, n)
	}
	return c
}

const (
	masters = 3
	nodes   = 2 * masters
	slots   = 16384
)

func newCluster(t testing.TB) *Cluster {
	t.Helper()
	free := freeport.Of(t, 2*nodes) // for clients, and for the nodes among themselves: the usual distance can be out of range
	c := &Cluster{}
	for i := range nodes {
		c.Nodes = append(c.Nodes, redisOn(t, free[i], "--appendonly", "no", "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(free[nodes+i]),
			"--cluster-node-timeout", "1000", "--cluster-config-file", "nodes.conf", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"))
	}
	ids := make([]string, nodes)
	for i, n := range c.Nodes {
		ids[i] = must(t, n, "CLUSTER MYID")
		must(t, n, fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1))
	}
	for i := range masters {
		must(t, c.Nodes[i], fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", i*slots/masters, (i+1)*slots/masters-1))
	}
	for i, n := range c.Nodes { // everybody meets everybody: gossip would take seconds
		for j := range nodes {
			if i != j {
				must(t, n, fmt.Sprintf("CLUSTER MEET 127.0.0.1 %d %d", free[j], free[nodes+j]))
			}
		}
	}
	until(t, "the replicas know their masters", func() bool {
		for i := masters; i < nodes; i++ {
			if answer, err := command(c.Nodes[i], "CLUSTER REPLICATE "+ids[i-masters]); err != nil || !strings.HasPrefix(answer, "OK") {
				return false
			}
		}
		return true
	})
	until(t, "the cluster is whole", func() bool {
		for i, n := range c.Nodes {
			info, err := command(n, "CLUSTER INFO")
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", nodes)) {
				return false
			}
			want := "state=online"
			if i >= masters {
				want = "master_link_status:up"
			}
			if info, err = command(n, "INFO replication"); err != nil || !strings.Contains(info, want) {
				return false
			}
		}
		return true
	})
	return c
}

// until asks every few milliseconds: there is nothing to wait on.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		<-tick.C
	}
}

func must(t testing.TB, n *Server, text string) string {
	t.Helper()
	answer, err := command(n, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer
}

// command sends one inline command and returns its one answer.
func command(n *Server, text string) (string, error) {
	conn, err := net.DialTimeout("tcp", n.Addr, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	switch line[0] {
	case '-':
		return "", errors.New(line[1:])
	case '$':
		size, err := strconv.Atoi(line[1:])
		if err != nil || size < 0 {
			return "", err
		}
		text := make([]byte, size)
		_, err = io.ReadFull(r, text)
		return string(text), err
	}
	return line[1:], nil
}

package blackbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestGateway(t *testing.T) {
	for _, store := range []string{"memory", "file", "sqlite", "sqlite" + sealed} {
		t.Run(store, func(t *testing.T) { runCases(t, gatewayTarget(store)) })
	}
}

// sealed after a store's name: it is encrypted, and where no case damages a record by its name,
// names are hashed (SE-08).
const sealed = ", sealed"

const (
	sealKeys  = `{"primary": "k1", "keys": {"k1": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}%s}`
	sealNames = `, "names": "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY="`
)

// gatewayTarget runs the binary, with the fixture as its upstream.
func gatewayTarget(store string) Target {
	target := Target{Name: "gateway", Store: store, Gateway: true}
	if store == "memory" {
		target.Lacks = map[Need]string{
			NeedKill:  "records in memory do not outlive their process",
			NeedNodes: "records in memory are not shared between processes",
		}
	}
	target.Open = func(t testing.TB, s Spec) (Server, error) {
		g, err := newGateway(t, store, s)
		if err != nil {
			return nil, err
		}
		return g, g.open()
	}
	return target
}

// storeLine is the store's settings: one line, wherever a case has some.
var storeLine = regexp.MustCompile(`(?m)^store: \{(.*?) *\}$`)

// gateway is a Server: one process per node, all on one store and one upstream.
type gateway struct {
	t     testing.TB
	dir   string
	dsn   string
	store string // more settings of the store
	spec  Spec
	fx    *Fixture
	up    *upstreamServer
	nodes []*process
}

var (
	_ Server    = (*gateway)(nil)
	_ upstream  = (*gateway)(nil)
	_ published = (*gateway)(nil)
)

// newGateway prepares a store and its settings.
func newGateway(t testing.TB, store string, s Spec) (*gateway, error) {
	dir, err := os.MkdirTemp("", "stet-") // short: a socket's path is limited to about 100 bytes
	if err != nil {
		return nil, err
	}
	g := &gateway{t: t, dir: dir, spec: s, fx: NewFixture()}
	t.Cleanup(g.close)
	store, isSealed := strings.CutSuffix(store, sealed)
	store, isCached := strings.CutSuffix(store, cached)
	if isSealed {
		g.store += ", encryption_keys_file: keys.json"
		names := sealNames
		if s.Need&steered != 0 {
			names = ""
		}
		if err := os.WriteFile(filepath.Join(dir, "keys.json"), fmt.Appendf(nil, sealKeys, names), 0o600); err != nil {
			return nil, err
		}
	}
	if isCached {
		front, err := serverDSN(t, "redis")
		if err != nil {
			return nil, err
		}
		g.store += ", cache: '" + front + "'"
	}
	if s.Need&steered != 0 && !isCached { // what is done to a record by its name is seen soon
		g.store += ", cache_ttl_s: 0.1"
	}
	switch store {
	case "memory":
		g.dsn = "memory:"
	case "file":
		g.dsn = "file:" + filepath.Join(dir, "records")
	case "sqlite":
		g.dsn = "sqlite:" + filepath.Join(dir, "stet.db")
	default:
		if g.dsn, err = serverDSN(t, store); err != nil {
			return nil, err
		}
	}
	if s.Need&steered != 0 {
		g.dsn = "fault+" + g.dsn
	}
	return g, nil
}

// open starts the upstream and the nodes.
func (g *gateway) open() error {
	g.up = &upstreamServer{fx: g.fx}
	if err := g.up.start("127.0.0.1:0"); err != nil {
		return err
	}
	n := 1
	if g.spec.Need&NeedNodes != 0 {
		n = 3
	}
	for i := range n {
		p, err := g.run(i, g.spec.Policy)
		if err != nil {
			return err
		}
		g.nodes = append(g.nodes, p)
	}
	return nil
}

// run starts node i and waits until it is ready.
func (g *gateway) run(i int, policy string) (*process, error) {
	if !strings.Contains("\n"+policy, "\nscope:") {
		policy += "\nscope: { header: X-Tenant-Id }\n"
	}
	if !strings.Contains("\n"+policy, "\nstore:") {
		timeout := storeTimeout
		if g.spec.Need&steered != 0 {
			timeout = 2 // the default
		}
		policy += fmt.Sprintf("\nstore: { timeout_s: %g }\n", timeout)
	}
	policy = storeLine.ReplaceAllString(policy, "store: {${1}"+g.store+" }")
	if g.spec.Need&NeedTLS != 0 {
		cert, err := certificate(g.dir)
		if err != nil {
			return nil, err
		}
		policy += cert
	}
	config := filepath.Join(g.dir, fmt.Sprintf("config-%d.yaml", i))
	if err := os.WriteFile(config, []byte(policy), 0o600); err != nil {
		return nil, err
	}
	bin, err := binary(g.spec.Need&steered != 0)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(g.dir, fmt.Sprintf("fault-%d", i))
	cmd := exec.Command(bin, "gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--upstream", "http://"+g.up.addr, "--store", g.dsn, "--config", config)
	cmd.Dir = g.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, FaultSocketEnv + "=" + socket}
	p, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	if g.spec.Need&steered != 0 {
		p.faults = dialFaults(g.t, socket)
	}
	return p, nil
}

func (g *gateway) URL(node int) string {
	if g.spec.Need&NeedTLS != 0 {
		return "https://" + g.nodes[node].listen
	}
	return "http://" + g.nodes[node].listen
}

func (g *gateway) Fixture() *Fixture      { return g.fx }
func (g *gateway) Faults(node int) Faults { return awaited{g.nodes[node].faults, g} }
func (g *gateway) Pause(node int)         { g.nodes[node].pause() }
func (g *gateway) Continue(node int)      { g.nodes[node].resume() }

func (g *gateway) Kill(node int) { g.nodes[node].kill() }

func (g *gateway) Start(node int, policy string) {
	g.t.Helper()
	before := g.nodes[node].log.String()
	p, err := g.run(node, policy)
	if err != nil {
		g.t.Fatalf("starting again: %v", err)
	}
	p.earlier = before
	g.nodes[node] = p
}

// awaited waits after faults until the gateway has found out that they are over: its circuit
// breaker leaves a server alone for a moment.
type awaited struct {
	Faults
	g *gateway
}

func (a awaited) Up() {
	a.g.t.Helper()
	a.Faults.Up()
	for end := time.Now().Add(patience); ; {
		res, err := a.g.Admin("/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			a.g.t.Fatalf("the store is up, and the gateway does not ask it: %v, %v", res, err)
		}
	}
}

func (g *gateway) Log() string {
	var b strings.Builder
	for _, p := range g.nodes {
		b.WriteString(p.earlier + p.log.String())
	}
	return b.String()
}

// Admin fetches a document of the first node that lives.
func (g *gateway) Admin(path string) (*http.Response, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, p := range g.nodes {
		if !p.ended() {
			return client.Get("http://" + p.admin + path)
		}
	}
	return nil, errors.New("no node lives")
}

func (g *gateway) Records(scope string) ([]Record, error) {
	res, err := g.Admin("/api/v1/keys?limit=1000&scope=" + url.QueryEscape(scope))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		return nil, fmt.Errorf("GET /api/v1/keys: %s", res.Status)
	}
	var page struct{ Keys []Record }
	return page.Keys, json.NewDecoder(res.Body).Decode(&page)
}

func (g *gateway) Metrics() (map[string]float64, error) {
	res, err := g.Admin("/metrics")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		return nil, fmt.Errorf("GET /metrics: %s", res.Status)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(line[i+1:], &v); err != nil {
			return nil, fmt.Errorf("the line %q: %w", line, err)
		}
		all[line[:i]] = v
	}
	return all, nil
}

// Terminate asks the first node to end; Ended waits for it, and returns how it did.
func (g *gateway) Terminate()   { _ = g.nodes[0].cmd.Process.Signal(syscall.SIGTERM) }
func (g *gateway) Ended() error { <-g.nodes[0].gone; return g.nodes[0].err }

// StopUpstream ends the upstream and keeps its port: another server of these tests would answer in
// its place.
func (g *gateway) StopUpstream() {
	g.t.Helper()
	g.up.stop()
	if err := g.up.reserve(); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) StartUpstream() error {
	g.up.release()
	return g.up.start(g.up.addr)
}

// close ends everything. A gateway that is asked to end has to end well, in its own time.
func (g *gateway) close() {
	g.fx.Close()
	for i, p := range g.nodes {
		if err := p.end(); err != nil {
			g.t.Errorf("node %d: %v\n%s", i, err, tail(p.log.String(), 4000))
		}
	}
	if g.up != nil {
		g.up.stop()
		g.up.release()
	}
	if err := os.RemoveAll(g.dir); err != nil {
		g.t.Error(err)
	}
}

// upstreamServer is the fixture as a server of its own.
type upstreamServer struct {
	fx   *Fixture
	addr string
	srv  *http.Server
	done sync.WaitGroup
	port int // a socket that is bound to the address while no one listens there; 0 is none
}

func (u *upstreamServer) start(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	u.addr = l.Addr().String()
	u.srv = &http.Server{
		Handler:  u.fx,
		ErrorLog: log.New(io.Discard, "", 0), // handlers panic on purpose
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				u.fx.Connected()
			}
		},
	}
	u.done.Go(func() { _ = u.srv.Serve(l) })
	return nil
}

func (u *upstreamServer) stop() {
	if u.srv != nil {
		_ = u.srv.Close()
		u.done.Wait()
	}
}

// reserve binds the address without listening: connections are refused.
func (u *upstreamServer) reserve() error {
	at, err := netip.ParseAddrPort(u.addr)
	if err != nil {
		return err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	u.port = fd
	return errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}))
}

func (u *upstreamServer) release() {
	if u.port != 0 {
		_ = syscall.Close(u.port)
		u.port = 0
	}
}

// binaries are built once per run, into a directory that TestMain removes.
var binaries struct {
	dir   string
	plain func() (string, error)
	fault func() (string, error)
}

func binary(fault bool) (string, error) {
	if fault {
		return binaries.fault()
	}
	return binaries.plain()
}

func build(name string, args ...string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		out := filepath.Join(binaries.dir, name)
		cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-o", out}, args...), "./stet")...)
		cmd.Dir = filepath.Join("..", "..", "..", "cmd")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build and the tests of a release: compiled once
		if said, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building the gateway: %w\n%s", err, said)
		}
		return out, nil
	})
}

// shutdown is how long a gateway may take to end when it is asked to.
const shutdown = time.Minute

package blackbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// FaultSocketEnv names the unix socket a binary built with -tags stetfault listens on. README.md
// has the protocol.
const FaultSocketEnv = "STET_FAULT_SOCKET"

// faultTimeout bounds one verb: a store that hangs must not hang the suite.
const faultTimeout = 10 * time.Second

// remote is a Faults over a unix socket: a line goes out, a line of JSON comes back.
type remote struct {
	t testing.TB

	mu   sync.Mutex
	conn net.Conn
	in   *bufio.Reader
}

var _ Faults = (*remote)(nil)

// dialFaults connects to the socket of a running binary.
func dialFaults(t testing.TB, path string) *remote {
	t.Helper()
	conn, err := net.DialTimeout("unix", path, faultTimeout)
	if err != nil {
		t.Fatalf("the fault socket: %v", err)
	}
	return &remote{t: t, conn: conn, in: bufio.NewReader(conn)}
}

func (r *remote) Down()                { r.do("down") }
func (r *remote) Up()                  { r.do("up") }
func (r *remote) Slow(d time.Duration) { r.do("slow " + d.String()) }
func (r *remote) FailComplete(on bool) { r.do("fail-complete " + strconv.FormatBool(on)) }
func (r *remote) Advance(d time.Duration) {
	r.do("advance " + d.String())
}
func (r *remote) LoseReplies(every int) { r.do("lose-replies " + strconv.Itoa(every)) }
func (r *remote) Corrupt(scope, key string) {
	r.do("corrupt " + strconv.Quote(scope) + " " + strconv.Quote(key))
}

func (r *remote) do(line string) {
	r.t.Helper()
	if err := r.ask(line); err != nil {
		r.t.Fatalf("the fault socket: %s: %v", line, err)
	}
}

func (r *remote) ask(line string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.conn.SetDeadline(time.Now().Add(faultTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(r.conn, line); err != nil {
		return err
	}
	said, err := r.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var answer struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(said, &answer); err != nil {
		return fmt.Errorf("the answer %q: %w", said, err)
	}
	if !answer.OK {
		return fmt.Errorf("refused: %s", answer.Error)
	}
	return nil
}

func (r *remote) close() { _ = r.conn.Close() }

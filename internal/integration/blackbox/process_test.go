package blackbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is a running binary.
type process struct {
	cmd           *exec.Cmd
	listen, admin string
	log           *transcript
	earlier       string // what its predecessor logged
	faults        *remote
	killed        bool

	gone chan struct{} // closed when it has ended
	err  error         // how; valid once gone
}

// startProcess runs cmd and waits for its ready line. A process that ends before is an error with
// its exit status.
func startProcess(cmd *exec.Cmd) (*process, error) {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	// With the suite, however it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, log: &transcript{}, gone: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go func() {
		defer close(p.gone)
		p.follow(stderr, ready)
		p.err = cmd.Wait()
		if stdout.Len() > 0 {
			p.err = errors.Join(p.err, fmt.Errorf("a gateway writes nothing to stdout, but: %q", stdout.String()))
		}
	}()
	giveUp := time.NewTimer(patience)
	defer giveUp.Stop()
	select {
	case <-ready:
		return p, nil
	case <-p.gone:
		return nil, fmt.Errorf("it ended before it was ready: %w\n%s", p.err, p.log)
	case <-giveUp.C:
		p.kill()
		return nil, fmt.Errorf("not ready in %s:\n%s", patience, p.log)
	}
}

// follow keeps what the process logs, and closes ready at the ready line.
func (p *process) follow(stderr io.Reader, ready chan<- struct{}) {
	in := bufio.NewReader(stderr)
	for {
		line, err := in.ReadBytes('\n')
		_, _ = p.log.Write(line)
		var said struct{ Msg, Listen, Admin string }
		if p.listen == "" && json.Unmarshal(line, &said) == nil && said.Msg == "ready" {
			p.listen, p.admin = said.Listen, said.Admin
			close(ready)
		}
		if err != nil {
			return
		}
	}
}

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill()
	<-p.gone
}

func (p *process) pause()  { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// end asks the process to end, and demands that it does so in time and with status 0.
func (p *process) end() error {
	if p.faults != nil {
		if !p.ended() {
			_ = p.faults.ask("up") // a store that is down must not keep it
		}
		p.faults.close()
	}
	if p.killed {
		return nil
	}
	p.resume()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	giveUp := time.NewTimer(shutdown)
	defer giveUp.Stop()
	select {
	case <-p.gone:
		return p.err
	case <-giveUp.C:
		p.kill()
		return fmt.Errorf("it did not end within %s of SIGTERM", shutdown)
	}
}

// transcript is a buffer that is written and read at the same time.
type transcript struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

package console

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a running gateway.
type process struct {
	listen, admin string // addresses
	cmd           *exec.Cmd
	mu            sync.Mutex
	log           bytes.Buffer
	gone          chan struct{}
}

// start runs the gateway with its configuration, and returns when it serves. It ends with the test.
func start(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	program, err := once.gateway()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(program, append([]string{"gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...),
		gone: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, []string{"HOME=" + dir}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go p.follow(said, ready)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the gateway logs:\n%.4000s", p.said())
		}
	})
	select {
	case <-ready:
	case <-p.gone:
		t.Fatal("the gateway does not start: ", p.said())
	case <-time.After(patience):
		t.Fatal("the gateway is not ready: ", p.said())
	}
	return p
}

func (p *process) follow(from io.Reader, ready chan<- struct{}) {
	defer close(p.gone)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.log.Write(append(lines.Bytes(), '\n'))
		p.mu.Unlock()
		var said struct{ Msg, Listen, Admin string }
		if p.listen == "" && json.Unmarshal(lines.Bytes(), &said) == nil && said.Msg == "ready" {
			p.listen, p.admin = said.Listen, said.Admin
			close(ready)
		}
	}
	_ = p.cmd.Wait()
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// kill ends it at once, with nothing written any more.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

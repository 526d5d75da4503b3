package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a [Life] seen from outside.
type process struct {
	url   string // "" for one that serves nothing, or died before it did
	stdin io.Closer
	cmd   *exec.Cmd
	gone  chan struct{} // it has ended, and the rest is valid

	points []string
	killed bool
	failed error // it ended by itself, and not well
}

// processes starts them, and lets none outlive the show.
type processes struct {
	self func(life string) *exec.Cmd

	mu  sync.Mutex
	all []*process
}

const patience = 15 * time.Second // for whatever should take far less

func (ps *processes) start(ctx context.Context, l Life) (*process, error) {
	text, err := json.Marshal(l)
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return nil, err
	}
	p := &process{cmd: ps.self(string(text)), gone: make(chan struct{})}
	var said bytes.Buffer
	p.cmd.Stderr = &said
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ps.mu.Lock()
	ps.all = append(ps.all, p)
	ps.mu.Unlock()
	ready := make(chan string, 1)
	go func() {
		defer close(p.gone)
		defer close(ready)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), urlPrefix); ok {
				ready <- url
			}
			if point, ok := strings.CutPrefix(lines.Text(), pointPrefix); ok {
				p.points = append(p.points, point)
			}
		}
		err := p.cmd.Wait()
		if p.killed = p.cmd.ProcessState.ExitCode() < 0; err != nil && !p.killed {
			p.failed = fmt.Errorf("the %s ended: %w\n%s", l.Role, err, &said)
		}
	}()
	if l.Role == roleWorker || l.Role == roleCompleter { // they serve nothing
		return p, nil
	}
	select {
	case p.url = <-ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.url == "" {
		return nil, errors.Join(fmt.Errorf("the %s did not start", l.Role), p.failed)
	}
	return p, nil
}

// end asks the process to end, if it is there, and waits; an error is what went wrong.
func (p *process) end(ctx context.Context) error {
	_ = p.stdin.Close()
	return p.wait(ctx)
}

// wait is for processes that end by themselves.
func (p *process) wait(ctx context.Context) error {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-p.gone:
		return p.failed
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return errors.New("a process does not end")
	}
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone
	<-p.gone
}

func (ps *processes) killAll() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.all {
		p.kill()
	}
}

package crashpoint

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const urlPrefix, pointPrefix = "url ", "point "

// Attach returns a context that ends when in does, so that a process does not outlive the one that
// has started it.
func Attach(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}

// Ready tells the process that has started this one that it works, at a URL; "" if it serves
// nothing.
func Ready(out io.Writer, url string) { _, _ = fmt.Fprintln(out, urlPrefix+url) }

// Serve answers requests with h at a URL of its own, and runs the loops, until ctx ends. Requests
// that run may finish.
func Serve(ctx context.Context, out io.Writer, h http.Handler, loops ...func(context.Context) error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make([]error, len(loops))
	var running sync.WaitGroup
	for i, loop := range loops {
		running.Go(func() { ended[i] = loop(ctx) })
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: grace}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	Ready(out, "http://"+l.Addr().String())
	select {
	case err = <-served:
		cancel()
	case <-ctx.Done():
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer stop()
		err = server.Shutdown(last)
	}
	running.Wait()
	return errors.Join(append(ended, err)...)
}

const grace = 10 * time.Second

// Process is a process that calls [Serve] or [Ready], seen by the one that has started it.
type Process struct {
	URL string // "" if it serves nothing, or died before it did

	cmd   *exec.Cmd
	stdin io.Closer
	gone  chan struct{} // it has ended, and the rest is valid

	points []string
	err    error
}

// Start starts cmd, and returns when it is ready or has ended. The process ends with its input, and
// is killed when ctx ends.
func Start(ctx context.Context, cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, gone: make(chan struct{})}
	said := &bytes.Buffer{}
	cmd.Stderr = said
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, context.Cause(ctx)); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.stdin = in
	leave := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	ready := make(chan string, 1)
	go func() {
		defer close(p.gone)
		defer close(ready)
		defer leave()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), urlPrefix); ok {
				ready <- url
			}
			if point, ok := strings.CutPrefix(lines.Text(), pointPrefix); ok {
				p.points = append(p.points, point)
			}
		}
		if err := cmd.Wait(); err != nil {
			p.err = fmt.Errorf("%w\n%s", err, said)
		}
	}()
	p.URL = <-ready
	return p, nil
}

// Points returns the names of the points that the process has passed. It waits until the process
// has ended.
func (p *Process) Points() []string {
	<-p.gone
	return p.points
}

// Died reports, without waiting, whether the process was killed. It is an error if the process
// ended in another way.
func (p *Process) Died() (bool, error) {
	select {
	case <-p.gone:
	default:
		return false, nil
	}
	if p.killed() {
		return true, nil
	}
	return false, fmt.Errorf("the process ended by itself: %w", p.err)
}

func (p *Process) killed() bool { return p.cmd.ProcessState.ExitCode() < 0 }

// Wait waits until the process has ended, and reports whether it was killed. If it does not end in
// time, the error has its stacks.
func (p *Process) Wait(ctx context.Context) (killed bool, err error) {
	select {
	case <-p.gone:
	case <-ctx.Done():
		return false, fmt.Errorf("the process does not end: %w\n%w", context.Cause(ctx), p.Stacks())
	}
	if p.killed() {
		return true, nil
	}
	return false, p.err
}

// End asks the process to end, and waits as Wait does.
func (p *Process) End(ctx context.Context) (killed bool, err error) {
	p.Leave()
	return p.Wait(ctx)
}

// Signal sends the process a signal, such as one that stops it for a while.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Stopped reports whether no thread of the process runs any more after a signal that stops it.
// Where the system does not say so, it is taken to be.
func (p *Process) Stopped() bool {
	states, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	for _, file := range states {
		line, err := os.ReadFile(file)
		_, after, _ := strings.Cut(string(line), ") ") // of the name, which may hold anything
		if err == nil && !strings.HasPrefix(after, "T") {
			return false
		}
	}
	return true
}

// Leave asks the process to end, and does not wait.
func (p *Process) Leave() { _ = p.stdin.Close() }

// Kill ends the process as kill -9 does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may be gone
	<-p.gone
}

// Stacks ends the process, and returns an error that says what its goroutines were at.
func (p *Process) Stacks() error {
	if p.cmd.Process.Signal(syscall.SIGQUIT) != nil {
		_ = p.cmd.Process.Kill()
	}
	<-p.gone
	return p.err
}

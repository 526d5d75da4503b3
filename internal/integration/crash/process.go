package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a life seen from outside.
type process struct {
	url   string // "" where it died before it served
	input io.Closer
	pid   int
	gone  chan struct{}
	err   error // once it is gone
}

// start starts a process that ends with its input, and so with this one.
func start(l *life) (*process, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+string(text), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // else each good end takes a second
	said := &bytes.Buffer{}
	cmd.Stderr = said
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{input: input, pid: cmd.Process.Pid, gone: make(chan struct{})}
	line, _ := bufio.NewReader(output).ReadString('\n') // nothing, if it dies
	p.url = strings.TrimSpace(line)
	go func() {
		defer close(p.gone)
		if p.err = cmd.Wait(); p.err != nil {
			p.err = fmt.Errorf("%w\n%s", p.err, said)
		}
	}()
	return p, nil
}

// died reports whether the process was killed; any other end but a good one is an error.
func (p *process) died() (bool, error) {
	select {
	case <-p.gone:
	default:
		return false, nil
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true, nil
	}
	return false, fmt.Errorf("the process ended by itself: %w", p.err)
}

// end lets the process go, and reports whether it was killed on its way out.
func (p *process) end() (bool, error) {
	_ = p.input.Close()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-p.gone:
	case <-limit.C:
		return false, fmt.Errorf("the process does not end: %w", p.stacks())
	}
	if p.err == nil {
		return false, nil
	}
	return p.died()
}

// stacks ends the process, and says what it was at.
func (p *process) stacks() error {
	_ = syscall.Kill(p.pid, syscall.SIGQUIT)
	<-p.gone
	return p.err
}

// reply is what a client hears.
type reply struct {
	status   int
	replayed bool
	body     string
}

// ask is one request of the client's.
func (p *process) ask(ctx context.Context, order string) (a reply, err error) {
	ctx, stop := context.WithTimeout(ctx, patience/2)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/orders", strings.NewReader(`{"amount":1999}`))
	if err != nil {
		return a, err
	}
	r.Close = true // each process has a port of its own, for a moment
	r.Header.Set("Idempotency-Key", order)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header.Get("Idempotent-Replayed") == "true", string(body)}, err
}

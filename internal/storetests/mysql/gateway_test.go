package mysql

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/storetests/testserver"
)

// Three gateways on one MariaDB, a hundred clients at each with one key: the API behind them is called once, and all who get
// an answer get that one (I1, CC-02).
func TestRacingGateways(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds the gateway")
	}
	stet := filepath.Join(t.TempDir(), "stet")
	build := exec.CommandContext(within(t, 2*time.Minute), "go", "build", "-o", stet, "./stet")
	build.Dir = filepath.Join("..", "..", "..", "cmd")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	dsn := "mysql://" + strings.NewReplacer("tcp(", "", ")", "").Replace(fresh(t, testserver.MariaDB(t).Addr))
	if said, err := exec.CommandContext(within(t, time.Minute), stet, "migrate", "up", "--store", dsn).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	var calls atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "call %d", calls.Add(1))
	}))
	t.Cleanup(upstream.Close)
	var addrs []string
	for range 3 {
		addrs = append(addrs, gateway(t, stet, "--upstream", upstream.URL, "--store", dsn))
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}, Timeout: 30 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	for round := range 3 {
		answered := race(t, client, addrs, fmt.Sprint("key-", round), fmt.Sprint("call ", round+1))
		if n := calls.Load(); n != int64(round+1) || answered == 0 {
			t.Fatalf("round %d: %d calls, %d answers", round, n, answered)
		}
	}
}

// race sends the same request to each gateway from a hundred clients at once, and returns how many got an answer rather than
// the advice to come again.
func race(t *testing.T, client *http.Client, addrs []string, key, want string) int64 {
	var answered atomic.Int64
	var wg sync.WaitGroup
	for i := range len(addrs) * racers {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addrs[i%len(addrs)]+"/v1/payments", strings.NewReader(`{"amount":1}`))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Idempotency-Key", `"`+key+`"`)
			req.Header.Set("Content-Type", "application/json")
			res, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			switch {
			case err != nil:
				t.Error(err)
			case res.StatusCode == http.StatusCreated && string(body) == want:
				answered.Add(1)
			case res.StatusCode != http.StatusConflict:
				t.Errorf("%d %s", res.StatusCode, body)
			}
		})
	}
	wg.Wait()
	return answered.Load()
}

// gateway starts one, and returns where it listens.
func gateway(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, append([]string{"gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listen := make(chan string, 1)
	ended := make(chan struct{})
	var said strings.Builder
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			var line struct{ Msg, Listen string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
				listen <- line.Listen
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("a gateway ended: %v\n%s", err, said.String())
		}
	})
	select {
	case addr := <-listen:
		return addr
	case <-ended:
	case <-within(t, 20*time.Second).Done():
	}
	t.Fatal("a gateway does not start")
	return ""
}

package peerbench

import (
	"bufio"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stet-dev/stet/internal/integration/testserver"
)

//go:embed wrk.lua
var script string

const (
	connections = "64"
	turn        = "2s"
	rounds      = 5
)

// BenchmarkRedis compares requests per second over real connections, new keys and replays, by turns
// in one run. The figures are the medians, and of the ratios of neighbouring turns.
func BenchmarkRedis(b *testing.B) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		b.Skip("wrk is not installed (sudo apt-get install wrk)")
	}
	lua := filepath.Join(b.TempDir(), "wrk.lua")
	if err := os.WriteFile(lua, []byte(script), 0o600); err != nil {
		b.Fatal(err)
	}
	roles := []string{"stet", "uncached", "source", "fiber", "bare"}
	urls := map[string]string{}
	for _, role := range roles {
		urls[role] = "http://" + serve(b, role, testserver.NewRedis(b).Addr) + "/v1/charges"
	}
	for _, work := range []string{"new", "replay"} {
		b.Run(work, func(b *testing.B) {
			rates := map[string][]float64{}
			n := 0
			for b.Loop() {
				for range rounds {
					for _, role := range roles {
						n++
						rates[role] = append(rates[role], load(b, wrk, lua, urls[role], work, n))
					}
				}
			}
			for _, role := range roles {
				b.ReportMetric(median(rates[role]), role+"/s")
				if role != "stet" {
					b.ReportMetric(ratio(rates["stet"], rates[role]), "of-"+role)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// serve starts a server that ends with b, and returns its address.
func serve(b *testing.B, role, redis string) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, redisVariable+"="+redis)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("%s did not start: %v", role, err)
	}
	return strings.TrimSpace(line)
}

var (
	rate = regexp.MustCompile(`Requests/sec: +([0-9.]+)`)
	bad  = regexp.MustCompile(`(Non-2xx or 3xx responses|Socket errors): .*`)
)

// load returns how many requests a second were answered.
func load(b *testing.B, wrk, lua, url, work string, n int) float64 {
	cmd := exec.Command(wrk, "-t1", "-c"+connections, "-d"+turn, "-s", lua, url)
	cmd.Env = append(os.Environ(), "WORK="+work, fmt.Sprintf("TURN=%d-%d", os.Getpid(), n))
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("wrk: %v\n%s", err, out)
	}
	if wrong := bad.Find(out); wrong != nil && work == "new" {
		b.Errorf("%s: %s", url, wrong)
	}
	found := rate.FindSubmatch(out)
	if found == nil {
		b.Fatalf("wrk said no rate:\n%s", out)
	}
	r, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func ratio(a, b []float64) float64 {
	var all []float64
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	return median(all)
}

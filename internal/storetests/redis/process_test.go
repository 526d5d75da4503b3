package redis

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/storetests/testserver"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/rueidisclient"
)

const (
	racerEnv  = "STET_REDIS_RACER" // the servers' addresses
	racerKeys = 5
	racers    = 100
)

// TestRacer is a process of its own, whose goroutines all begin each key at once; it prints those it may execute. It waits for
// a line on its standard input, so that all processes begin at once.
func TestRacer(t *testing.T) {
	addrs := os.Getenv(racerEnv)
	if addrs == "" {
		t.Skip("this is a part in TestRacingProcesses")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := rueidis.NewClient(rueidisclient.Options(rueidis.ClientOption{InitAddress: strings.Split(addrs, ",")}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	engine, err := stet.New(open(t, rueidisclient.New(c), redisstore.Config{Prefix: "race"}), stet.Config{StoreTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	for key := range racerKeys {
		var wg sync.WaitGroup
		for range racers {
			wg.Go(func() {
				d, err := engine.Begin(ctx, stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint("key-", key))}})
				if err != nil {
					t.Error(err)
					return
				}
				if d.Verdict != stet.Execute {
					return
				}
				fmt.Println("ran", key)
				if err := d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("done")}}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// Three processes with a hundred racers each on one key: one execution (I1).
func TestRacingProcesses(t *testing.T) {
	t.Run("single", func(t *testing.T) { race(t, testserver.Redis(t).Addr) })
	t.Run("cluster", func(t *testing.T) { race(t, strings.Join(testserver.RedisCluster(t).Addrs(), ",")) })
}

func race(t *testing.T, addrs string) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	ran := map[string]int{}
	start := make(chan struct{})
	for range 3 {
		cmd := exec.CommandContext(within(t, time.Minute), os.Args[0], "-test.run", "^TestRacer$")
		cmd.Env = append(os.Environ(), racerEnv+"="+addrs)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "ready" {
			t.Fatalf("a process says %q", lines.Text())
		}
		wg.Go(func() {
			<-start
			fmt.Fprintln(in)
			for lines.Scan() {
				if key, ok := strings.CutPrefix(lines.Text(), "ran "); ok {
					mu.Lock()
					ran[key]++
					mu.Unlock()
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	for key := range racerKeys {
		if n := ran[fmt.Sprint(key)]; n != 1 {
			t.Errorf("key %d was executed %d times", key, n)
		}
	}
}

package mysql

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/storetests/testserver"
	"github.com/stet-dev/stet/store/sqlstore"
)

const (
	racerEnv  = "STET_MYSQL_RACER" // the data source name
	racerKeys = 5
	racers    = 100
)

// racer is a process whose goroutines all begin each key at once; it prints those it may execute. It waits for a line on its
// standard input, so that all processes begin at once.
func racer(dsn string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return 1
	}
	defer db.Close()
	s, err := sqlstore.Open(ctx, db, sqlstore.Config{Dialect: sqlstore.MySQL})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	engine, err := stet.New(s, stet.Config{StoreTimeout: 30 * time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	code := 0
	for key := range racerKeys {
		var wg sync.WaitGroup
		for range racers {
			wg.Go(func() {
				d, err := engine.Begin(ctx, stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint("key-", key))}})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					code = 1
					return
				}
				if d.Verdict != stet.Execute {
					return
				}
				fmt.Println("ran", key)
				if err := d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("done")}}); err != nil {
					fmt.Fprintln(os.Stderr, err)
					code = 1
				}
			})
		}
		wg.Wait()
	}
	return code
}

// Three processes with a hundred racers each on one key: one execution (I1).
func TestRacingProcesses(t *testing.T) {
	dsn := fresh(t, testserver.MariaDB(t).Addr)
	db := migrated(t, dsn)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ran := map[string]int{}
	start := make(chan struct{})
	for range 3 {
		cmd := exec.CommandContext(within(t, time.Minute), os.Args[0])
		cmd.Env = append(os.Environ(), racerEnv+"="+dsn)
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
				mu.Lock()
				ran[strings.TrimPrefix(lines.Text(), "ran ")]++
				mu.Unlock()
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
	var rows int
	if err := db.QueryRow("SELECT COUNT(*) FROM stet_records WHERE state = 'completed'").Scan(&rows); err != nil || rows != racerKeys {
		t.Errorf("%d records are completed (%v), want %d", rows, err, racerKeys)
	}
}

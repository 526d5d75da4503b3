package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

const racerKeys, racersEach = 200, 8

// racer creates every key from several goroutines, and prints those it got. It waits for a line on
// its standard input, so that all processes begin at once.
func racer(path string) int {
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(path))
	if err != nil {
		return 1
	}
	defer db.Close()
	s, err := sqlstore.Open(context.Background(), db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	var wg sync.WaitGroup
	code := 0
	for range racersEach {
		wg.Go(func() {
			for i := range racerKeys {
				r := sample()
				r.Key = stet.Key(fmt.Sprint("key-", i))
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				switch _, err := s.Create(ctx, r); {
				case err == nil:
					fmt.Println("won", i)
				case !errors.Is(err, stet.ErrExists):
					fmt.Fprintln(os.Stderr, err)
					code = 1
				}
				cancel()
			}
		})
	}
	wg.Wait()
	return code
}

// Processes that share a file: every key is created once (I1).
func TestProcessesOnOneFile(t *testing.T) {
	path := file(t)
	database(t, path)
	const processes = 3
	var wg sync.WaitGroup
	start := make(chan struct{})
	var mu sync.Mutex
	won := map[string]int{}
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "STET_SQLITE_PART=racer", "STET_SQLITE_FILE="+path)
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
				won[strings.TrimPrefix(lines.Text(), "won ")]++
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	for i := range racerKeys {
		if n := won[fmt.Sprint(i)]; n != 1 {
			t.Errorf("key %d was created %d times", i, n)
		}
	}
}

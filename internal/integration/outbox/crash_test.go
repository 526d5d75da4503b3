package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

const (
	dsnEnv, driverEnv, dialectEnv = "STET_OUTBOX_DSN", "STET_OUTBOX_DRIVER", "STET_OUTBOX_DIALECT"
	ledgerEnv, killEnv            = "STET_OUTBOX_LEDGER", "STET_OUTBOX_KILL"
)

// charge is a provider that honours keys: a file for each effect.
func charge(ledger, key string) error {
	f, err := os.OpenFile(filepath.Join(ledger, key), os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return errors.Join(err, f.Close())
}

// child works until nothing is left, and kills itself at the boundary with the given number: before
// and after each foreign call and each of the handler's store calls, and after each outcome was
// stored.
func child() int {
	db, err := sql.Open(os.Getenv(driverEnv), os.Getenv(dsnEnv))
	if err != nil {
		return 1
	}
	kill, _ := strconv.ParseInt(os.Getenv(killEnv), 10, 64)
	var passed atomic.Int64
	boundary := func() {
		if passed.Add(1) == kill {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	d := sqlstore.Dialect(os.Getenv(dialectEnv))
	box := outbox.New(d)
	w := outbox.Worker{DB: db, Dialect: d, Concurrency: 4, MaxAttempts: 1000, Lease: 300 * time.Millisecond,
		Poll: 20 * time.Millisecond, Backoff: time.Millisecond, MaxBackoff: time.Millisecond,
		Handler: func(ctx context.Context, d *outbox.Delivery) outbox.Result {
			boundary()
			if err := charge(os.Getenv(ledgerEnv), d.DownstreamKey); err != nil {
				return outbox.Maybe(err)
			}
			boundary()
			if err := d.Downstream(ctx, "ch_"+d.DownstreamKey); err != nil {
				return outbox.Maybe(err)
			}
			boundary()
			return outbox.Delivered()
		},
		Observe: func(outbox.Event) {
			boundary()
			if c, err := (&outbox.Desk{Box: box, DB: db}).Counts(context.Background()); err == nil && c[outbox.Pending]+c[outbox.Running] == 0 {
				cancel()
			}
		}}
	go func() { // another process may have had the last one
		for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			if c, err := (&outbox.Desk{Box: box, DB: db}).Counts(ctx); err == nil && c[outbox.Pending]+c[outbox.Running] == 0 {
				cancel()
			}
		}
	}()
	if err := w.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (db *database) child(ctx context.Context, ledger string, kill int) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), dsnEnv+"="+db.dsn, driverEnv+"="+db.driver, dialectEnv+"="+string(db.dialect), ledgerEnv+"="+ledger,
		killEnv+"="+strconv.Itoa(kill))
	cmd.Stderr = os.Stderr
	return cmd
}

// CR-11, W31: a worker is killed at its first boundary, the next at its second, and so on until one
// lives to the end: each message has one effect, and is done with the provider's id.
func TestKilledAtEveryBoundary(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		const messages = 12
		for range messages {
			db.add(t, outbox.Message{Topic: "charge", KeyHonoured: true})
		}
		ledger := t.TempDir()
		kills := 0
		for k := 1; ; k++ {
			err := db.child(t.Context(), ledger, k).Run()
			if err == nil {
				break
			}
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatal(err)
			}
			kills++
		}
		if kills < 4 {
			t.Errorf("%d workers were killed", kills)
		}
		db.oneEffectEach(t, ledger, messages)
	})
}

// Several processes, each with several deliveries at once: one effect each, nothing twice, nothing
// left.
func TestProcesses(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		const messages = 100
		for i := range messages {
			db.add(t, outbox.Message{Topic: "charge", OrderKey: fmt.Sprint(i % 20), KeyHonoured: true})
		}
		ledger := t.TempDir()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := db.child(t.Context(), ledger, 0).Run(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		db.oneEffectEach(t, ledger, messages)
	})
}

func (db *database) oneEffectEach(t *testing.T, ledger string, messages int) {
	t.Helper()
	effects, err := os.ReadDir(ledger)
	if err != nil || len(effects) != messages {
		t.Errorf("%d effects of %d messages, %v", len(effects), messages, err)
	}
	for _, m := range db.list(t) {
		if _, err := os.Stat(filepath.Join(ledger, m.DownstreamKey)); err != nil || m.State != outbox.Done || m.DownstreamID != "ch_"+m.DownstreamKey {
			t.Errorf("message %d is %s, id %q: %v", m.ID, m.State, m.DownstreamID, err)
		}
	}
}

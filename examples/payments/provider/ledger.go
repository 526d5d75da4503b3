package provider

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Effect is money moved: a line of the ledger.
type Effect struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"` // charge, refund or payout
	Key       string `json:"key"`  // the Idempotency-Key it came with
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
}

// Ledger is an append-only file of effects. It is safe for concurrent use by one process.
type Ledger struct {
	mu   sync.Mutex
	file *os.File
	all  []Effect
}

// OpenLedger reads the file, or makes it.
func OpenLedger(path string) (*Ledger, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Ledger{file: file}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e Effect
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, errors.Join(fmt.Errorf("ledger: line %d: %w", len(l.all)+1, err), file.Close())
		}
		l.all = append(l.all, e)
	}
	if err := lines.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: %w", err), file.Close())
	}
	return l, nil
}

// Close closes the file.
func (l *Ledger) Close() error { return l.file.Close() }

var errTooLate = errors.New("the request came after its Not-After")

// add writes the effect, before notAfter or not at all. With once, an effect of the same key is
// returned instead.
func (l *Ledger) add(e Effect, notAfter time.Time, once bool) (_ Effect, made bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if once {
		for _, have := range l.all {
			if have.Key == e.Key {
				return have, false, nil
			}
		}
	}
	if !notAfter.IsZero() && time.Now().After(notAfter) {
		return Effect{}, false, errTooLate
	}
	e.ID = fmt.Sprintf("%s_%d", e.Kind, len(l.all)+1)
	line, err := json.Marshal(e)
	if err != nil {
		return Effect{}, false, err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return Effect{}, false, fmt.Errorf("ledger: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return Effect{}, false, fmt.Errorf("ledger: %w", err)
	}
	l.all = append(l.all, e)
	return e, true, nil
}

// find returns what has this key, or this reference; empty ones select all.
func (l *Ledger) find(key, reference string) []Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := []Effect{}
	for _, e := range l.all {
		if (key == "" || e.Key == key) && (reference == "" || e.Reference == reference) {
			found = append(found, e)
		}
	}
	return found
}

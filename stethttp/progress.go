package stethttp

import (
	"sync"
	"sync/atomic"
)

// phase is how far the answer to a guarded request has come.
type phase uint8

const (
	holding    phase = iota // the handler's answer is held back; the client has nothing
	publishing              // the record is being told that the answer leaves before it is complete
	streaming               // the handler writes straight to the client
	hijacked                // the connection belongs to the handler
	answered                // the client has the layer's own answer; the handler still runs
	lapsed                  // as answered, and the record says unknown because the run's time is over
	doubted                 // as lapsed, and the handler itself had stated unknown before
	silent                  // the exchange is over; the handler wrote nothing, which was sent as an empty 200
	ended                   // the exchange is over
)

// event is what moves an answer on.
type event uint8

const (
	publish    event = iota // the answer cannot be held until it is complete
	published               // the record knows that it leaves
	hijack                  // the handler takes the connection over
	answer                  // the layer answers in the handler's place
	lapse                   // the same, because the run's time is over
	doubt                   // the same, where the handler had stated unknown
	fallSilent              // the handler returned without a word
	speak                   // the handler answers after all
	end                     // the exchange is over
	events                  // how many there are
)

// moves are all the transitions there are. Nothing leads back to holding, so holding stands for no transition. What the client was
// told is never taken back: no phase from streaming on leads to the layer's answer, nor the other way round.
var moves = [...][events]phase{
	holding: {publish: publishing, hijack: hijacked, answer: answered, lapse: lapsed, doubt: doubted, fallSilent: silent,
		end: ended},
	publishing: {published: streaming, answer: answered, end: ended},
	streaming:  {hijack: hijacked, end: ended},
	hijacked:   {end: ended},
	answered:   {end: ended},
	lapsed:     {end: ended},
	doubted:    {end: ended},
	silent:     {speak: ended, end: silent},
	ended:      {end: ended},
}

// told reports whether the client has the layer's own answer while the handler still runs.
func (p phase) told() bool { return p == answered || p == lapsed || p == doubted }

// timedOut reports whether the client has that answer because the run's time is over.
func (p phase) timedOut() bool { return p == lapsed || p == doubted }

// collects reports whether what the handler writes is kept for the record.
func (p phase) collects() bool { return p == holding || p == publishing || p.told() }

// over reports whether the exchange is over.
func (p phase) over() bool { return p == silent || p == ended }

// progress is the phase of one answer. The handler, the answer given when its time is over, and the handler's writes after that meet
// at its lock. The lock may be held for as long as a client takes to read what is streamed.
type progress struct {
	mu sync.Mutex
	at atomic.Uint32 // the phase; it changes with mu held, and may be read without
}

func (p *progress) phase() phase { return phase(p.at.Load()) }

// move makes the transition for e, and reports false, changing nothing, where there is none. The caller holds mu.
func (p *progress) move(e event) bool {
	to := moves[p.phase()][e]
	if to == holding {
		return false
	}
	p.at.Store(uint32(to))
	return true
}

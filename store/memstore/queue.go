package memstore

import (
	"container/heap"

	"github.com/stet-dev/stet"
)

// queue is a binary heap of records by due time, earliest first, and by ID if that is equal.
// Records that never fall due are not in it.
type queue []slot

type slot struct {
	due int64
	e   *entry
}

// place is the place of a record in the order of all queues.
type place struct {
	due int64
	id  stet.ID
}

func (s slot) before(o slot) bool {
	return s.due < o.due || s.due == o.due && s.e != o.e && compare(s.e.id(), o.e.id()) < 0
}

// after reports whether the slot comes after p in the order.
func (s slot) after(p *place) bool {
	return s.due > p.due || s.due == p.due && compare(s.e.id(), p.id) > 0
}

const absent = -1

func (q *queue) add(e *entry) {
	e.place = absent
	if e.due == never {
		return
	}
	*q = append(*q, slot{e.due, e})
	e.place = int32(len(*q) - 1)
	q.up(len(*q) - 1)
}

// fix moves e to the place of its due time.
func (q *queue) fix(e *entry) {
	i := int(e.place)
	if i == absent || e.due == never {
		q.remove(e)
		q.add(e)
		return
	}
	(*q)[i].due = e.due
	if !q.down(i) {
		q.up(i)
	}
}

func (q *queue) remove(e *entry) {
	i := int(e.place)
	if i == absent {
		return
	}
	last := len(*q) - 1
	if i != last {
		q.swap(i, last)
	}
	(*q)[last] = slot{}
	*q = (*q)[:last]
	if i != last && !q.down(i) {
		q.up(i)
	}
	e.place = absent
}

func (q queue) swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].e.place, q[j].e.place = int32(i), int32(j)
}

func (q queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q[i].before(q[parent]) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

// down moves the slot down, and reports whether it moved.
func (q queue) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if right := child + 1; right < len(q) && q[right].before(q[child]) {
			child = right
		}
		if !q[child].before(q[i]) {
			break
		}
		q.swap(i, child)
		i = child
	}
	return i > start
}

// over visits the records that are due and come after the place from, or all that are due if from
// is nil, in order, until visit returns false. The slots before from are the top of the heap; they
// are passed over without sorting. Beyond them it reads only the slots that it visits and their
// children: the slots that may come next form a heap themselves.
func (q queue) over(now int64, from *place, visit func(*entry) bool) {
	next := &places{q: q}
	if len(q) > 0 {
		next.at = q.frontier(now, from, 0, nil)
	}
	heap.Init(next)
	for len(next.at) > 0 {
		i := heap.Pop(next).(int)
		if q[i].due > now || !visit(q[i].e) {
			return
		}
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(q) {
				heap.Push(next, child)
			}
		}
	}
}

// frontier appends to at the first slot of each branch below i that comes after from.
func (q queue) frontier(now int64, from *place, i int, at []int) []int {
	switch {
	case i >= len(q) || q[i].due > now:
		return at
	case from == nil || q[i].after(from):
		return append(at, i)
	}
	return q.frontier(now, from, 2*i+2, q.frontier(now, from, 2*i+1, at))
}

// places implements [heap.Interface].
type places struct {
	q  queue
	at []int
}

func (p *places) Len() int           { return len(p.at) }
func (p *places) Less(i, j int) bool { return p.q[p.at[i]].before(p.q[p.at[j]]) }
func (p *places) Swap(i, j int)      { p.at[i], p.at[j] = p.at[j], p.at[i] }
func (p *places) Push(x any)         { p.at = append(p.at, x.(int)) }
func (p *places) Pop() any {
	last := p.at[len(p.at)-1]
	p.at = p.at[:len(p.at)-1]
	return last
}

package memstore

import "container/heap"

// queue is a binary heap of what falls due, earliest first. What falls never due is not in it.
type queue []slot

type slot struct {
	due int64
	e   *entry
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

// fix moves e to where its due time belongs.
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
		if q[parent].due <= q[i].due {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

// down reports whether it moved anything.
func (q queue) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if right := child + 1; right < len(q) && q[right].due < q[child].due {
			child = right
		}
		if q[i].due <= q[child].due {
			break
		}
		q.swap(i, child)
		i = child
	}
	return i > start
}

// over visits what is due by now, earliest first, until visit reports false. It looks at no more than it visits and their
// children: the places that may come next are a heap themselves.
func (q queue) over(now int64, visit func(*entry) bool) {
	next := &places{q: q}
	if len(q) > 0 {
		next.at = append(next.at, 0)
	}
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

// places implements [heap.Interface].
type places struct {
	q  queue
	at []int
}

func (p *places) Len() int           { return len(p.at) }
func (p *places) Less(i, j int) bool { return p.q[p.at[i]].due < p.q[p.at[j]].due }
func (p *places) Swap(i, j int)      { p.at[i], p.at[j] = p.at[j], p.at[i] }
func (p *places) Push(x any)         { p.at = append(p.at, x.(int)) }
func (p *places) Pop() any {
	last := p.at[len(p.at)-1]
	p.at = p.at[:len(p.at)-1]
	return last
}

package simulator

import (
	"container/heap"
	"time"
)

// deadlines are things to do at their times. Only one goroutine may use them.
type deadlines struct{ heap dueHeap }

type due struct {
	at time.Time
	do func()
}

func (d *deadlines) at(t time.Time, do func()) { heap.Push(&d.heap, due{t, do}) }

// run does all whose time has come.
func (d *deadlines) run(now time.Time) {
	for len(d.heap) > 0 && !d.heap[0].at.After(now) {
		heap.Pop(&d.heap).(due).do() //nolint:forcetypeassert // it holds nothing else
	}
}

// next is when the next is to be done, zero for none.
func (d *deadlines) next() time.Time {
	if len(d.heap) == 0 {
		return time.Time{}
	}
	return d.heap[0].at
}

type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) { *h = append(*h, x.(due)) } //nolint:forcetypeassert // it holds nothing else

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = due{}
	*h = (*h)[:last]
	return d
}

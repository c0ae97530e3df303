package model

import (
	"container/list"
	"slices"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

// extent is the range [off, end) of a file, dirty since a time.
type extent struct {
	off, end uint64
	since    sched.Time
}

func (e extent) len() int64 { return int64(e.end - e.off) }

// extents are in order and do not touch.
type extents []extent

// add joins e with what it touches, and returns how many bytes are new.
func (l *extents) add(e extent) int64 {
	i, _ := slices.BinarySearchFunc(*l, e.off, func(x extent, off uint64) int {
		if x.end < off {
			return -1
		}
		return 1
	})
	j, had := i, int64(0)
	whole := e
	for ; j < len(*l) && (*l)[j].off <= e.end; j++ {
		x := (*l)[j]
		had += x.len()
		whole.off, whole.end = min(whole.off, x.off), max(whole.end, x.end)
		whole.since = min(whole.since, x.since)
	}
	*l = slices.Replace(*l, i, j, whole)
	return whole.len() - had
}

// take cuts the first part that lies in [from, to) out, at most limit bytes unless limit is 0.
func (l *extents) take(from, to uint64, limit int) (extent, bool) {
	for i, x := range *l {
		if x.end <= from {
			continue
		}
		if x.off >= to {
			break
		}
		e := extent{max(x.off, from), min(x.end, to), x.since}
		if limit > 0 {
			e.end = min(e.end, e.off+uint64(limit))
		}
		var rest []extent
		if x.off < e.off {
			rest = append(rest, extent{x.off, e.off, x.since})
		}
		if e.end < x.end {
			rest = append(rest, extent{e.end, x.end, x.since})
		}
		*l = slices.Replace(*l, i, i+1, rest...)
		return e, true
	}
	return extent{}, false
}

// oldest is since when there is dirty data.
func (l extents) oldest() sched.Time {
	t := sched.Time(1<<63 - 1)
	for _, e := range l {
		t = min(t, e.since)
	}
	return t
}

// cachedFile is what the cache knows of a file. PageCache.mu guards it.
type cachedFile struct {
	id      vfs.ID
	base    uint64 // on the device
	dirty   extents
	writing []*writing
	lost    bool // in a crash
}

// writing is an extent on its way to the device.
type writing struct {
	extent
	done *sched.Group
}

func (f *cachedFile) underWay(from, to uint64) []*writing {
	var out []*writing
	for _, w := range f.writing {
		if w.off < to && w.end > from {
			out = append(out, w)
		}
	}
	return out
}

func (f *cachedFile) remove(w *writing) {
	f.writing = slices.DeleteFunc(f.writing, func(x *writing) bool { return x == w })
}

// residentBlock is the granularity in which the cache remembers what READ finds, bytes.
const residentBlock = 64 << 10

type blockKey struct {
	id vfs.ID
	i  uint64
}

// resident are the blocks in the cache, the most recently used first. Without a limit all stay.
type resident struct {
	max    int // blocks; negative none
	blocks map[blockKey]*list.Element
	lru    list.List
}

func (r *resident) init(size int64) {
	switch {
	case size < 0:
		r.max = -1
	case size > 0:
		r.max = int(max(size/residentBlock, 1))
	}
	r.reset()
}

func (r *resident) reset() {
	r.blocks = map[blockKey]*list.Element{}
	r.lru.Init()
}

func (r *resident) add(id vfs.ID, off uint64, n int) {
	if r.max < 0 || n <= 0 {
		return
	}
	for i := off / residentBlock; i <= (off+uint64(n)-1)/residentBlock; i++ {
		k := blockKey{id, i}
		if e := r.blocks[k]; e != nil {
			r.lru.MoveToFront(e)
			continue
		}
		r.blocks[k] = r.lru.PushFront(k)
		if r.max > 0 && r.lru.Len() > r.max {
			e := r.lru.Back()
			r.lru.Remove(e)
			delete(r.blocks, e.Value.(blockKey))
		}
	}
}

// missing lists the runs of blocks in the range that are not there, cut to the range.
func (r *resident) missing(id vfs.ID, off uint64, n int) (runs []extent, hits, misses uint64) {
	end := off + uint64(n)
	for i := off / residentBlock; i <= (end-1)/residentBlock; i++ {
		if e := r.blocks[blockKey{id, i}]; e != nil {
			r.lru.MoveToFront(e)
			hits++
			continue
		}
		misses++
		from, to := max(i*residentBlock, off), min((i+1)*residentBlock, end)
		if k := len(runs) - 1; k >= 0 && runs[k].end == from {
			runs[k].end = to
		} else {
			runs = append(runs, extent{off: from, end: to})
		}
	}
	return runs, hits, misses
}

package model

import (
	"context"
	"fmt"
	"sync"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

// PageCacheConfig holds the knobs of writeback (/proc/sys/vm). The zero value has no limits: data is written
// when COMMIT asks for it, or 30 s after it was dirtied.
type PageCacheConfig struct {
	Dirty      int64         // dirty_bytes: WRITEs wait while so much is dirty or being written; 0: no limit
	Background int64         // dirty_background_bytes: writeback begins; 0: half of Dirty
	Expire     time.Duration // dirty_expire_centisecs: age at which data is written; default 30 s
	Interval   time.Duration // dirty_writeback_centisecs: how often ages are looked at; default 5 s
	Tasks      int           // writeback tasks; default 1
	WriteSize  int           // bytes that a writeback task writes at once; default 1 MiB
	Size       int64         // bytes of data that READ finds in the cache, least recently used first to go; 0: no limit, negative: none
}

func (c *PageCacheConfig) setDefaults() error {
	if c.Background == 0 {
		c.Background = c.Dirty / 2
	}
	if c.Expire == 0 {
		c.Expire = 30 * time.Second
	}
	if c.Interval == 0 {
		c.Interval = 5 * time.Second
	}
	if c.Tasks == 0 {
		c.Tasks = 1
	}
	if c.WriteSize == 0 {
		c.WriteSize = 1 << 20
	}
	for _, k := range []struct {
		name      string
		v, lo, hi int64
	}{
		{"Dirty (dirty_bytes)", c.Dirty, 0, 1 << 50},
		{"Background (dirty_background_bytes)", c.Background, 0, max(c.Dirty, 0)},
		{"Expire (dirty_expire_centisecs) in ns", int64(c.Expire), 1, int64(time.Hour)},
		{"Interval (dirty_writeback_centisecs) in ns", int64(c.Interval), int64(time.Millisecond), int64(time.Hour)},
		{"Tasks", int64(c.Tasks), 1, 1024},
		{"WriteSize in bytes", int64(c.WriteSize), 4096, 1 << 30},
	} {
		if k.v < k.lo || k.v > k.hi {
			return fmt.Errorf("model: PageCache.%s is %d, must be %d to %d", k.name, k.v, k.lo, k.hi)
		}
	}
	return nil
}

// PageCacheStats counts what a cache did. Bytes are of data, rounded to what was written.
type PageCacheStats struct {
	Dirty, MaxDirty int64  // dirty or being written: now, most
	Flushed         int64  // written because COMMIT or a stable WRITE asked for it
	Background      int64  // written by writeback tasks
	Throttled       uint64 // WRITEs that waited for the limit
	Hits, Misses    uint64 // blocks of 64 KiB that READs found, or not
}

// PageCache is a file system whose data is written to a device behind the caller's back, or when it asks.
type PageCache struct {
	open
	cfg PageCacheConfig
	dev Device

	mu       sync.Mutex
	files    map[vfs.ID]*cachedFile
	order    []*cachedFile // with dirty data, the first to be written next
	placed   uint64        // files that have a place on the device
	dirty    int64
	reserved int64        // by WRITEs that have not ended
	over     *sched.Group // while the limit is reached: what WRITEs wait for
	meter    *sched.Meter
	running  int // writeback tasks
	timer    *sched.Timer
	armed    bool
	expired  bool // there is data to write because of its age
	clean    resident
	st       PageCacheStats
}

// NewPageCache decorates fs with a cache in front of dev.
func NewPageCache(s *sched.Sched, fs vfs.FS, dev Device, cfg PageCacheConfig) (vfs.FS, *PageCache, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, nil, err
	}
	m := &PageCache{open: open{s, fs}, cfg: cfg, dev: dev, files: map[vfs.ID]*cachedFile{}}
	m.clean.init(cfg.Size)
	m.timer = s.NewTimer(m.age)
	m.meter = s.NewMeter(sched.Usage{Name: "the limit of dirty data", Knob: "Dirty (dirty_bytes) of PageCache", Level: levelDirty, Units: 1})
	return decorate(fs, m), m, nil
}

// Stats is what the cache did so far.
func (m *PageCache) Stats() PageCacheStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.st
	st.Dirty = m.dirty
	return st
}

// beginWrite waits for the limit and reserves what may become dirty.
func (m *PageCache) beginWrite(ctx context.Context, c call) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full(c.n) {
		m.st.Throttled++
		start := m.s.Now()
		defer func() { m.meter.Waited(m.s.Now().Sub(start)) }()
	}
	for m.full(c.n) {
		if m.over == nil {
			m.over = m.s.NewGroup("the limit of dirty data")
			m.over.Add(1)
			m.meter.Take(1)
		}
		g := m.over
		m.kick()
		m.mu.Unlock()
		err := g.Wait(ctx)
		m.mu.Lock()
		if err != nil {
			return err
		}
	}
	m.reserved += int64(c.n)
	return nil
}

// full says whether n more bytes exceed the limit; one WRITE alone never does. mu is held.
func (m *PageCache) full(n int) bool {
	used := m.dirty + m.reserved
	return m.cfg.Dirty > 0 && used > 0 && used+int64(n) > m.cfg.Dirty
}

func (m *PageCache) endWrite(c call, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= int64(c.n)
	if ok && c.n > 0 {
		f := m.file(c.id)
		if len(f.dirty) == 0 {
			m.order = append(m.order, f)
		}
		m.dirty += f.dirty.add(extent{c.off, c.off + uint64(c.n), m.s.Now()})
		m.st.MaxDirty = max(m.st.MaxDirty, m.dirty)
		m.clean.add(c.id, c.off, c.n)
		if !m.armed {
			m.armed = true
			m.timer.Reset(sched.FromStd(m.cfg.Interval))
		}
	}
	m.relax()
	if m.over != nil || m.cfg.Dirty > 0 && m.dirty > m.cfg.Background {
		m.kick()
	}
}

// relax lets WRITEs go on if the limit is no longer reached. mu is held.
func (m *PageCache) relax() {
	if m.over != nil && !m.full(1) {
		m.over.Done()
		m.over = nil
		m.meter.Give(1)
	}
}

func (m *PageCache) settleWrite(ctx context.Context, c call) error {
	if c.stable {
		return m.flush(ctx, c.id, c.off, uint64(c.n))
	}
	return nil
}

func (m *PageCache) commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	if err := m.flush(ctx, id, off, n); err != nil {
		return err
	}
	return m.below.Commit(ctx, id, off, n, w)
}

// flush writes what is dirty in the range now, all of it at once, and waits for what is being written. What
// becomes dirty meanwhile stays.
func (m *PageCache) flush(ctx context.Context, id vfs.ID, off, n uint64) error {
	end := off + n
	if n == 0 || end < off {
		end = ^uint64(0)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[id]
	if f == nil {
		return nil
	}
	others := f.underWay(off, end)
	var mine []*writing
	for {
		e, ok := f.dirty.take(off, end, 0)
		if !ok {
			break
		}
		mine = append(mine, m.begin(f, e))
	}
	m.settled(f)
	var failed error
	g := m.s.NewGroup("the writeback of a file")
	for i, w := range mine {
		write := func() {
			if err := m.write(ctx, f, w, &m.st.Flushed); err != nil {
				failed = err
			}
		}
		if i < len(mine)-1 {
			g.Go("flush", func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				write()
			})
			continue
		}
		write()
	}
	wait := func(g *sched.Group) error {
		m.mu.Unlock()
		defer m.mu.Lock()
		return g.Wait(ctx)
	}
	if err := wait(g); err != nil {
		return err
	}
	for _, w := range others {
		if err := wait(w.done); err != nil {
			return err
		}
	}
	return failed
}

// begin notes that an extent is being written, which was taken from the dirty ones. mu is held.
func (m *PageCache) begin(f *cachedFile, e extent) *writing {
	w := &writing{extent: e, done: m.s.NewGroup("the writeback of a range")}
	w.done.Add(1)
	f.writing = append(f.writing, w)
	return w
}

// write writes an extent; on an error it is dirty again. mu is held, but not while it waits.
func (m *PageCache) write(ctx context.Context, f *cachedFile, w *writing, count *int64) error {
	m.mu.Unlock()
	err := m.dev.IO(ctx, true, f.id.Ino, f.base+w.off, int(w.len()))
	m.mu.Lock()
	f.remove(w)
	w.done.Done()
	switch {
	case f.lost: // by a crash
	case err != nil:
		if len(f.dirty) == 0 {
			m.order = append(m.order, f)
		}
		m.dirty -= w.len() - f.dirty.add(w.extent)
	default:
		m.dirty -= w.len()
		*count += w.len()
	}
	m.settled(f)
	m.relax()
	return err
}

// settled takes a file without dirty data off the list. mu is held.
func (m *PageCache) settled(f *cachedFile) {
	if len(f.dirty) > 0 {
		return
	}
	for i, x := range m.order {
		if x == f {
			m.order = append(m.order[:i], m.order[i+1:]...)
			return
		}
	}
}

// kick starts writeback tasks, as many as there may be. mu is held.
func (m *PageCache) kick() {
	for m.running < min(m.cfg.Tasks, len(m.order)) {
		m.running++
		m.s.Go("writeback", m.writeback)
	}
}

// writeback writes until less than the background limit is dirty and nothing is too old. Files take turns.
func (m *PageCache) writeback() {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.running-- }()
	for {
		f, e, ok := m.pick()
		if !ok {
			return
		}
		if m.write(context.Background(), f, m.begin(f, e), &m.st.Background) != nil {
			return
		}
	}
}

// pick takes the next extent for writeback. mu is held.
func (m *PageCache) pick() (*cachedFile, extent, bool) {
	for range len(m.order) {
		f := m.order[0]
		m.order = append(m.order[1:], f) // the next one's turn
		old := m.s.Now().Add(-sched.FromStd(m.cfg.Expire))
		if !(m.cfg.Dirty > 0 && m.dirty > m.cfg.Background || m.over != nil || m.expired && f.dirty.oldest() <= old) {
			continue
		}
		if e, ok := f.dirty.take(0, ^uint64(0), m.cfg.WriteSize); ok {
			if len(f.dirty) == 0 {
				m.settled(f)
			}
			return f, e, true
		}
	}
	m.expired = false
	return nil, extent{}, false
}

// age looks for data that is too old.
func (m *PageCache) age() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed = len(m.order) > 0
	if !m.armed {
		return
	}
	m.timer.Reset(sched.FromStd(m.cfg.Interval))
	old := m.s.Now().Add(-sched.FromStd(m.cfg.Expire))
	for _, f := range m.order {
		if f.dirty.oldest() <= old {
			m.expired = true
			m.kick()
			return
		}
	}
}

func (m *PageCache) truncated(id vfs.ID, size uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[id]
	if f == nil {
		return
	}
	for {
		e, ok := f.dirty.take(size, ^uint64(0), 0)
		if !ok {
			break
		}
		m.dirty -= e.len()
	}
	m.settled(f)
	m.relax()
}

func (m *PageCache) crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.files {
		f.lost, f.dirty = true, nil
	}
	clear(m.files)
	m.order, m.dirty = nil, 0
	m.clean.reset()
	m.relax()
}

// beginRead reads what is not in the cache.
func (m *PageCache) beginRead(ctx context.Context, c call) error {
	var a vfs.Attr
	if m.below.Attr(ctx, c.id, &a) != nil || a.Type != vfs.Regular || c.off >= a.Size || c.n <= 0 {
		return nil // the call below says what is wrong
	}
	n := int(min(uint64(c.n), a.Size-c.off))
	m.mu.Lock()
	f := m.file(c.id)
	runs, hits, misses := m.clean.missing(c.id, c.off, n)
	m.st.Hits += hits
	m.st.Misses += misses
	m.mu.Unlock()
	for _, e := range runs {
		if err := m.dev.IO(ctx, false, c.id.Ino, f.base+e.off, int(e.len())); err != nil {
			return err
		}
		m.mu.Lock()
		m.clean.add(c.id, e.off, int(e.len()))
		m.mu.Unlock()
	}
	return nil
}

// fileSpan is the distance of two files on the device, bytes.
const fileSpan = 8 << 30

func (m *PageCache) file(id vfs.ID) *cachedFile {
	f := m.files[id]
	if f == nil {
		f = &cachedFile{id: id, base: m.placed * fileSpan}
		m.placed++
		m.files[id] = f
	}
	return f
}

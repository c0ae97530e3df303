package model

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

// Journal is a file system whose COMMITs and stable WRITEs end with a log force.
type Journal struct {
	open
	cfg JournalConfig
	log *sched.Sem // with Serial

	mu     sync.Mutex
	forces uint64
	rand   *rand.Rand
	meter  *sched.Meter
}

// JournalConfig says what a log force takes.
type JournalConfig struct {
	Force  time.Duration // one log force: log write, cache flush
	Spread float64       // each force takes a random time, uniform in Force x (1 +- Spread); 0 to 1
	Serial bool          // one at a time for the whole file system; otherwise forces overlap, as of a log with several buffers
}

// NewJournal decorates fs.
func NewJournal(s *sched.Sched, fs vfs.FS, cfg JournalConfig) (vfs.FS, *Journal) {
	m := &Journal{open: open{s, fs}, cfg: cfg, rand: s.Rand("journal")}
	u := sched.Usage{Name: "the journal", Knob: "WithJournal", Level: levelJournal, Units: 1}
	if cfg.Serial {
		m.log = s.NewSem(u.Name, 1).Measure(u)
	} else {
		u.Units = 1 << 20 // never all in use: nobody waits for it
		m.meter = s.NewMeter(u)
	}
	return decorate(fs, m), m
}

// Forces is how many log forces were made.
func (m *Journal) Forces() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forces
}

func (m *Journal) force(ctx context.Context) error {
	m.mu.Lock()
	m.forces++
	d := sched.FromStd(m.cfg.Force)
	if m.cfg.Spread > 0 {
		d = sched.Duration(float64(d) * (1 + m.cfg.Spread*(2*m.rand.Float64()-1)))
	}
	m.mu.Unlock()
	if m.log != nil {
		if err := m.log.Acquire(ctx, 1); err != nil {
			return err
		}
		defer m.log.Release(1)
	}
	m.meter.Take(1)
	defer m.meter.Give(1)
	return m.s.Sleep(ctx, d)
}

func (m *Journal) settleWrite(ctx context.Context, c call) error {
	if c.stable {
		return m.force(ctx)
	}
	return nil
}

func (m *Journal) commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	if err := m.force(ctx); err != nil {
		return err
	}
	return m.below.Commit(ctx, id, off, n, w)
}

package softroce

import (
	"math/rand/v2"
	"sync/atomic"

	"example.org/nfsrdma/verbs"
)

// frame is one page of the DMA address space. mem changes only while the guard forbids its use.
type frame struct {
	g   guard
	mem []byte
}

const (
	frameChunk  = 1024
	frameChunks = 1 << 14 // 64 GiB of mappings at once
	pageShift   = 12
)

// dmaSpace deals out frames in an order that scatters neighbours.
type dmaSpace struct {
	base   uint64
	chunks [frameChunks]atomic.Pointer[[frameChunk]frame]
	mu     lock
	rng    *rand.Rand
	free   []uint32
	grown  int
	maps   int
	keys   atomic.Int32 // that reach all frames
}

func (s *dmaSpace) frame(addr uint64) *frame {
	i := (addr - s.base) >> pageShift
	if addr < s.base || i >= frameChunk*frameChunks {
		return nil
	}
	c := s.chunks[i/frameChunk].Load()
	if c == nil {
		return nil
	}
	return &c[i%frameChunk]
}

func (s *dmaSpace) grow() bool {
	if s.grown == frameChunks {
		return false
	}
	c := s.grown
	s.grown++
	s.chunks[c].Store(new([frameChunk]frame))
	for _, i := range s.rng.Perm(frameChunk) {
		s.free = append(s.free, uint32(c*frameChunk+i))
	}
	return true
}

func (s *dmaSpace) mapPages(m *verbs.DMAMap, buf []byte) error {
	m.Segs = m.Segs[:0]
	if len(buf) == 0 {
		return nil
	}
	pages := (len(buf) + verbs.PageSize - 1) / verbs.PageSize
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.free) < pages {
		if !s.grow() {
			return verbs.ErrNoResources
		}
	}
	s.maps++
	take := s.free[len(s.free)-pages:]
	for k := range pages {
		i := take[k]
		b := buf[k*verbs.PageSize : min((k+1)*verbs.PageSize, len(buf))]
		f := &s.chunks[i/frameChunk].Load()[i%frameChunk]
		f.mem = b
		f.g.allow()
		m.Segs = append(m.Segs, verbs.DMASeg{Addr: s.base + uint64(i)<<pageShift, Len: uint32(len(b))})
	}
	s.free = s.free[:len(s.free)-pages]
	return nil
}

func (s *dmaSpace) unmap(m *verbs.DMAMap, sec *sections) {
	if len(m.Segs) == 0 {
		return
	}
	ended := m.Segs[:0]
	for _, g := range m.Segs {
		// A copy of the map may have been ended before.
		if f := s.frame(g.Addr); f != nil && f.g.end(f.g.gen.Load()) {
			ended = append(ended, g)
		}
	}
	m.Segs = m.Segs[:0]
	if len(ended) == 0 {
		return
	}
	if s.keys.Load() > 0 { // else registrations alone lead to the frames, and guard them
		sec.wait()
	}
	for _, g := range ended {
		s.frame(g.Addr).mem = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maps--
	// As they were dealt out, so that the same frames in the same order come next.
	for _, g := range ended {
		s.free = append(s.free, uint32((g.Addr-s.base)>>pageShift))
	}
}

// span appends the memory of [addr, addr+n), which may cross pages only where
// their frames are neighbours. It is called within a section.
func (s *dmaSpace) span(m *message, addr uint64, n uint32) why {
	for n > 0 {
		f := s.frame(addr)
		if f == nil {
			return unmapped
		}
		gen, ok := f.g.current()
		if !ok {
			return unmapped
		}
		b := f.mem
		off := addr & (verbs.PageSize - 1)
		if off >= uint64(len(b)) {
			return unmapped
		}
		k := min(n, uint32(uint64(len(b))-off))
		if k < n && off+uint64(k) != verbs.PageSize {
			return unmapped
		}
		m.add(seg{b[off : off+uint64(k)], &f.g, gen})
		addr += uint64(k)
		n -= k
	}
	return fine
}

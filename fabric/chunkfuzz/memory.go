package chunkfuzz

import (
	"errors"

	"example.org/nfsrdma/verbs"
)

// Region names a part of a Requester's memory by the rights that the server has to it.
type Region uint8

// Regions.
const (
	Source  Region = iota // RDMA READ
	Sink                  // RDMA WRITE
	Both                  // READ and WRITE
	Private               // none
	numRegions
)

var regionNames = [numRegions]string{"source", "sink", "both", "private"}

func (r Region) String() string { return regionNames[r%numRegions] }

// Sizes in bytes. Neighbouring regions are not neighbours in address space.
var regionSize = [numRegions]int{Source: 96 << 10, Sink: 96 << 10, Both: 8 << 10, Private: 4 << 10}

var regionRights = [numRegions]verbs.Access{
	Source:  verbs.LocalWrite | verbs.RemoteRead,
	Sink:    verbs.LocalWrite | verbs.RemoteWrite,
	Both:    verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite,
	Private: verbs.LocalWrite,
}

// Memory is what a server can be pointed at, rightly and wrongly.
type Memory struct {
	pd    verbs.PD
	mr    [numRegions]verbs.MR
	want  [numRegions][]byte // what is to be there
	stale uint32             // a key that was good once
	wrong uint32             // a key that never was
	base  uint64             // where the stale key's region was
}

func newMemory(dev verbs.Device) (_ *Memory, err error) {
	m := &Memory{}
	defer func() {
		if err != nil {
			_ = m.close()
		}
	}()
	if m.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	gone, err := m.pd.AllocMR(4096, regionRights[Both])
	if err != nil {
		return nil, err
	}
	m.stale, m.base = gone.RKey(), gone.Addr()
	if err := gone.Close(); err != nil {
		return nil, err
	}
	for r := range numRegions {
		if m.mr[r], err = m.pd.AllocMR(regionSize[r], regionRights[r]); err != nil {
			return nil, err
		}
		m.want[r] = make([]byte, regionSize[r])
		for i, b := 0, m.mr[r].Bytes(); i < len(b); i++ {
			b[i] = byte(i*11+i>>8*3) ^ byte(r)
		}
		copy(m.want[r], m.mr[r].Bytes())
	}
	m.wrong = m.mr[Sink].RKey() ^ 0x55aa5500
	for m.isKey(m.wrong) || m.wrong == m.stale {
		m.wrong += 1 << 8
	}
	return m, nil
}

func (m *Memory) isKey(k uint32) bool {
	for r := range numRegions {
		if m.mr[r] != nil && m.mr[r].RKey() == k {
			return true
		}
	}
	return false
}

// Seg is a segment of r.
func (m *Memory) Seg(r Region, off, n int) Segment {
	return Segment{Handle: m.mr[r].RKey(), Offset: m.mr[r].Addr() + uint64(off), Length: uint32(n)}
}

// StaleKey was the key of a region that is gone, FalseKey never was one.
func (m *Memory) StaleKey() uint32 { return m.stale }

// FalseKey is a key that no region has.
func (m *Memory) FalseKey() uint32 { return m.wrong }

// Put places b in r, as the requester's own act.
func (m *Memory) Put(r Region, off int, b []byte) {
	copy(m.mr[r].Bytes()[off:], b)
	copy(m.want[r][off:], b)
}

// Bytes is r as it is.
func (m *Memory) Bytes(r Region) []byte { return m.mr[r].Bytes() }

// span is a checked part of a region.
type span struct {
	r        Region
	off, end int
}

// find resolves a segment as a device does: key, right, bounds (InfiniBand architecture, section 10.6).
func (m *Memory) find(s Segment, write bool) (span, bool) {
	for r := range numRegions {
		if m.mr[r].RKey() != s.Handle {
			continue
		}
		right := verbs.RemoteRead
		if write {
			right = verbs.RemoteWrite
		}
		base, size := m.mr[r].Addr(), uint64(regionSize[r])
		if regionRights[r]&right == 0 || s.Offset < base || s.Offset-base > size || uint64(s.Length) > size-(s.Offset-base) {
			return span{}, false
		}
		off := int(s.Offset - base)
		return span{r, off, off + int(s.Length)}, true
	}
	return span{}, false
}

func (m *Memory) close() error {
	var errs []error
	for r := range numRegions {
		if m.mr[r] != nil {
			errs = append(errs, m.mr[r].Close())
		}
	}
	if m.pd != nil {
		errs = append(errs, m.pd.Close())
	}
	return errors.Join(errs...)
}

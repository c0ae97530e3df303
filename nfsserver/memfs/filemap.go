package memfs

import "slices"

// filemap finds the chunk that holds a part of a file, by number: offset /
// ChunkSize. The head stands apart because small files have nothing else.
type filemap struct {
	head   *chunk
	leaves []*leaf // by base; without holes, leaf k is at index k
}

const leafLen = 64

// A leaf holds chunks base*leafLen up to the next leaf. A hole is nil.
type leaf struct {
	base   uint64
	chunks [leafLen]*chunk
}

// find returns where the leaf of base is or belongs.
func (m *filemap) find(base uint64) (int, bool) {
	if base < uint64(len(m.leaves)) && m.leaves[base].base == base {
		return int(base), true
	}
	return slices.BinarySearchFunc(m.leaves, base, func(l *leaf, base uint64) int {
		switch {
		case l.base < base:
			return -1
		case l.base > base:
			return 1
		}
		return 0
	})
}

// get returns nil for a hole.
func (m *filemap) get(i uint64) *chunk {
	if i == 0 {
		return m.head
	}
	k, ok := m.find(i / leafLen)
	if !ok {
		return nil
	}
	return m.leaves[k].chunks[i%leafLen]
}

func (m *filemap) set(i uint64, c *chunk) {
	if i == 0 {
		m.head = c
		return
	}
	k, ok := m.find(i / leafLen)
	if !ok {
		if c == nil {
			return
		}
		m.leaves = slices.Insert(m.leaves, k, &leaf{base: i / leafLen})
	}
	m.leaves[k].chunks[i%leafLen] = c
}

// truncate forgets chunk n and all after it, and calls drop for each.
func (m *filemap) truncate(n uint64, drop func(*chunk)) {
	if n == 0 && m.head != nil {
		drop(m.head)
		m.head = nil
	}
	k, ok := m.find(n / leafLen)
	keep := k
	if ok && n%leafLen != 0 {
		keep++
	}
	for j := k; j < len(m.leaves); j++ {
		l := m.leaves[j]
		for x, c := range l.chunks {
			if i := l.base*leafLen + uint64(x); i >= n && c != nil {
				drop(c)
				l.chunks[x] = nil
			}
		}
	}
	m.leaves = slices.Delete(m.leaves, keep, len(m.leaves))
	if len(m.leaves) == 0 {
		m.leaves = nil
	}
}

// each calls f for all chunks in order.
func (m *filemap) each(f func(i uint64, c *chunk)) {
	if m.head != nil {
		f(0, m.head)
	}
	for _, l := range m.leaves {
		for x, c := range l.chunks {
			if c != nil {
				f(l.base*leafLen+uint64(x), c)
			}
		}
	}
}

package rpcrdma

// ChunkList is a Write list: chunks of segments, kept flat. The zero value is an empty list.
type ChunkList struct {
	segs []Segment
	ends []int // ends[i] is where chunk i ends in segs
}

// Len is the number of chunks.
func (l *ChunkList) Len() int { return len(l.ends) }

// Segments is the number of segments in all chunks.
func (l *ChunkList) Segments() int { return len(l.segs) }

// Chunk gives the segments of chunk i, which may be none. They may be changed in place, and stay
// valid until the list is added to or reset.
func (l *ChunkList) Chunk(i int) []Segment {
	start := 0
	if i > 0 {
		start = l.ends[i-1]
	}
	return l.segs[start:l.ends[i]:l.ends[i]]
}

// Reset empties the list and keeps its storage.
func (l *ChunkList) Reset() { l.segs, l.ends = l.segs[:0], l.ends[:0] }

// Add appends a chunk with a copy of segs.
func (l *ChunkList) Add(segs []Segment) {
	l.segs = append(l.segs, segs...)
	l.ends = append(l.ends, len(l.segs))
}

// AddSegment appends s to the last chunk; a list without chunks gets one.
func (l *ChunkList) AddSegment(s Segment) {
	if len(l.ends) == 0 {
		l.ends = append(l.ends, 0)
	}
	l.segs = append(l.segs, s)
	l.ends[len(l.ends)-1] = len(l.segs)
}

// ChunkLen is the number of bytes that a chunk's segments describe.
func ChunkLen(segs []Segment) uint64 {
	var n uint64
	for i := range segs {
		n += uint64(segs[i].Length)
	}
	return n
}

// ReadChunk splits off the first chunk of a Read list: the leading segments of equal position.
func ReadChunk(list []ReadSegment) (chunk, rest []ReadSegment) {
	n := 0
	for n < len(list) && list[n].Position == list[0].Position {
		n++
	}
	return list[:n], list[n:]
}

// ReadChunkLen is the number of bytes that the segments of a Read chunk describe.
func ReadChunkLen(chunk []ReadSegment) uint64 {
	var n uint64
	for i := range chunk {
		n += uint64(chunk[i].Length)
	}
	return n
}

package rpcrdma_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"example.org/nfsrdma/internal/rpcrdma"
)

func TestChunkList(t *testing.T) {
	var l rpcrdma.ChunkList
	a, b, c := seg(1, 10, 100), seg(2, 20, 200), seg(3, 30, 300)
	l.AddSegment(a)
	l.AddSegment(b)
	l.Add(nil)
	l.AddSegment(c)
	l.Add([]rpcrdma.Segment{a})
	assert.Equal(t, 3, l.Len())
	assert.Equal(t, 4, l.Segments())
	assert.Equal(t, []rpcrdma.Segment{a, b}, l.Chunk(0))
	assert.Equal(t, []rpcrdma.Segment{c}, l.Chunk(1))
	assert.Equal(t, []rpcrdma.Segment{a}, l.Chunk(2))
	l.Chunk(0)[1].Length = 7
	assert.EqualValues(t, 17, rpcrdma.ChunkLen(l.Chunk(0)))
	l.Reset()
	assert.Zero(t, l.Len())
	l.Add([]rpcrdma.Segment{b})
	assert.Equal(t, []rpcrdma.Segment{b}, l.Chunk(0))
}

func TestChunkLen(t *testing.T) {
	assert.Zero(t, rpcrdma.ChunkLen(nil))
	big := seg(1, math.MaxUint32, 0)
	assert.EqualValues(t, 3*uint64(math.MaxUint32), rpcrdma.ChunkLen([]rpcrdma.Segment{big, big, big}))
}

func TestReadChunk(t *testing.T) {
	at := func(position, length uint32) rpcrdma.ReadSegment {
		return rpcrdma.ReadSegment{Position: position, Segment: seg(1, length, 0)}
	}
	list := []rpcrdma.ReadSegment{at(0, 1), at(0, 2), at(112, 4), at(0, 8)}
	chunk, rest := rpcrdma.ReadChunk(list)
	assert.EqualValues(t, 3, rpcrdma.ReadChunkLen(chunk))
	chunk, rest = rpcrdma.ReadChunk(rest)
	assert.EqualValues(t, 4, rpcrdma.ReadChunkLen(chunk))
	chunk, rest = rpcrdma.ReadChunk(rest)
	assert.EqualValues(t, 8, rpcrdma.ReadChunkLen(chunk))
	assert.Empty(t, rest)
	chunk, rest = rpcrdma.ReadChunk(rest)
	assert.Empty(t, chunk)
	assert.Empty(t, rest)
}

package rpcrdma

import (
	"fmt"
	"strconv"
	"strings"
)

// String prints a header in one line: lists that are empty or absent are left out, a Reply chunk
// with no segment shows as reply=[].
func (h *Header) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v xid=0x%08x vers=%d credits=%d", h.Proc, h.XID, h.Vers, h.Credits)
	switch {
	case h.Proc == RDMA_ERROR:
		s.WriteByte(' ')
		s.WriteString(h.Err.String())
		if h.Err == ERR_VERS {
			fmt.Fprintf(&s, " low=%d high=%d", h.Low, h.High)
		}
		return s.String()
	case !h.Proc.HasChunks():
		return s.String()
	case h.Proc == RDMA_MSGP:
		fmt.Fprintf(&s, " align=%d thresh=%d", h.Align, h.Thresh)
	}
	if len(h.Reads) > 0 {
		s.WriteString(" reads=[")
		for i := range h.Reads {
			if i > 0 {
				s.WriteByte(' ')
			}
			s.WriteByte('@')
			s.WriteString(strconv.FormatUint(uint64(h.Reads[i].Position), 10))
			s.WriteByte(':')
			s.WriteString(h.Reads[i].Segment.String())
		}
		s.WriteByte(']')
	}
	if h.Writes.Len() > 0 {
		s.WriteString(" writes=")
		for i := range h.Writes.Len() {
			printChunk(&s, h.Writes.Chunk(i))
		}
	}
	if h.HasReply {
		s.WriteString(" reply=")
		printChunk(&s, h.Reply)
	}
	return s.String()
}

// String prints a segment as handle:length@offset.
func (s Segment) String() string {
	return fmt.Sprintf("%08x:%d@%#x", s.Handle, s.Length, s.Offset)
}

func printChunk(s *strings.Builder, c []Segment) {
	s.WriteByte('[')
	for i := range c {
		if i > 0 {
			s.WriteByte(' ')
		}
		s.WriteString(c[i].String())
	}
	s.WriteByte(']')
}

package rpcrdma

import (
	"errors"

	"example.org/nfsrdma/internal/xdr"
)

// What can be wrong with a header; match with errors.Is, or ask [ErrorReply] what to answer. The
// chain holds an *xdr.Error besides.
var (
	// ErrShort is a message too short to be looked at. It is dropped (RFC 8166 section 4.5).
	ErrShort = errors.New("rpcrdma: message shorter than a header")
	// ErrVersion is a version other than 1. XID, Vers, Credits and Proc of the Header are valid.
	ErrVersion = errors.New("rpcrdma: version not supported")
	// ErrHeader is a header that does not parse. XID, Vers, Credits and Proc of the Header are
	// valid.
	ErrHeader = errors.New("rpcrdma: bad header")
)

var (
	errVersion  = errors.New("not 1")
	errProc     = errors.New("unknown rdma_proc")
	errSegments = errors.New("more segments than allowed")
)

// ConsumeHeader decodes the header at the front of b into h and gives its length; the RPC message
// of an RDMA_MSG is b[n:]. At most maxSegs segments are taken in all lists together; 0 leaves them
// bounded by len(b). On error n is -1.
//
// RDMA_DONE and ERR_CHUNK messages are 16 and 20 bytes long and are taken, though RFC 8166 section
// 4.5 would have anything below 28 bytes dropped: peers do send them at that length.
func ConsumeHeader(b []byte, h *Header, maxSegs int) (n int, err error) {
	h.Reset()
	r := xdr.NewReader(b)
	h.XID = r.Uint32("rdma_xid")
	h.Vers = r.Uint32("rdma_vers")
	h.Credits = r.Uint32("rdma_credit")
	h.Proc = Proc(r.Uint32("rdma_proc"))
	if r.Ok() && h.Vers != Version {
		r.Fail("rdma_vers", 4, errVersion)
	}
	switch h.Proc {
	case RDMA_MSG, RDMA_NOMSG:
		h.consumeChunks(&r, maxSegs)
	case RDMA_MSGP:
		h.Align = r.Uint32("rdma_align")
		h.Thresh = r.Uint32("rdma_thresh")
		h.consumeChunks(&r, maxSegs)
	case RDMA_DONE:
	case RDMA_ERROR:
		h.Err = ErrCode(r.Enum("rdma_err", uint32(ERR_VERS), uint32(ERR_CHUNK)))
		if h.Err == ERR_VERS {
			h.Low = r.Uint32("rdma_vers_low")
			h.High = r.Uint32("rdma_vers_high")
		}
	default:
		r.Fail("rdma_proc", 12, errProc)
	}
	if r.Ok() {
		return r.Off(), nil
	}
	kind := ErrHeader
	if len(b) < MinHeaderLen {
		kind = ErrShort
	} else if h.Vers != Version {
		kind = ErrVersion
	}
	return -1, &headerError{kind, r.Err()}
}

// headerError is one of the three errors above with what in the header it is about.
type headerError struct {
	kind error
	err  error // an *xdr.Error
}

func (e *headerError) Error() string   { return e.kind.Error() + ": " + e.err.Error() }
func (e *headerError) Unwrap() []error { return []error{e.kind, e.err} }

func (h *Header) consumeChunks(r *xdr.Reader, maxSegs int) {
	left := maxSegs
	if maxSegs <= 0 {
		left = r.Len() / segmentLen
	}
	for r.Bool("rdma_reads") {
		at := r.Off()
		var s ReadSegment
		s.Position = r.Uint32("rdma_position")
		s.Segment = consumeSegment(r)
		if !r.Ok() {
			return
		}
		if left--; left < 0 {
			r.Fail("rdma_reads", at, errSegments)
			return
		}
		h.Reads = append(h.Reads, s)
	}
	for r.Bool("rdma_writes") {
		n := consumeCount(r, &left)
		if !r.Ok() {
			return
		}
		for range n {
			h.Writes.segs = append(h.Writes.segs, consumeSegment(r))
		}
		h.Writes.ends = append(h.Writes.ends, len(h.Writes.segs))
	}
	if h.HasReply = r.Bool("rdma_reply"); h.HasReply {
		n := consumeCount(r, &left)
		for range n {
			h.Reply = append(h.Reply, consumeSegment(r))
		}
	}
}

// consumeCount reads how many segments a chunk has and takes them off what is left to be had.
func consumeCount(r *xdr.Reader, left *int) int {
	at := r.Off()
	n := r.Count("segment count", segmentLen, xdr.NoLimit)
	if n > *left {
		r.Fail("segment count", at, errSegments)
		return 0
	}
	*left -= n
	return n
}

func consumeSegment(r *xdr.Reader) (s Segment) {
	s.Handle = r.Uint32("handle")
	s.Length = r.Uint32("length")
	s.Offset = r.Uint64("offset")
	return s
}

// ErrorReply gives what a responder answers to a call whose header h failed to decode with err:
// an RDMA_ERROR of the given code, or nothing (drop) if ok is false (RFC 8166 section 4.5). An
// RDMA_ERROR is never answered, so that two peers cannot go on for ever.
func ErrorReply(h *Header, err error) (code ErrCode, ok bool) {
	switch {
	case h.Proc == RDMA_ERROR || h.Proc == RDMA_DONE:
		return 0, false
	case errors.Is(err, ErrVersion):
		return ERR_VERS, true
	case errors.Is(err, ErrHeader):
		return ERR_CHUNK, true
	}
	return 0, false
}

// SetError makes h the RDMA_ERROR that answers the call whose XID, Vers and Credits h holds; the
// version is the call's (RFC 8166 section 4.5), and ERR_VERS offers version 1 alone.
func (h *Header) SetError(code ErrCode) {
	xid, vers, credits := h.XID, h.Vers, h.Credits
	h.Reset()
	h.XID, h.Vers, h.Credits = xid, vers, credits
	h.Proc, h.Err = RDMA_ERROR, code
	if code == ERR_VERS {
		h.Low, h.High = Version, Version
	}
}

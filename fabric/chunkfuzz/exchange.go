package chunkfuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
)

// Result is an exchange with what was foreseen.
type Result struct {
	Want Want
	Got  Verdict
	Msg  []byte // what was sent; valid until the next exchange
}

// Err says what is wrong with a result: a violation, or a verdict that the RFCs do not allow. In strict, what they
// leave open must be as this module's server has it.
func (r *Result) Err(strict bool) error {
	w, g := &r.Want, r.Got
	switch {
	case g.Kind == NotSent:
		return nil
	case g.Kind == Violation:
	case g.Kind == w.Kind && (g.Kind != Reply || g.RPC == w.RPC && g.Long == w.Long):
		return nil
	case !strict && w.Also.Has(g.Kind):
		return nil
	case w.Open:
		return nil
	case !strict && g.Kind == Reply && w.Kind == Reply && g.RPC == w.RPC:
		return nil // a Reply chunk may be used for less, too
	}
	return fmt.Errorf("got %v\nwant %v\n%s", g, w, Story(r.Msg))
}

var numbers = regexp.MustCompile(`0x[0-9a-f]+|[0-9a-f]{8,}|\b[0-9]+\b`)

// Difference says what went otherwise than foreseen without the numbers of the call, so that alike ones are alike.
func (r *Result) Difference() string {
	g := r.Got
	if g.Kind == Disconnect {
		g.Why = ""
	}
	g.Why = numbers.ReplaceAllString(g.Why, "N")
	w := r.Want
	if w.Open {
		return fmt.Sprintf("%v where nothing is foreseen, since %s", g, w.Why)
	}
	return fmt.Sprintf("%v, not %v, since %s", g, Verdict{Kind: w.Kind, RPC: w.RPC, Long: w.Long}, w.Why)
}

// Story tells what a message is, in a line or two.
func Story(b []byte) string {
	var h Header
	n, err := rpcrdma.ConsumeHeader(b, &h, 0)
	var s strings.Builder
	fmt.Fprintf(&s, "message of %d bytes: ", len(b))
	if err != nil {
		fmt.Fprintf(&s, "%v\n%x", err, b)
		return s.String()
	}
	fmt.Fprintf(&s, "%v\n%d bytes behind the header: %x", &h, len(b)-n, b[n:])
	return s.String()
}

// Try makes a message of in, sends it, and compares what comes with what the oracle says. It connects again if the
// connection ends; an error means that this was not possible.
func (s *Session) Try(ctx context.Context, in []byte) (*Result, error) {
	return s.Exchange(ctx, s.gen.Message(in))
}

// Exchange is Try with any message.
func (s *Session) Exchange(ctx context.Context, msg []byte) (r *Result, err error) {
	r = &Result{Msg: msg}
	s.Now++
	if s.Careful && Deadly(msg) {
		r.Got.Kind = NotSent
		return r, nil
	}
	defer func() {
		// A task of the server that panics in virtual time does so in its caller.
		if p := recover(); p != nil {
			r.Got = violation("panic: %v\n%s", p, debug.Stack())
			err = fmt.Errorf("chunkfuzz: the server panicked: %v", p)
		}
	}()
	if !s.Req.Connected() {
		if err := s.Req.Reconnect(ctx); err != nil {
			return r, fmt.Errorf("chunkfuzz: connecting again: %w", err)
		}
	}
	r.Want = *s.oracle.Predict(msg)
	r.Got = s.exchange(ctx, msg, &r.Want)
	if r.Got.Kind == ErrChunk && !s.Req.s.Virtual() && s.ping(ctx) != nil {
		s.Req.drop() // the connection ends behind the answer, and not because of the next message
	}
	if w := &r.Want; w.apply && (r.Got.Kind == Reply && r.Got.RPC == Success || r.Got.Kind == w.Kind && w.Kind != Violation) {
		s.Srv.wrote(w)
	}
	if s.mayHaveWritten(r) {
		if err := s.restore(ctx); err != nil {
			return r, err
		}
	}
	if r.Got.Kind != Violation && (!s.strict || r.Want.Open || r.Got.Kind != r.Want.Kind || r.Got.Kind == Disconnect) {
		// What is within the chunks is the server's to write (RFC 8166 section 4.3.2.2), but for results.
		if r.Got.Kind == Reply && r.Want.Kind == Reply && !r.Want.Open {
			if i, bad := s.wrongResult(&r.Want); bad {
				r.Got = violation("segment %d of the Write chunk has wrong data", i)
			}
		}
		s.settle()
	}
	if r.Got.Kind == Disconnect {
		s.Req.drop()
		if s.Req.s.Virtual() {
			if err := s.Req.s.Sleep(ctx, sched.Second); err != nil {
				return r, err
			}
		}
	}
	if g, at, bad := s.Req.touched(r.Got.Kind == Violation || s.Now%64 == 0); bad {
		if r.Got.Kind != Violation {
			r.Got = violation("byte %d of region %v is not what it must be, after %v", at, g, r.Got)
		}
		s.Req.resync()
	}
	return r, nil
}

// mayHaveWritten says whether the scratch file may have changed otherwise than is known.
func (s *Session) mayHaveWritten(r *Result) bool {
	if r.Want.Open && r.Got.Kind == Reply && r.Got.RPC == Success {
		return true
	}
	// A server that is not ours may run a call that was to be refused.
	asWanted := r.Got.Kind == Reply && r.Want.Kind == Reply && r.Got.RPC == r.Want.RPC
	return !s.Req.s.Virtual() && !asWanted && (bytes.Contains(r.Msg, s.Srv.Scratch) || bytes.Contains(s.oracle.long, s.Srv.Scratch))
}

// restore writes the scratch file anew. A connection that ends late gets another try.
func (s *Session) restore(ctx context.Context) (err error) {
	for range 3 {
		if !s.Req.Connected() || s.ping(ctx) != nil {
			if err = s.Req.Reconnect(ctx); err != nil {
				return fmt.Errorf("chunkfuzz: connecting again: %w", err)
			}
		}
		if err = s.storeChunked(ctx, s.Srv.Scratch, s.Srv.scratch); err == nil {
			break
		}
		s.Req.drop()
	}
	s.Req.resync()
	return err
}

// storeChunked writes data to a file from Read chunks.
func (s *Session) storeChunked(ctx context.Context, fh, data []byte) error {
	most := min(regionSize[Source], int(s.Srv.MaxPayload))
	for off := 0; off < len(data); off += most {
		part := data[off:min(off+most, len(data))]
		s.Req.Put(Source, 0, part)
		h := Header{}
		h.Reset()
		h.XID, h.Credits = s.Req.NextXID(), 8
		c := rpc.AppendCall(nil, &rpc.Call{XID: h.XID, Prog: nfsProgram, Vers: 3, Proc: procWrite, Cred: s.auth})
		c = nfs3.AppendWriteArgsHead(c, &nfs3.WriteArgs{File: fileHandle(fh), Offset: uint64(off), Count: uint32(len(part))}, uint32(len(part)))
		h.Reads = []ReadSegment{{Position: uint32(len(c)), Segment: s.Req.Seg(Source, 0, len(part))}}
		b, err := s.ask(ctx, &h, append(rpcrdma.AppendHeader(nil, &h), c...))
		if err != nil {
			return err
		}
		var w nfs3.WriteRes
		if _, err := nfs3.ConsumeWriteRes(b, &w); err != nil || w.Status != nfs3.NFS3_OK || int(w.Count) != len(part) {
			return fmt.Errorf("WRITE: %v %w", w.Status, errors.Join(err, errRefused))
		}
	}
	return nil
}

// wrongResult looks at the segments that a result was written to.
func (s *Session) wrongResult(w *Want) (int, bool) {
	if !w.reduce || s.overwritten {
		return 0, false
	}
	for i, g := range s.answer.l.segs[:s.answer.l.ends[0]] {
		at, ok := s.Req.find(g, true)
		if ok && g.Length > 0 && !bytes.Equal(s.Req.want[at.r][at.off:at.end], s.Req.mr[at.r].Bytes()[at.off:at.end]) {
			return i, true
		}
	}
	return 0, false
}

// wrote applies a WRITE to what the scratch file is to hold.
func (v *Server) wrote(w *Want) {
	if need := int(w.off) + len(w.item); need > len(v.scratch) && len(w.item) > 0 {
		v.scratch = append(v.scratch, make([]byte, need-len(v.scratch))...)
	}
	if len(w.item) > 0 {
		copy(v.scratch[w.off:], w.item)
	}
}

func (s *Session) exchange(ctx context.Context, msg []byte, w *Want) Verdict {
	err := s.Req.Send(msg)
	if err != nil && !s.Req.s.Virtual() { // the connection ended late behind an earlier message
		if err = s.Req.Reconnect(ctx); err == nil {
			err = s.Req.Send(msg)
		}
	}
	if err != nil {
		return Verdict{Kind: Disconnect, Why: err.Error()}
	}
	m, ok, err := s.Req.Next(ctx)
	switch {
	case err != nil:
		return ended(err)
	case !ok && !s.Req.s.Virtual() && w.Kind != Drop && !w.Also.Has(Drop):
		// A server may be slow for once.
		if m, ok, err = s.Req.next(ctx, lateWait); err != nil {
			return ended(err)
		} else if !ok {
			return s.silent(ctx)
		}
	case !ok:
		return s.silent(ctx)
	}
	v := s.judge(m, w)
	if s.Req.s.Virtual() && v.Kind != Violation {
		if m, more := s.Req.peer.TryRecv(); more {
			return violation("a second answer: %x", m.Bytes)
		}
	}
	return v
}

// lateWait is how long an answer is waited for that must come.
const lateWait = 5 * sched.Second

func ended(err error) Verdict {
	if sched.Ended(err) {
		return violation("%v", err)
	}
	return Verdict{Kind: Disconnect, Why: err.Error()}
}

// ping makes a NULL call that touches no memory. An error means that the connection has ended, or that the server hangs.
func (s *Session) ping(ctx context.Context) error {
	h := Header{}
	h.Reset()
	h.XID, h.Credits = s.Req.NextXID(), 8
	b := rpc.AppendCall(rpcrdma.AppendHeader(nil, &h), &rpc.Call{XID: h.XID, Prog: nfsProgram, Vers: 3, Cred: s.auth})
	if err := s.Req.Send(b); err != nil {
		return err
	}
	for range 20 {
		m, ok, err := s.Req.Next(ctx)
		if err != nil {
			return err
		}
		if ok && len(m.Bytes) >= 28 && binary.BigEndian.Uint32(m.Bytes) == h.XID {
			return nil
		}
	}
	return errNoAnswer
}

var errNoAnswer = errors.New("no answer to an ordinary call")

// silent asks for a sign of life, since a server that drops a message must serve the next.
func (s *Session) silent(ctx context.Context) Verdict {
	err := s.ping(ctx)
	switch {
	case err == nil:
		return Verdict{Kind: Drop}
	case errors.Is(err, errNoAnswer):
		return violation("the server hangs: %v", err)
	}
	return Verdict{Kind: Disconnect, Why: err.Error()}
}

// drop ends the connection, without another.
func (q *Requester) drop() {
	if q.peer != nil {
		q.peer.Close()
		q.peer = nil
	}
}

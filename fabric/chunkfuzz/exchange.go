package chunkfuzz

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"strings"

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
	if w := &r.Want; w.apply && (r.Got.Kind == Reply && r.Got.RPC == Success || r.Got.Kind == w.Kind && w.Kind != Violation) {
		s.Srv.wrote(w)
	}
	if r.Want.Open && r.Got.Kind == Reply && r.Got.RPC == Success { // whatever it was may have changed the file
		s.Req.resync()
		if err := s.store(ctx, fileHandle(s.Srv.Scratch), s.Srv.scratch); err != nil {
			return r, err
		}
		s.Req.resync()
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

// wrongResult looks at the segments that a result was written to.
func (s *Session) wrongResult(w *Want) (int, bool) {
	if !w.reduce {
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
	if err := s.Req.Send(msg); err != nil {
		return Verdict{Kind: Disconnect, Why: err.Error()}
	}
	m, ok, err := s.Req.Next(ctx)
	switch {
	case err != nil:
		return ended(err)
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

func ended(err error) Verdict {
	if sched.Ended(err) {
		return violation("%v", err)
	}
	return Verdict{Kind: Disconnect, Why: err.Error()}
}

// silent asks for a sign of life, since a server that drops a message must serve the next.
func (s *Session) silent(ctx context.Context) Verdict {
	if _, err := s.plain(ctx, nfsProgram, 0, nil); err != nil {
		if strings.HasPrefix(err.Error(), "no answer") {
			return violation("the server hangs: %v", err)
		}
		return Verdict{Kind: Disconnect, Why: err.Error()}
	}
	return Verdict{Kind: Drop}
}

// drop ends the connection, without another.
func (q *Requester) drop() {
	if q.peer != nil {
		q.peer.Close()
		q.peer = nil
	}
}

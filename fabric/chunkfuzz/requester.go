package chunkfuzz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/verbs"
)

// Config is what Dial needs. Zero fields are the defaults.
type Config struct {
	Device verbs.Device // stays the caller's
	Addr   string       // "server:20049"
	Sched  *sched.Sched // nil: live, the requester's own

	Private   []byte        // private data of the connection; nil says Inline and no remote invalidation (RFC 8797)
	NoPrivate bool          // none at all: thresholds of 1024 bytes
	Inline    int           // largest message either way, bytes; 0 is 4096
	Recvs     int           // receives that are kept posted; 0 is 16
	Silence   time.Duration // how long no answer is a drop; 0 is 200 ms, virtual or not
}

// Requester is a connection to a server that keeps no rule by itself. One goroutine uses it; Close frees it.
type Requester struct {
	*Memory
	cfg  Config
	s    *sched.Sched
	own  bool
	peer *rawpeer.Peer
	xid  uint32
}

// Dial connects.
func Dial(ctx context.Context, cfg Config) (*Requester, error) {
	q := &Requester{cfg: cfg, s: cfg.Sched, xid: 0x1000}
	if cfg.Device == nil || cfg.Addr == "" {
		return nil, errors.New("chunkfuzz: no Device or no Addr")
	}
	if q.cfg.Inline == 0 {
		q.cfg.Inline = 4096
	}
	if q.cfg.Recvs == 0 {
		q.cfg.Recvs = 16
	}
	if q.cfg.Silence == 0 {
		q.cfg.Silence = 200 * time.Millisecond
	}
	if q.cfg.NoPrivate {
		q.cfg.Inline = rpcrdma.DefaultInline
	} else if q.cfg.Private == nil {
		q.cfg.Private = rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: q.cfg.Inline, RecvSize: q.cfg.Inline})
	}
	if q.s == nil {
		q.s, q.own = sched.NewLive(0), true
		q.xid = uint32(time.Now().UnixNano()) // a server may remember another run's calls
	}
	var err error
	if q.Memory, err = newMemory(cfg.Device); err == nil {
		err = q.Reconnect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// Reconnect ends the connection, if there is one, and makes another; memory and keys stay.
func (q *Requester) Reconnect(ctx context.Context) (err error) {
	if q.peer != nil {
		q.peer.Close()
		q.peer = nil
	}
	q.peer, err = rawpeer.Dial(ctx, rawpeer.Config{
		Device: q.cfg.Device, Sched: q.s, Addr: q.cfg.Addr, PD: q.pd, PrivateData: q.cfg.Private,
		Recvs: q.cfg.Recvs, RecvSize: max(q.cfg.Inline, 4096), SendSize: 64 << 10,
	})
	return err
}

// Connected says whether there is a connection, as far as was seen.
func (q *Requester) Connected() bool { return q.peer != nil }

// ServerPrivate is the private data with which the server accepted.
func (q *Requester) ServerPrivate() []byte { return q.peer.Private }

// NextXID gives an XID that was not used yet.
func (q *Requester) NextXID() uint32 {
	q.xid++
	return q.xid
}

// Send sends b as one message, without a look at it.
func (q *Requester) Send(b []byte) error {
	if q.peer == nil {
		return errors.New("chunkfuzz: not connected")
	}
	return q.peer.Send(context.Background(), b)
}

// Message is what a server sent.
type Message struct {
	Bytes  []byte
	Inv    bool // with remote invalidation of InvKey
	InvKey uint32
}

// Next gives the next message. ok is false if none comes for Silence; an error is the end of the connection.
func (q *Requester) Next(ctx context.Context) (m Message, ok bool, err error) {
	return q.next(ctx, sched.FromStd(q.cfg.Silence))
}

func (q *Requester) next(ctx context.Context, wait sched.Duration) (m Message, ok bool, err error) {
	if q.peer == nil {
		return m, false, errors.New("chunkfuzz: not connected")
	}
	got, ok := q.peer.TryRecv()
	if !ok && q.s.Virtual() {
		for d := sched.Microsecond; !ok; d *= 1000 {
			if err := q.s.Sleep(ctx, min(d, wait)); err != nil {
				return m, false, err
			}
			if got, ok = q.peer.TryRecv(); d >= wait {
				break
			}
		}
	} else if !ok {
		tctx, cancel := q.s.WithTimeout(ctx, wait)
		got, err = q.peer.Recv(tctx)
		cancel()
		if ok = err == nil || errors.Is(err, rawpeer.ErrEnded); !ok {
			if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return m, false, err
			}
			return m, false, nil
		}
	}
	if !ok {
		return m, false, nil
	}
	if got.Status != verbs.Success {
		return m, false, fmt.Errorf("%w: %v", rawpeer.ErrEnded, got.Status)
	}
	return Message{got.Bytes, got.Inv, got.InvKey}, true, nil
}

// Close ends the connection and frees the memory.
func (q *Requester) Close() error {
	var errs []error
	if q.peer != nil {
		q.peer.Close()
		q.peer = nil
	}
	if q.Memory != nil {
		errs = append(errs, q.Memory.close())
	}
	if q.own {
		errs = append(errs, q.s.Close())
	}
	return errors.Join(errs...)
}

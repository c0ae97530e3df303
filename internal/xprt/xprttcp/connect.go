package xprttcp

import (
	"context"

	"example.org/nfsrdma/internal/xprt/clnt"
	"example.org/nfsrdma/internal/xprt/stream"
)

// connect makes a connection.
func (x *Xprt) connect(ctx context.Context) (*ep, error) {
	x.stats.bindCount.Add(1)
	c, err := x.cfg.Net.Dial(ctx, x.cfg.Addr, stream.DialOptions{Resv: x.cfg.Resv})
	if err != nil {
		return nil, err
	}
	x.seedXIDs(c.LocalAddr())
	x.traceEvent("connected to %s from %s", x.cfg.Addr, c.LocalAddr())
	return newEP(x, c), nil
}

// seedXIDs gives every slot a random generation to start with, once.
func (x *Xprt) seedXIDs(local string) {
	if x.seeded {
		return
	}
	x.seeded = true
	rng := clnt.XIDs(x.s, "xprttcp xid "+local)
	for i := range x.reqs {
		x.reqs[i].xid += rng.Uint32() << x.xidBits
	}
}

// checkCalls ends the connection if a call had no reply for Config.Timeout.
func (x *Xprt) checkCalls(now uint32) (busy bool) {
	var late *ep
	for i := range x.reqs {
		q := &x.reqs[i]
		q.mu.Lock()
		waits := q.state != idle && q.state != lost && !q.got
		e := q.ep
		q.mu.Unlock()
		if !waits {
			continue
		}
		busy = true
		if clnt.Late(now, q.tick.Load()) && e == x.link.Load() {
			q.timedOut.Store(true)
			x.stats.timeouts.Add(1)
			late = e
		}
	}
	if late != nil {
		late.Disconnect(clnt.ErrTimedOut)
	}
	return busy && !x.link.Closed()
}

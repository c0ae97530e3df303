package xprttcp

import (
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
	"example.org/nfsrdma/internal/xprt/stream"
)

// connectTimeout bounds one attempt.
const connectTimeout = 60 * sched.Second

// Connect makes the first connection. It tries once.
func (x *Xprt) Connect(ctx context.Context) error {
	if err := x.connLock.Lock(ctx); err != nil {
		return err
	}
	defer x.connLock.Unlock()
	return x.attempt(ctx)
}

// ready gives a connection that works, making one if need be. A soft mount gives up after Retrans attempts more.
func (x *Xprt) ready(ctx context.Context) (*ep, error) {
	if e := x.ep.Load(); e != nil && !e.dead.Load() {
		return e, nil
	}
	since := x.fails.Load()
	if err := x.connLock.Lock(ctx); err != nil {
		return nil, x.closedErr(err)
	}
	defer x.connLock.Unlock()
	for {
		if x.closed.Load() {
			return nil, clnt.ErrClosed
		}
		if e := x.ep.Load(); e != nil && !e.dead.Load() {
			return e, nil
		}
		if n := x.fails.Load() - since; x.cfg.Soft && int(n) > x.cfg.Retrans {
			return nil, fmt.Errorf("%w: %d attempts to connect failed, the last: %w", clnt.ErrTimedOut, n, x.lastErr)
		}
		err := x.attempt(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, clnt.ErrClosed) || sched.Ended(err):
			return nil, err
		}
	}
}

// attempt makes a connection and publishes it. Called with connLock.
func (x *Xprt) attempt(ctx context.Context) error {
	ctx, cancel := x.s.WithCancel(ctx)
	defer cancel()
	x.setStop(cancel)
	defer x.setStop(nil)
	if x.closed.Load() {
		return clnt.ErrClosed
	}
	start := x.s.Now()
	if old := x.ep.Load(); old != nil {
		if err := old.teardown(); err != nil {
			return err
		}
		if x.backoff > 0 || !old.valid.Load() {
			x.backoff = min(max(2*x.backoff, x.cfg.ReconnectMin), x.cfg.ReconnectMax)
			if err := x.s.Sleep(ctx, x.backoff); err != nil {
				return x.closedErr(err)
			}
		}
	}
	x.stats.bindCount.Add(1)
	tctx, stop := x.s.WithTimeout(ctx, connectTimeout)
	defer stop()
	c, err := x.cfg.Net.Dial(tctx, x.cfg.Addr, stream.DialOptions{Resv: x.cfg.Resv})
	if err != nil {
		x.fails.Add(1)
		x.lastErr = err
		x.backoff = max(x.backoff, x.cfg.ReconnectMin/2)
		x.traceEvent("connect failed: %v", err)
		return x.closedErr(fmt.Errorf("connect to %s: %w", x.cfg.Addr, err))
	}
	x.seedXIDs(c.LocalAddr())
	x.backoff, x.lastErr = 0, nil
	x.stats.connectCount.Add(1)
	x.stats.connectTime.Add(uint64(x.s.Now().Sub(start)))
	x.traceEvent("connected to %s from %s", x.cfg.Addr, c.LocalAddr())
	e := newEP(x, c)
	x.ep.Store(e)
	if x.closed.Load() {
		e.disconnect(clnt.ErrClosed)
		return clnt.ErrClosed
	}
	return nil
}

// setStop keeps what ends the attempt to connect that runs.
func (x *Xprt) setStop(f context.CancelFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stop = f
}

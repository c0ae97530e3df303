package xprtrdma

import (
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/sched"
)

// Connect makes the first connection. It tries once.
func (x *Xprt) Connect(ctx context.Context) error {
	if err := x.connLock.Lock(ctx); err != nil {
		return err
	}
	defer x.connLock.Unlock()
	return x.attempt(ctx)
}

// connectTimeout bounds one attempt (RPCRDMA_BIND_TO).
const connectTimeout = 60 * sched.Second

// attempt makes a connection and publishes it. Called with connLock.
func (x *Xprt) attempt(ctx context.Context) error {
	ctx, cancel := x.s.WithCancel(ctx)
	defer cancel()
	x.mu.Lock()
	x.stop = cancel
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.stop = nil
		x.mu.Unlock()
	}()
	if x.closed.Load() {
		return ErrClosed
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
	tctx, stop := x.s.WithTimeout(ctx, connectTimeout)
	defer stop()
	e, err := x.connect(tctx)
	if err != nil {
		x.fails.Add(1)
		x.lastErr = err
		x.backoff = max(x.backoff, x.cfg.ReconnectMin/2)
		x.traceEvent("connect failed: %v", err)
		return x.closedErr(fmt.Errorf("connect to %s: %w", x.cfg.Addr, err))
	}
	x.backoff, x.lastErr = 0, nil
	x.stats.connectCount.Add(1)
	x.stats.connectTime.Add(uint64(x.s.Now().Sub(start)))
	x.traceEvent("connected to %s: inline %d/%d, remote invalidation %t, IRD %d, ORD %d",
		x.cfg.Addr, e.inlineSend, e.inlineRecv, e.remoteInv, e.ird, e.ord)
	x.ep.Store(e)
	if x.closed.Load() {
		e.disconnect(ErrClosed)
		return ErrClosed
	}
	x.recv.flush(e)
	return nil
}

// ready gives a connection that works, making one if need be. A soft mount gives up after
// Retrans attempts more.
func (x *Xprt) ready(ctx context.Context, q *Req) (*ep, error) {
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
			return nil, ErrClosed
		}
		if e := x.ep.Load(); e != nil && !e.dead.Load() {
			return e, nil
		}
		if n := x.fails.Load() - since; x.cfg.Soft && int(n) > x.cfg.Retrans {
			return nil, fmt.Errorf("%w: %d attempts to connect failed, the last: %w", ErrTimedOut, n, x.lastErr)
		}
		err := x.attempt(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, ErrClosed) || sched.Ended(err) {
			return nil, err
		}
	}
}

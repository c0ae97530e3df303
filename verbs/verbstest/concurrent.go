package verbstest

import (
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var concurrentChecks = []Check{
	{Name: "concurrent/posters-on-one-queue-pair", Run: concurrentPosters},
	{Name: "concurrent/pollers-on-one-queue", Run: concurrentPollers},
	{Name: "concurrent/connects", Run: concurrentConnects},
	{Name: "concurrent/registering-beside-traffic", Run: concurrentRegister},
	{Name: "concurrent/disconnect-beside-posting", Run: concurrentDisconnect},
	{Name: "concurrent/close-beside-traffic", Run: concurrentClose},
	{Name: "concurrent/deregister-beside-writes", Needs: []Need{needAcked}, Run: concurrentDeregister},
}

const (
	posters = 8
	rounds  = 40
)

// nap lets others run, where time is virtual; it may be called from a task.
func (t *T) nap() error { return t.Sched.Sleep(context.Background(), 10*sched.Microsecond) }

// concurrentPosters: each task posts and waits for its own completions, which one more task hands out.
func concurrentPosters(t *T) {
	c, s := t.connect(opts{}, opts{})
	const n = 600
	src, dst := c.filled(posters*n, 0), s.mem(posters*n, remoteRW)
	var boxes [posters]*sched.Queue[verbs.WC]
	for i := range boxes {
		boxes[i] = sched.NewQueue[verbs.WC](t.Sched, "a completion")
	}
	hand := t.start("poller", func() error {
		for range posters * rounds {
			wc, err := t.await(c.scq)
			if err != nil {
				return err
			}
			boxes[wc.ID/1000].Push(wc)
		}
		return nil
	})
	var jobs []*job
	for i := range posters {
		jobs = append(jobs, t.start(fmt.Sprint("poster ", i), func() error {
			ctx, cancel := t.within(patience)
			defer cancel()
			for r := range rounds {
				id := uint64(i*1000 + r)
				_, err := c.qp.PostSend([]verbs.SendWR{{ID: id, Op: verbs.OpRDMAWrite, Flags: verbs.Signaled,
					SGEs: []verbs.SGE{src.at(i*n, n)}, RemoteAddr: dst.addr() + uint64(i*n), RKey: dst.mr.RKey()}})
				if err != nil {
					return err
				}
				wc, err := boxes[i].Pop(ctx)
				if err != nil {
					return err
				}
				if wc.ID != id || wc.Status != verbs.Success {
					return fmt.Errorf("completion %d %v, not %d", wc.ID, wc.Status, id)
				}
			}
			return nil
		}))
	}
	for _, j := range append(jobs, hand) {
		require.NoError(t, j.wait(), j.name)
	}
	dst.wantBytes(src.bytes(), "WRITEs of many tasks")
}

// concurrentPollers: each completion goes to one of those who poll.
func concurrentPollers(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(8, 0), s.mem(8, remoteRW)
	const all = 300
	seen := sched.NewQueue[uint64](t.Sched, "a completion")
	left := t.Sched.NewSem("a completion to come", all)
	var jobs []*job
	for i := range 3 {
		jobs = append(jobs, t.start(fmt.Sprint("poller ", i), func() error {
			wc := make([]verbs.WC, 1+i)
			for left.Free() > 0 {
				n, err := c.scq.Poll(wc)
				if err != nil {
					return err
				}
				for _, w := range wc[:n] {
					if w.Status != verbs.Success {
						return &verbs.WCError{Status: w.Status, Op: w.Op}
					}
					left.TryAcquire(1)
					seen.Push(w.ID)
				}
				if n == 0 {
					if err := t.nap(); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	for posted := 0; posted < all; {
		wr := writeTo(src, dst)
		wr.ID, wr.Flags = uint64(posted), verbs.Signaled
		_, err := c.qp.PostSend([]verbs.SendWR{wr})
		switch {
		case err == nil:
			posted++
		case errors.Is(err, verbs.ErrQueueFull):
			t.sleep(20 * sched.Microsecond)
		default:
			t.must(err, "PostSend")
		}
		if posted%32 == 0 { // no more at once than the completion queue holds
			t.sleep(100 * sched.Microsecond)
		}
	}
	for _, j := range jobs {
		require.NoError(t, j.wait(), j.name)
	}
	got := map[uint64]bool{}
	for id, ok := seen.TryPop(); ok; id, ok = seen.TryPop() {
		require.False(t, got[id], "completion %d twice", id)
		got[id] = true
	}
	require.Len(t, got, all)
}

func concurrentConnects(t *T) {
	l := t.listen()
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	var cs, ss []*side
	var jobs []*job
	ctx, cancel := t.within(patience)
	defer cancel()
	for i := range posters {
		c := t.newSide(fmt.Sprint("client ", i), t.Client, opts{pd: cpd})
		s := t.newSide(fmt.Sprint("server ", i), t.Server, opts{pd: spd})
		cs, ss = append(cs, c), append(ss, s)
		jobs = append(jobs, t.start("accept", func() error { return s.accept(ctx, l) }),
			t.start("connect", func() error { return c.connect(ctx, l.Addr()) }))
	}
	for _, j := range jobs {
		require.NoError(t, j.wait(), j.name)
	}
	// Which client met which server is not known: each server has one message.
	dst := make([]*mem, posters)
	ids := make([]uint64, posters)
	for i, s := range ss {
		dst[i] = s.mem(8, verbs.LocalWrite)
		ids[i] = s.postRecv(dst[i].sge())
	}
	want := map[string]bool{}
	for _, c := range cs {
		if c.attr.Transport == verbs.IWARP {
			c.do(verbs.SendWR{Op: verbs.OpSend}) // into the receive of the first message
		}
		src := c.filled(8, 0)
		want[string(src.bytes())] = true
		c.do(sendOf(src))
	}
	for i, s := range ss {
		if s.attr.Transport == verbs.IWARP {
			s.wantMessage(helloID, 0)
		}
		s.wantMessage(ids[i], 8)
		require.True(t, want[string(dst[i].bytes())], "a message twice, or of nobody")
		delete(want, string(dst[i].bytes()))
	}
}

// concurrentRegister makes and closes regions while others are in use.
func concurrentRegister(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(5000, 0), s.mem(5000, remoteRW)
	var jobs []*job
	for i := range 4 {
		jobs = append(jobs, t.start(fmt.Sprint("registrar ", i), func() error {
			for range rounds {
				mr, err := s.pd.AllocMR(5000, remoteRW)
				if err != nil {
					return err
				}
				if err := mr.Close(); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for i := range rounds {
		src.fill(uint64(i))
		c.do(writeTo(src, dst))
		dst.wantBytes(src.bytes(), "WRITE while others register")
	}
	for _, j := range jobs {
		require.NoError(t, j.wait(), j.name)
	}
}

// concurrentDisconnect posts until the end of the connection shows: all that was taken has one completion.
func concurrentDisconnect(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(5000, 0), s.mem(5000, remoteRW)
	taken := 0
	poster := t.start("poster", func() error {
		flushed := 0
		for next := 0; next < taken || flushed == 0; {
			wr := writeTo(src, dst)
			wr.ID, wr.Flags = uint64(taken), verbs.Signaled
			if _, err := c.qp.PostSend([]verbs.SendWR{wr}); err != nil {
				return err
			}
			taken++
			for next < taken {
				wc, err := t.await(c.scq)
				if err != nil {
					return err
				}
				if wc.ID != uint64(next) {
					return fmt.Errorf("completion %d, not %d", wc.ID, next)
				}
				next++
				if wc.Status != verbs.Success {
					flushed++
				}
			}
			if flushed == 0 {
				if err := t.nap(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	t.sleep(2 * sched.Millisecond)
	require.NoError(t, s.id.Disconnect())
	require.NoError(t, poster.wait())
	c.wantCM(verbs.CMDisconnected)
	t.settle()
	c.wantEmpty(c.scq, "each work request has one completion")
	require.Greater(t, taken, 0)
}

// concurrentClose closes the responder's queue pair and connection in the middle of the initiator's traffic.
func concurrentClose(t *T) {
	c, s := t.connect(opts{conn: fewRetries}, opts{conn: fewRetries})
	src, dst := c.filled(5000, 0), s.mem(5000, remoteRW)
	poster := t.start("poster", func() error {
		for i := uint64(0); ; i++ {
			wr := writeTo(src, dst)
			wr.ID, wr.Flags = i, verbs.Signaled
			if _, err := c.qp.PostSend([]verbs.SendWR{wr}); err != nil {
				return err
			}
			wc, err := t.await(c.scq)
			if err != nil {
				return err
			}
			if wc.Status != verbs.Success {
				return nil
			}
			if err := t.nap(); err != nil {
				return err
			}
		}
	})
	t.sleep(2 * sched.Millisecond)
	t.close(s.qp)
	t.close(s.id)
	require.NoError(t, poster.wait())
	c.wantDown()
}

// concurrentDeregister takes memory back while a peer writes to it: after Close
// has returned, nothing lands any more.
func concurrentDeregister(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := 20 * c.attr.ActiveMTU
	src, dst := c.filled(n, 0), s.mem(n, remoteRW)
	buf := dst.bytes()
	wr := writeTo(src, dst)
	poster := t.start("poster", func() error {
		for i := uint64(0); ; i++ {
			wr.ID, wr.Flags = i, verbs.Signaled
			if _, err := c.qp.PostSend([]verbs.SendWR{wr}); err != nil {
				return err
			}
			wc, err := t.await(c.scq)
			if err != nil {
				return err
			}
			if wc.Status != verbs.Success {
				if wc.Status != verbs.RemAccessErr {
					return &verbs.WCError{Status: wc.Status, Op: wr.Op}
				}
				return nil
			}
			if err := t.nap(); err != nil {
				return err
			}
		}
	})
	t.sleep(2 * sched.Millisecond)
	t.close(dst.mr)
	clear(buf)
	require.NoError(t, poster.wait())
	wantSame(t, make([]byte, n), buf, "memory that was taken back")
}

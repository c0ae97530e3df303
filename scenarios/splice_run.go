package scenarios

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/tcpsim"
)

// spliceCell is one run.
type spliceCell struct {
	policy splicePolicy
	mtu    int
	more   bool // SPLICE_F_MORE
	sndbuf int  // 0: the default
	window int  // 0: the default
	pipe   int
	total  int // length given to splice
	stream int // bytes that are there to be sent
	nagle  bool

	page, segment, readByte, delack float64 // factors on the constants; 0: 1
}

// spliceRun is what it gave.
type spliceRun struct {
	rate     float64 // MB/s that arrived, the tail that never does and the wait for it left out
	unpushed float64 // bytes queued and not handed to the wire when splice returned for the last time
	stuck    float64 // likewise, a second later
	segment  float64 // mean size, bytes
	delayed  float64 // acknowledgements by the timer
}

func (c spliceCell) label() map[string]string {
	m := map[string]string{"policy": c.policy.name, "mtu": strconv.Itoa(c.mtu), "pipe": strconv.Itoa(c.pipe), "more": "no"}
	if c.more {
		m["more"] = "yes"
	}
	if c.sndbuf != 0 {
		m["sndbuf"] = strconv.Itoa(c.sndbuf)
	}
	if c.window != 0 {
		m["window"] = strconv.Itoa(c.window)
	}
	if c.total != spliceTotal {
		m["length"] = strconv.Itoa(c.total)
	}
	if c.stream == c.pipe {
		m["stream"] = "1 pipe"
	}
	if c.nagle {
		m["nagle"] = "yes"
	}
	for _, x := range []struct {
		name string
		by   float64
	}{{"t_page", c.page}, {"t_segment", c.segment}, {"t_read", c.readByte}, {"delack", c.delack}} {
		if x.by != 0 {
			m[x.name] = "x" + number(x.by)
		}
	}
	return m
}

func (c spliceCell) config() tcpsim.Config {
	ps := func(v int, by float64) int { return int(float64(v) * factor(by)) }
	return tcpsim.Config{
		MTU: c.mtu, SndBuf: c.sndbuf, Window: c.window, Push: c.policy.push, Nagle: c.nagle,
		DelayedAck: scaled(40*time.Millisecond, c.delack),
		PagePS:     ps(splicePage, c.page), PushPS: ps(splicePush, c.page), SegmentPS: ps(spliceSegment, c.segment),
		ReadSegmentPS: ps(spliceReadSegment, c.segment), ReadBytePS: ps(spliceReadByte, c.readByte),
	}
}

// run sends c.stream bytes, a pipe at a time.
func (c spliceCell) run(ctx context.Context, seed uint64) (out spliceRun, err error) {
	s := sched.NewVirtual(seed)
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			err = fmt.Errorf("scenarios: splice %v: %w", c.label(), err)
		}
	}()
	conn, err := tcpsim.New(s, c.config())
	if err != nil {
		return out, err
	}
	got, end := 0, sched.Time(0)
	s.Go("reader", func() {
		for {
			n, err := conn.Receive(ctx)
			if err != nil {
				return
			}
			got += n
			end = s.Now()
		}
	})
	for left, total := c.stream, c.total; left > 0; {
		n := min(left, c.pipe)
		if err := conn.Splice(ctx, n, total, c.more); err != nil {
			return out, err
		}
		left -= n
		if total -= n; total <= 0 {
			total = c.total // the next call of splice
		}
	}
	out.unpushed = float64(conn.Unpushed())
	if err := s.Sleep(ctx, sched.Second); err != nil {
		return out, err
	}
	out.stuck = float64(conn.Unpushed())
	if end > 0 {
		out.rate = float64(got) / sched.Duration(end).Seconds() / fabric.MBps
	}
	st := conn.Stats()
	if st.Segments > 0 {
		out.segment = float64(st.Bytes) / float64(st.Segments)
	}
	out.delayed = float64(st.DelayedAcks)
	return out, nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"example.org/nfsrdma/nfsserver"
)

// status prints what a server does.
type status struct {
	out      io.Writer
	terminal bool
	srv      *nfsserver.Server
	start    time.Time
	last     sample
	printed  string
}

// sample is what was counted until a time.
type sample struct {
	at                          time.Time
	calls, read, write, refused uint64
}

func newStatus(out *lineWriter, srv *nfsserver.Server) *status {
	s := &status{out: out, srv: srv, terminal: isTerminal(out)}
	s.start = time.Now()
	s.last = s.sample(s.start)
	return s
}

// lineWriter is for several goroutines, each of which writes whole lines.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func newLineWriter(w io.Writer) *lineWriter { return &lineWriter{w: w} }

func (l *lineWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func isTerminal(l *lineWriter) bool {
	f, ok := l.w.(*os.File)
	if !ok {
		return false
	}
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0
}

func (s *status) sample(at time.Time) sample {
	st := s.srv.Stats()
	m := sample{at: at, read: st.ReadBytes, write: st.WriteBytes, calls: st.Mount}
	for _, n := range st.Procs {
		m.calls += n
	}
	r, t := &st.Transport, &st.TCP
	m.refused = st.GarbageArgs + st.RPCMismatch + st.AuthError + st.ProgMismatch + st.ProcUnavail + st.BadReadChunk + st.BadHandle +
		r.Short + r.BadVers + r.BadHeader + r.MSGP + r.Done + r.RDMAError + r.BadXID + r.BadChunk + r.Reverse + r.NoRoom +
		t.TooLong + t.Fragments + t.Truncated + t.Stalled + t.Short + t.Reverse
	return m
}

// run prints a line each interval until ctx ends: over the last one on a terminal, else only when there is something
// new.
func (s *status) run(ctx context.Context, interval time.Duration) {
	if interval <= 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if s.terminal {
				fmt.Fprintln(s.out)
			}
			return
		case t := <-tick.C:
			s.line(t)
		}
	}
}

func (s *status) line(at time.Time) {
	m := s.sample(at)
	d := max(m.at.Sub(s.last.at).Seconds(), 1e-9)
	conns := map[string]int{}
	for _, c := range s.srv.Connections() {
		conns[c.Proto]++
	}
	line := fmt.Sprintf("calls/s %.0f  read %.1f MB/s  write %.1f MB/s  connections %d rdma %d tcp  errors %d",
		float64(m.calls-s.last.calls)/d, mbps(m.read-s.last.read, d), mbps(m.write-s.last.write, d),
		conns["rdma"], conns["tcp"], m.refused)
	s.last = m
	switch {
	case s.terminal:
		fmt.Fprintf(s.out, "\r\x1b[K%s", line)
	case line != s.printed:
		fmt.Fprintln(s.out, line)
	}
	s.printed = line
}

func mbps(n uint64, seconds float64) float64 { return float64(n) / 1e6 / seconds }

// total prints what was done in all.
func (s *status) total() {
	m := s.sample(time.Now())
	fmt.Fprintf(s.out, "served %d calls in %v: %.1f MB read, %.1f MB written, %d errors\n",
		m.calls, m.at.Sub(s.start).Round(time.Millisecond), float64(m.read)/1e6, float64(m.write)/1e6, m.refused)
}

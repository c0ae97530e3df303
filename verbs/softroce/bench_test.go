package softroce

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/verbs"
)

// warm is a pair and the work requests of one operation each.
type warm struct {
	*pair
	send  [1]verbs.SendWR
	recv  [1]verbs.RecvWR
	wc    [2]verbs.WC
	fast  verbs.FastRegMR
	pages verbs.DMAMap
	buf   []byte
}

func newWarm(tb testing.TB, c pairConfig) *warm {
	tb.Helper()
	if c.size == 0 {
		c.size = 2 << 20
	}
	w := &warm{pair: newTestPair(tb, c), buf: make([]byte, 4*verbs.PageSize)}
	w.recv[0].SGEs = w.b.sge(0, 4096)
	var err error
	w.fast, err = w.a.pd.AllocFastRegMR(4)
	require.NoError(tb, err)
	require.NoError(tb, w.a.pd.MapDMA(&w.pages, w.buf))
	return w
}

func (w *warm) close() {
	w.a.pd.UnmapDMA(&w.pages)
	require.NoError(w.tb, w.fast.Close())
	w.pair.close()
}

// await takes one completion.
func (w *warm) await(e *end) {
	for {
		n, err := e.cq.Poll(w.wc[:1])
		if err != nil || n == 1 && w.wc[0].Status != verbs.Success {
			require.Fail(w.tb, "a completion failed", "%v %v", err, w.wc[0].Status)
		}
		if n == 1 {
			return
		}
		if !e.cq.Arm(false) {
			if err := e.cq.Wait(bg); err != nil {
				require.NoError(w.tb, err)
			}
		}
	}
}

func (w *warm) post() {
	if n, err := w.a.qp.PostSend(w.send[:]); n != 1 {
		require.NoError(w.tb, err)
	}
}

func (w *warm) opSend() {
	if _, err := w.b.qp.PostRecv(w.recv[:]); err != nil {
		require.NoError(w.tb, err)
	}
	w.post()
	w.await(&w.a)
	w.await(&w.b)
}

func (w *warm) opRDMA() {
	w.post()
	w.await(&w.a)
}

func (w *warm) opRegister() {
	w.fast.MapPages(w.pages.Segs)
	key := w.fast.NextKey()
	w.send[0] = verbs.SendWR{Op: verbs.OpRegMR, Reg: w.fast, Key: key, Access: allRights}
	w.post()
	w.send[0] = verbs.SendWR{Op: verbs.OpLocalInv, InvKey: key, Flags: verbs.Signaled}
	w.opRDMA()
}

func (w *warm) opMap() {
	w.a.pd.UnmapDMA(&w.pages)
	if err := w.a.pd.MapDMA(&w.pages, w.buf); err != nil {
		require.NoError(w.tb, err)
	}
}

// ops are what is measured; prepare comes before, once.
func (w *warm) ops() map[string]func() {
	return map[string]func(){
		"SEND":     func() { w.send[0] = w.a.send(1, 0, 100); w.recv[0].SGEs = w.b.sge(0, 4096) },
		"WRITE4K":  func() { w.send[0] = w.a.write(&w.b, 1, 0, 4096, 0) },
		"READ4K":   func() { w.send[0] = w.a.read(&w.b, 1, 0, 4096, 0) },
		"WRITE1M":  func() { w.send[0] = w.a.write(&w.b, 1, 0, 1<<20, 0) },
		"READ1M":   func() { w.send[0] = w.a.read(&w.b, 1, 0, 1<<20, 0) },
		"REGISTER": func() {},
		"MAP":      func() {},
	}
}

func (w *warm) run(op string) func() {
	w.ops()[op]()
	switch op {
	case "SEND":
		return w.opSend
	case "REGISTER":
		return w.opRegister
	case "MAP":
		return w.opMap
	}
	return w.opRDMA
}

func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// bench measures op, in CPU time too: others may use the machine.
func bench(b *testing.B, c pairConfig, op string, bytes int64) {
	w := newWarm(b, c)
	defer w.close()
	f := w.run(op)
	for range 100 {
		f()
	}
	b.SetBytes(bytes)
	b.ReportAllocs()
	cpu := cpuTime(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
}

// Each operation with its completion, live on a direct wire: the caller runs both engines.
func BenchmarkDirect(b *testing.B) {
	for _, x := range []struct {
		op    string
		bytes int64
	}{{"WRITE4K", 4096}, {"READ4K", 4096}, {"SEND", 100}, {"WRITE1M", 1 << 20}, {"READ1M", 1 << 20}, {"REGISTER", 0}, {"MAP", 4 * verbs.PageSize}} {
		b.Run(x.op, func(b *testing.B) { bench(b, pairConfig{live: true}, x.op, x.bytes) })
	}
}

// The same in virtual time on a link: events, timers and packets one by one.
func BenchmarkVirtualLink(b *testing.B) {
	l := link.RoCE100G
	for _, x := range []struct {
		op    string
		bytes int64
	}{{"WRITE4K", 4096}, {"READ4K", 4096}, {"SEND", 100}, {"WRITE1M", 1 << 20}, {"READ1M", 1 << 20}} {
		b.Run(x.op, func(b *testing.B) { bench(b, pairConfig{link: &l}, x.op, x.bytes) })
	}
}

// One more packet of a long message on a link in virtual time, less its data: a message of 4096 packets.
func BenchmarkVirtualPacket(b *testing.B) {
	const n = 4096
	w := newWarm(b, pairConfig{link: &link.Config{BitsPerSecond: 100e9, MTU: 256}})
	defer w.close()
	w.send[0] = w.a.write(&w.b, 1, 0, n*256, 0)
	w.opRDMA()
	cpu := cpuTime(b)
	for b.Loop() {
		w.opRDMA()
	}
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N)/n, "cpu-ns/packet")
}

// A message there and one back.
func BenchmarkPing(b *testing.B) {
	for name, c := range map[string]pairConfig{"direct": {live: true}, "virtual": {link: &link.RoCE100G}} {
		b.Run(name, func(b *testing.B) {
			w := newWarm(b, c)
			defer w.close()
			there, back := w.a.send(1, 0, 64), w.b.send(2, 0, 64)
			ra, rb := [1]verbs.RecvWR{{SGEs: w.a.sge(4096, 64)}}, [1]verbs.RecvWR{{SGEs: w.b.sge(4096, 64)}}
			post := func(e *end, wr *verbs.SendWR) {
				w.send[0] = *wr
				if _, err := e.qp.PostSend(w.send[:]); err != nil {
					require.NoError(b, err)
				}
			}
			cpu := cpuTime(b)
			for b.Loop() {
				_, _ = w.a.qp.PostRecv(ra[:])
				_, _ = w.b.qp.PostRecv(rb[:])
				post(&w.a, &there)
				w.await(&w.b)
				post(&w.b, &back)
				w.await(&w.a)
				w.await(&w.a)
				w.await(&w.b)
			}
			b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
		})
	}
}

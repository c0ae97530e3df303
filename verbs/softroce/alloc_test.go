//go:build !race

package softroce

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// TestNoAllocation: once warm, nothing on the way of data allocates.
func TestNoAllocation(t *testing.T) {
	for _, live := range []bool{false, true} {
		for _, l := range []bool{false, true} {
			c := pairConfig{live: live, depth: 512}
			if l {
				c.link = micro()
			}
			w := newWarm(t, c)
			for op := range w.ops() {
				f := w.run(op)
				for range 600 { // all entries of the send queue
					f()
				}
				assert.Zero(t, testing.AllocsPerRun(200, f), fmt.Sprintf("%s, live %v, link %v", op, live, l))
			}
			w.close()
		}
	}
}

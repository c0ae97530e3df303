package xprtrdma

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// modeCase is a mode on a device that gives it one of its forms.
type modeCase struct {
	mode      RegMode
	on        softroce.Personality
	form      string
	wrs       bool // work requests or binds fence
	remoteInv bool
}

func (m modeCase) String() string { return m.mode.String() + m.form }

func (m modeCase) use(c *rigConfig) {
	c.personality, c.cfg.Mode = m.on, m.mode
}

var modeCases = []modeCase{
	{FastReg, softroce.RoCE, "", true, true},
	{AllPhysical, softroce.RoCE, "", false, false},
	{Bounce, softroce.RoCE, "", false, false},
	{Register, softroce.RoCE, "", false, false},
	{MemWindow, softroce.RoCE, " type 2B", true, true},
	{MemWindow, softroce.MT25208, " type 1", true, false},
	{MemWindowAsync, softroce.RoCE, " type 2B", true, true},
	{MemWindowAsync, softroce.MT25208, " type 1", true, false},
	{FMR, softroce.RoCE, "", false, false},
}

// chunkCases are those with chunks.
var chunkCases = append(append([]modeCase(nil), modeCases[:2]...), modeCases[3:]...)

// Each mode moves data of any size at any alignment both ways, in the segments that it makes; what a call returned
// is of no use to the peer afterwards, and buffers are used again at once.
func TestModesMoveData(t *testing.T) {
	const segs, page = 16, verbs.PageSize
	for _, mode := range chunkCases {
		t.Run(mode.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 1))
			inv := false
			var last *call
			r := newRig(t, mode.use, withConfig(func(c *Config) { c.PinBytes = 40_000 }), serve(func(k *call) {
				last = k
				h := k.answer()
				for i := range h.Writes.Len() {
					c := h.Writes.Chunk(i)
					k.store(c, pattern(int(rpcrdma.ChunkLen(c)), 9))
				}
				if len(k.hdr.Reads) > 0 {
					n := int(rpcrdma.ReadChunkLen(k.hdr.Reads))
					assert.True(t, bytes.Equal(pattern(n, 7), k.fetch(uint32(len(k.msg)))), "a Read chunk of %d bytes", n)
				}
				key := uint32(0)
				if inv && mode.remoteInv {
					key = k.aKey()
				}
				k.send(h, success(h.XID, okBody), key)
			}))
			area := make([]byte, (2*segs+2)*page)
			for i := range 120 {
				inv = i%2 == 0
				n := 4200 + rng.IntN(segs*page-4200) // not inline
				if i%10 == 0 {
					n = segs * page
				}
				off := rng.IntN(page)
				c := callSpec{}
				if kind := i % 3; kind == 0 {
					c.data = area[off : off+n]
					copy(c.data, pattern(n, 7))
				} else {
					c.sink = area[off : off+n]
					clear(area)
				}
				r.mustDo(c)
				if c.sink != nil {
					require.True(t, bytes.Equal(pattern(n, 9), c.sink), "a sink of %d bytes at %d", n, off)
					assert.Zero(t, bytes.Trim(area[:off], "\x00"))
					assert.Zero(t, bytes.Trim(area[off+n:], "\x00"))
				}
				read, write := segsOf(last)
				assert.Len(t, append(read, write...), mode.segments(n), "segments of %d bytes", n)
				if i%8 == 7 && mode.mode != AllPhysical {
					r.settle() // what is not awaited happens
					r.wantPeerShutOut(last, c.sink)
				}
			}
		})
	}
}

// segments is how many of them n bytes from a page's start make with 16 data segments.
func (m modeCase) segments(n int) int {
	if m.mode == AllPhysical || m.form == " type 1" {
		return pagesOf(n)
	}
	return 1
}

// What calls cost is counted, and waited for where it is modelled.
func TestRegistrationIsCounted(t *testing.T) {
	for _, c := range []struct {
		mode modeCase
		want map[string]int // after two WRITEs and a READ of three pages in the same two buffers
	}{
		{modeCases[0], map[string]int{"registrations": 3, "invalidations": 3, "pages_registered": 9, "mw_binds": 0, "local_inv_needed": 3}},
		{modeCases[1], map[string]int{"registrations": 0, "invalidations": 0, "pages_registered": 0, "mw_binds": 0, "local_inv_needed": 0}},
		{modeCases[3], map[string]int{"registrations": 3, "invalidations": 3, "pages_registered": 9, "mw_binds": 0, "local_inv_needed": 0}},
		{modeCases[4], map[string]int{"registrations": 2, "invalidations": 3, "pages_registered": 6, "mw_binds": 3, "local_inv_needed": 3}},
		{modeCases[5], map[string]int{"registrations": 2, "invalidations": 9, "pages_registered": 6, "mw_binds": 9, "local_inv_needed": 3}},
		{modeCases[6], map[string]int{"registrations": 2, "invalidations": 3, "pages_registered": 6, "mw_binds": 3, "local_inv_needed": 3}},
		{modeCases[8], map[string]int{"registrations": 3, "invalidations": 3, "pages_registered": 9, "mw_binds": 0, "local_inv_needed": 0}},
	} {
		t.Run(c.mode.String(), func(t *testing.T) {
			cost := RegCost{Op: sched.Microsecond, Page: 10 * sched.Nanosecond, Invalidate: 300 * sched.Nanosecond}
			r := newRig(t, c.mode.use, withConfig(func(c *Config) { c.RegCost, c.PinBytes = cost, 1<<20 }))
			r.mustDo(callSpec{})
			t0 := r.s.Now()
			in, out := make([]byte, 3*verbs.PageSize), make([]byte, 3*verbs.PageSize)
			r.mustDo(callSpec{data: out})
			r.mustDo(callSpec{data: out})
			r.mustDo(callSpec{sink: in})
			for name, want := range c.want {
				r.wantCounter(name, want)
			}
			ns := 1000*(c.want["registrations"]+c.want["mw_binds"]) + 10*c.want["pages_registered"] + 300*c.want["invalidations"]
			r.wantCounter("registration_ns", ns)
			assert.Equal(t, sched.Duration(ns)*sched.Nanosecond, r.s.Now().Sub(t0), "the wire takes no time")
		})
	}
}

// A device that lacks a mode says so; Auto takes the best that there is, and ModeFallback what Linux did.
func TestModesOfDevices(t *testing.T) {
	without := func(caps verbs.Cap) softroce.Personality {
		p := softroce.RoCE
		p.Attr.Caps &^= caps
		return p
	}
	const windows = verbs.CapMemWindow1 | verbs.CapMemWindow2B
	for _, c := range []struct {
		on       softroce.Personality
		asked    RegMode
		fallback bool
		want     RegMode // Auto: an error
	}{
		{softroce.RoCE, Auto, false, FastReg},
		{softroce.T310, Auto, false, FastReg},
		{without(verbs.CapMemMgtExtensions), Auto, false, MemWindow},
		{without(verbs.CapMemMgtExtensions | verbs.CapMemWindow2B), Auto, false, Register},
		{without(verbs.CapMemMgtExtensions | windows), Auto, false, Register},
		{without(verbs.CapMemMgtExtensions), FastReg, false, Auto},
		{without(verbs.CapMemMgtExtensions), FastReg, true, FMR},
		{without(verbs.CapMemMgtExtensions | verbs.CapFMR), FastReg, true, AllPhysical},
		{without(verbs.CapMemMgtExtensions | verbs.CapFMR | verbs.CapGlobalKey), FastReg, true, Register},
		{without(windows), MemWindow, false, Auto},
		{without(windows), MemWindow, true, Register},
		{without(windows), MemWindowAsync, true, Register},
		{without(verbs.CapMemWindow2B), MemWindow, false, MemWindow},
		{softroce.T310, FMR, false, Auto},
		{softroce.T310, FMR, true, AllPhysical},
		{without(verbs.CapGlobalKey), AllPhysical, false, Auto},
		{without(verbs.CapGlobalKey), AllPhysical, true, Register},
	} {
		s := sched.NewVirtual(1)
		net := softroce.NewNetwork(s, softroce.NetConfig{})
		dev, err := net.NewDevice("hca0", c.on)
		require.NoError(t, err)
		x, err := New(Config{Sched: s, Device: dev, Addr: serverAddr, Mode: c.asked, ModeFallback: c.fallback,
			MaxDataSegs: 16, Credits: 4, InlineSend: 4096, InlineRecv: 4096})
		if c.want == Auto {
			assert.ErrorIs(t, err, verbs.ErrUnsupported)
			assert.ErrorContains(t, err, fmt.Sprintf("registration mode %v on hca0: ", c.asked))
		} else if assert.NoError(t, err, "%v", c.asked) {
			assert.Equal(t, c.want, x.Mode(), "%v on %#x", c.asked, c.on.Attr.Caps)
			assert.NoError(t, x.Close())
		}
		assert.Equal(t, verbs.Resources{}, dev.Resources())
		require.NoError(t, dev.Close())
		require.NoError(t, net.Close())
		require.NoError(t, s.Close())
	}
}

// Calls wait in line for regions and windows that the device has no more of, and a call that needs more than there
// are is an error that says so.
func TestDeviceLimitsWaitInLine(t *testing.T) {
	for _, mode := range chunkCases {
		if mode.mode == AllPhysical || mode.mode == FastReg {
			continue
		}
		for _, live := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v live=%t", mode, live), func(t *testing.T) {
				mode.on.Attr.MaxMR = 3 // two are the transport's own buffers
				mode.on.Attr.MaxMW = 1
				if mode.form == " type 1" {
					mode.on.Attr.MaxMW = 4
				}
				var mu sync.Mutex
				served := map[uint32]int{}
				r := newRig(t, mode.use, func(c *rigConfig) { c.live = live; c.cfg.PinBytes = 1 << 20 }, serve(func(k *call) {
					mu.Lock()
					served[k.hdr.XID]++
					mu.Unlock()
					k.reply()
				}))
				// The device gives the peer the same limits: its memory is one region.
				r.mustDo(callSpec{})
				var calls []*pendingCall
				sinks := make([][]byte, 40)
				for i := range sinks {
					sinks[i] = make([]byte, 9000)
					calls = append(calls, r.goDo(bg, callSpec{sink: sinks[i]}))
				}
				for i, c := range calls {
					require.NoError(t, c.wait())
					assert.True(t, bytes.Equal(pattern(9000, sinks[i][0]), sinks[i]))
				}
				assert.Len(t, served, 41)
				r.wantCounter("connect_count", 1)
				r.wantCounter("retransmissions", 0)
				_, err := r.do(bg, callSpec{sink: make([]byte, 9000), data: make([]byte, 9000)})
				assert.ErrorIs(t, err, verbs.ErrNoResources)
				ctx, cancel := context.WithCancel(bg)
				cancel()
				_, err = r.do(ctx, callSpec{sink: make([]byte, 9000)})
				assert.ErrorIs(t, err, context.Canceled)
				r.mustDo(callSpec{sink: make([]byte, 9000)})
			})
		}
	}
}

// A call in line that gives up leaves the line to the others.
func TestLineIsLeft(t *testing.T) {
	p := softroce.RoCE
	p.Attr.MaxMR = 3
	h := &holder{}
	r := newRig(t, modeCase{mode: Register, on: p}.use, serve(h.serve))
	r.open(h, 8)
	a := r.goDo(bg, callSpec{sink: make([]byte, 9000)})
	r.settle()
	ctx, cancel := r.s.WithCancel(bg)
	b := r.goDo(ctx, callSpec{sink: make([]byte, 9000)})
	r.settle()
	c, d := r.goDo(bg, callSpec{data: make([]byte, 9000)}), r.goDo(bg, callSpec{sink: make([]byte, 9000)})
	r.settle()
	require.Equal(t, 1, h.len())
	cancel()
	assert.ErrorIs(t, b.wait(), context.Canceled)
	for range 3 {
		require.Equal(t, 1, h.len())
		h.release(t, 8)
		r.settle()
	}
	for _, p := range []*pendingCall{a, c, d} {
		assert.NoError(t, p.wait())
	}
}

// The cache of registrations keeps what was used last, within its bytes; what covers a buffer serves it.
func TestPinCache(t *testing.T) {
	r := newRig(t, modeCases[4].use, withConfig(func(c *Config) { c.PinBytes = 5 * 9000 }))
	bufs := make([][]byte, 8)
	for i := range bufs {
		bufs[i] = make([]byte, 9000)
		r.mustDo(callSpec{sink: bufs[i]})
	}
	r.wantCounter("registrations", 8)
	for i := 3; i < 8; i++ {
		r.mustDo(callSpec{data: bufs[i][:8000]})
		r.mustDo(callSpec{sink: bufs[i][500:]})
	}
	r.wantCounter("registrations", 8)
	r.mustDo(callSpec{sink: bufs[0]})
	r.wantCounter("registrations", 9)
	r.mustDo(callSpec{sink: bufs[3]}) // had to go
	r.wantCounter("registrations", 10)
	r.mustDo(callSpec{sink: bufs[0]})
	r.wantCounter("registrations", 10)
	c := &r.x.reg.(*windows).pins
	assert.LessOrEqual(t, c.bytes, 5*9000)
	assert.Equal(t, len(c.sorted), c.count)
	assert.Equal(t, 2+len(c.sorted), r.cdev.Resources().MR)
	// A new connection finds the device free of what is not in use.
	r.x.Disconnect()
	r.mustDo(callSpec{})
	assert.Equal(t, 2, r.cdev.Resources().MR)
	r.wantCounter("invalidations", 21+10) // a window each call, and what was registered
}

// One buffer in many calls at once is registered once, and stays for as long as one of them runs.
func TestPinsAreShared(t *testing.T) {
	h := &holder{}
	r := newRig(t, modeCases[4].use, serve(h.serve))
	r.open(h, 8)
	buf := pattern(9000, 7)
	var calls []*pendingCall
	for range 5 {
		calls = append(calls, r.goDo(bg, callSpec{data: buf}))
	}
	r.settle()
	require.Equal(t, 5, h.len())
	r.wantCounter("registrations", 1)
	for range 5 {
		assert.Equal(t, 3, r.cdev.Resources().MR)
		h.release(t, 8)
		r.settle()
	}
	for _, c := range calls {
		assert.NoError(t, c.wait())
	}
	assert.Equal(t, 2, r.cdev.Resources().MR, "nothing idle is kept here")
}

// Windows of a connection that ended do not work on the next one.
func TestWindowsEndWithTheirConnection(t *testing.T) {
	for _, mode := range modeCases[4:8] {
		t.Run(mode.String(), func(t *testing.T) {
			h := &holder{}
			r := newRig(t, mode.use, serve(h.serve))
			r.open(h, 8)
			sink := make([]byte, 9000)
			p := r.goDo(bg, callSpec{sink: sink})
			r.settle()
			_, old := segsOf(h.held[0])
			h.held = nil
			r.peer.dropAll()
			r.settle()
			require.Equal(t, 1, h.len())
			k := h.held[0]
			b, sge := k.c.bulk()
			clear(b[:64])
			sge.Length = 64
			before := bytes.Clone(sink)
			assert.Error(t, k.rdma(verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{sge}, RemoteAddr: old[0].Offset, RKey: old[0].Handle}))
			assert.Equal(t, before, sink)
			h.held = nil
			r.sleep(20 * second)
			h.release(t, 8)
			assert.NoError(t, p.wait())
			assert.Positive(t, r.x.Counters().Get("mrs_recycled"))
		})
	}
}

// An unbinding that nobody waited for may not have happened when the connection ends: the window goes.
func TestLooseWindowsAreClosed(t *testing.T) {
	for _, mode := range modeCases[6:8] {
		r := newRig(t, mode.use)
		r.mustDo(callSpec{sink: make([]byte, 9000)})
		n := r.x.Counters().Get("mrs_allocated")
		r.x.Disconnect()
		r.mustDo(callSpec{sink: make([]byte, 9000)})
		assert.Equal(t, n, r.x.Counters().Get("mrs_recycled"), "%v", mode)
		assert.Equal(t, 2*n, r.x.Counters().Get("mrs_allocated"), "%v", mode)
	}
}

// A queue pair is destroyed only when no window is bound through it: a device may not allow that.
func TestQueuePairOutlivesItsWindows(t *testing.T) {
	for _, mode := range modeCases[4:8] {
		t.Run(mode.String(), func(t *testing.T) {
			d := &faultDevice{}
			h := &holder{}
			r := newRig(t, mode.use, withFaults(d), serve(h.serve))
			r.open(h, 8)
			closed := 0
			d.onClose = func() {
				closed++
				for i := range r.x.reqs {
					for _, g := range r.x.reqs[i].regs {
						assert.False(t, g.valid, "slot %d", i)
					}
				}
			}
			var calls []*pendingCall
			for range 3 {
				calls = append(calls, r.goDo(bg, callSpec{}), r.goDo(bg, callSpec{sink: make([]byte, 9000)}))
			}
			r.settle()
			require.Equal(t, 6, h.len())
			h.held = nil
			r.peer.dropAll()
			r.settle()
			assert.Equal(t, 1, closed)
			for range 6 {
				h.release(t, 8)
				r.settle()
			}
			for _, c := range calls {
				assert.NoError(t, c.wait())
			}
		})
	}
}

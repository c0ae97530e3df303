package verbstest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
	"example.org/nfsrdma/verbs/verbstest"
	"github.com/stretchr/testify/require"
)

// broken lists faults, and checks that each must fail.
var broken = []struct {
	name   string
	f      fault
	caught []string
}{
	{"rights are ignored", fault{access: func(verbs.Access) verbs.Access {
		return verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite | verbs.MWBind
	}}, []string{"rights/write-without-remote-write", "rights/read-without-remote-read", "rights/recv-without-local-write",
		"rights/read-sink-without-local-write", "rights/remote-write-needs-local-write", "window1/region-without-mwbind"}},
	{"bounds are one too far", fault{
		region: func(_ *pd, buf []byte) []byte {
			if cap(buf) > len(buf) {
				return buf[:len(buf)+1]
			}
			return buf
		},
		mr: func(_ *pd, m verbs.MR, buf []byte) verbs.MR { return &longMR{m, buf} },
	}, []string{"bounds/write-one-past", "bounds/read-one-past", "bounds/write-straddles-end", "bounds/send-sge-one-past", "bounds/recv-sge-outside"}},
	{"keys live on after close", fault{
		mr: func(p *pd, m verbs.MR, _ []byte) verbs.MR { return &lastingMR{m, p} },
	}, []string{"stale/rkey-after-close-write", "stale/rkey-after-close-read", "stale/lkey-after-close", "stale/recv-buffer-after-close"}},
	{"fast memory regions stay mapped", fault{unmap: func(list []verbs.FMR) []verbs.FMR { return list[1:] }},
		[]string{"fmr/unmap", "fmr/unmap-several"}},
	{"completions come newest first", fault{poll: func(c *cq, wc []verbs.WC) (int, error) {
		var all [512]verbs.WC
		n, err := c.CQ.Poll(all[:])
		c.stash = append(c.stash, all[:n]...)
		k := 0
		for ; k < len(wc) && len(c.stash) > 0; k++ {
			wc[k] = c.stash[len(c.stash)-1]
			c.stash = c.stash[:len(c.stash)-1]
		}
		if k > 0 {
			err = nil
		}
		return k, err
	}}, []string{"order/completions", "order/receives", "flush/receives-in-order", "flush/sends-in-order"}},
	{"the status is another", fault{wc: func(w *verbs.WC) {
		if w.Status == verbs.RemAccessErr {
			w.Status = verbs.RemOpErr
		}
	}}, []string{"rights/write-without-remote-write", "bounds/read-one-past", "stale/guessed-keys", "fastreg/use-before-reg", "window2/wrong-qp"}},
	{"errors are successes", fault{wc: func(w *verbs.WC) { w.Status = verbs.Success }},
		[]string{"pd/send-lkey-of-another", "send/recv-too-small", "flush/posted-in-error", "rnr/no-retry", "retry/peer-queue-pair-gone"}},
	{"flushed work has no completions", fault{poll: func(c *cq, wc []verbs.WC) (int, error) {
		n, err := c.CQ.Poll(wc)
		k := 0
		for _, w := range wc[:n] {
			if w.Status != verbs.WRFlushErr {
				wc[k] = w
				k++
			}
		}
		return k, err
	}}, []string{"flush/sends-in-order", "flush/receives-in-order", "flush/on-disconnect"}},
	{"all sends are signaled", fault{init: func(q *verbs.QPInit) { q.SignalAll = true }},
		[]string{"signal/unsignaled-has-no-completion"}},
	{"no failure of unsignaled work", fault{poll: func(c *cq, wc []verbs.WC) (int, error) {
		n, err := c.CQ.Poll(wc)
		k := 0
		for _, w := range wc[:n] {
			if w.Status != verbs.LocProtErr {
				wc[k] = w
				k++
			}
		}
		return k, err
	}}, []string{"signal/unsignaled-failure-completes", "stale/lkey-after-close"}},
	{"no queue pair number", fault{wc: func(w *verbs.WC) { w.QPN = 0 }}, []string{"send/sizes", "cq/shared-by-queue-pairs"}},
	{"lengths are wrong", fault{wc: func(w *verbs.WC) { w.ByteLen++ }}, []string{"send/sizes", "read/sizes", "imm/write-consumes-a-receive"}},
	{"immediate data is lost", fault{wc: func(w *verbs.WC) { w.Imm = 0 }}, []string{"imm/send", "imm/write-consumes-a-receive", "imm/order-with-sends"}},
	{"a WRITE lands a byte off", fault{send: func(w *verbs.SendWR) {
		if w.Op == verbs.OpRDMAWrite {
			w.RemoteAddr--
		}
	}}, []string{"write/sizes", "bounds/write-exact", "integrity/mixed-one-direction"}},
	{"a READ comes short", fault{send: func(w *verbs.SendWR) {
		if w.Op == verbs.OpRDMARead && len(w.SGEs) > 0 && w.SGEs[0].Length > 0 {
			w.SGEs[0].Length--
		}
	}}, []string{"read/sizes", "read/1MiB", "integrity/mixed-both-directions"}},
	{"the fence is ignored", fault{send: func(w *verbs.SendWR) { w.Flags &^= verbs.Fence }},
		[]string{"order/fence-after-read"}},
	{"remote invalidation is ignored", fault{send: func(w *verbs.SendWR) {
		if w.Op == verbs.OpSendWithInv {
			w.Op = verbs.OpSend
		}
	}}, []string{"fastreg/send-with-inv", "fastreg/send-with-inv-then-use", "window2/send-with-inv"}},
	{"receives are taken last first", fault{recvs: slices.Reverse[[]verbs.RecvWR]}, []string{"order/receives"}},
	{"every message is solicited", fault{arm: func(bool) bool { return false }}, []string{"cq/solicited-only"}},
	{"the solicited flag is lost", fault{send: func(w *verbs.SendWR) { w.Flags &^= verbs.Solicited }}, []string{"cq/solicited-only"}},
	{"the handler is called twice", fault{handler: func(h func(verbs.CQ)) func(verbs.CQ) {
		return func(c verbs.CQ) { h(c); h(c) }
	}}, []string{"cq/handler-once-per-arm"}},
	{"the end is told twice", fault{cmEvent: func(f func(verbs.CMEventType), e verbs.CMEventType) { f(e); f(e) }},
		[]string{"cm/disconnect-by-initiator", "cm/disconnect-by-acceptor", "cm/disconnect-twice"}},
	{"the end is not told", fault{cmEvent: func(func(verbs.CMEventType), verbs.CMEventType) {}},
		[]string{"cm/disconnect-by-initiator", "cm/close-is-a-disconnect-to-the-peer"}},
	{"private data is cut", fault{conn: func(p *verbs.ConnParam) { p.PrivateData = p.PrivateData[:max(len(p.PrivateData), 1)-1] }},
		[]string{"cm/private-data", "cm/private-data-limits"}},
	{"depths are not negotiated", fault{negotiated: func(i *id) (int, int) { return i.wish.IRD, i.wish.ORD }},
		[]string{"cm/negotiated-depths", "readdepth/ord-above-ird"}},
	{"late receives are not waited for", fault{conn: func(p *verbs.ConnParam) { p.RNRRetry = 0 }},
		[]string{"rnr/receive-in-time", "rnr/infinite"}},
	{"the state is not told", fault{query: func(a *verbs.QPAttr) { a.State = verbs.RTS }},
		[]string{"state/of-a-connection", "rights/write-without-any", "cm/disconnect-by-both"}},
	{"regions leak", fault{resources: func(d *device, r *verbs.Resources) {
		d.mu.Lock()
		r.MR += d.regs
		d.mu.Unlock()
	}}, []string{"send/1MiB", "write/one-sided"}},
}

// stopped is what FailNow and Skipf of a recorder throw.
type stopped struct{}

// recorder is a TB that remembers.
type recorder struct {
	failed, skipped bool
	log             []string
}

func (r *recorder) Helper() {}
func (r *recorder) Logf(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}
func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.Logf(format, args...)
}
func (r *recorder) FailNow() {
	r.failed = true
	panic(stopped{})
}
func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = true
	r.Logf(format, args...)
	panic(stopped{})
}
func (r *recorder) Failed() bool { return r.failed }

// record runs a check on devices with a fault.
func record(t *testing.T, c verbstest.Check, f *fault) *recorder {
	t.Helper()
	return recordOn(t, softroce.RoCE, c, f)
}

func recordOn(t *testing.T, p softroce.Personality, c verbstest.Check, f *fault) *recorder {
	t.Helper()
	r := &recorder{}
	t.Run(c.Name, func(t *testing.T) {
		e := newBrokenEnv(t, p, f)
		defer func() {
			if p := recover(); p != nil && p != (stopped{}) {
				panic(p)
			}
		}()
		verbstest.RunCheck(r, c, e)
	})
	return r
}

func find(t *testing.T, name string) verbstest.Check {
	t.Helper()
	for _, c := range verbstest.Checks() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s", name)
	return verbstest.Check{}
}

// TestBrokenDevices: a check that cannot fail says nothing.
func TestBrokenDevices(t *testing.T) {
	for _, b := range broken {
		t.Run(strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for _, name := range b.caught {
				r := record(t, find(t, name), &b.f)
				require.False(t, r.skipped, "%s was skipped: %q", name, r.log)
				require.True(t, r.failed, "%s passes although %s", name, b.name)
			}
		})
	}
}

// TestDecorator: what the decorators catch is the fault, not the decorator.
func TestDecorator(t *testing.T) {
	for _, c := range verbstest.Checks() {
		r := record(t, c, &fault{})
		require.False(t, r.failed, "%s: %s", c.Name, strings.Join(r.log, "\n"))
	}
}

// TestCheckNames: names are unique, and of the form theme/property.
func TestCheckNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range verbstest.Checks() {
		require.False(t, seen[c.Name], "%s twice", c.Name)
		seen[c.Name] = true
		require.Regexp(t, `^[a-z0-9]+/[a-zA-Z0-9-]+$`, c.Name)
	}
	require.GreaterOrEqual(t, len(seen), 250)
}

// newBrokenEnv leaves what a stopped check did not close to the garbage collector.
func newBrokenEnv(t *testing.T, p softroce.Personality, f *fault) *verbstest.Env {
	t.Helper()
	e := newEnvOf(t, network{personality: p})
	e.Client, e.Server = wrap(e.Client, f), wrap(e.Server, f)
	inner := e.DeviceAddr
	e.DeviceAddr = func(d verbs.Device) string { return inner(d.(*device).Device) }
	return e
}

package softroce

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

var rewrite = flag.Bool("rewrite", false, "write the traces of this run into testdata")

// TestStories runs testdata/*.txt: comments, commands, and after "----" up to an empty line
// the packets and completions that come of them, with their times.
//
//	connect [direct] [KNOB=N | a.KNOB=N | b.KNOB=N]...   a new pair; see story.knob
//	recv|send|write|read SIDE ID BYTES [OPTION]...       see story.request
//	reg|inv SIDE ID [OPTION]...                          REG_MR, LOCAL_INV
//	lose|double|hold N KIND [PSN]                        the next N packets; hold delays them by 20 us
//	modify SIDE STATE, dereg SIDE, wait DURATION, counters SIDE NAME...
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { tellFile(t, f) })
	}
}

func tellFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var out strings.Builder
	st := &story{t: t}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		script, want, _ := strings.Cut(part, "\n----")
		script = strings.TrimSpace(script)
		got := st.tell(script)
		if !*rewrite {
			assert.Equal(t, strings.TrimSpace(want), got, "%s: after\n%s", file, script)
		}
		fmt.Fprintf(&out, "%s\n", script)
		if got != "" {
			fmt.Fprintf(&out, "----\n%s\n", got)
		}
		out.WriteString("\n")
	}
	st.end()
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(strings.TrimSpace(out.String())+"\n"), 0o644))
	}
}

// story is a pair whose packets and completions are written down.
type story struct {
	t      *testing.T
	p      *pair
	lines  []string
	faults []*wireFault
	fast   [2]verbs.FastRegMR
	dma    [2]verbs.DMAMap
}

// wireFault happens to the next n packets that match.
type wireFault struct {
	what string
	n    int
	kind string
	psn  int // -1: any
}

// tell runs commands, and returns what was written down.
func (st *story) tell(script string) string {
	st.lines = nil
	for line := range strings.SplitSeq(script, "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			st.command(f)
		}
	}
	return strings.Join(st.lines, "\n")
}

func (st *story) logf(format string, args ...any) {
	st.lines = append(st.lines, fmt.Sprintf("%v %s", st.p.s.Now(), fmt.Sprintf(format, args...)))
}

func (st *story) command(f []string) {
	t := st.t
	t.Helper()
	switch cmd, args := f[0], f[1:]; cmd {
	case "connect":
		st.end()
		st.connect(args)
	case "recv":
		e := st.side(args[0])
		st.p.recv(e, uint64(number(t, args[1])), 0, number(t, args[2]))
	case "send", "write", "read", "reg", "inv":
		st.request(cmd, args)
	case "lose", "double", "hold":
		x := &wireFault{what: cmd, n: number(t, args[0]), kind: args[1], psn: -1}
		if len(args) > 2 {
			x.psn = number(t, args[2])
		}
		require.Contains(t, kindNames, x.kind)
		st.faults = append(st.faults, x)
	case "modify":
		to := map[string]verbs.QPState{"RESET": verbs.Reset, "RTS": verbs.RTS, "SQD": verbs.SQD, "ERR": verbs.Error}[args[1]]
		require.NoError(t, st.side(args[0]).qp.Modify(verbs.QPAttr{State: to}))
	case "dereg":
		require.NoError(t, st.side(args[0]).mr.Close())
	case "wait":
		d, err := time.ParseDuration(args[0])
		require.NoError(t, err)
		st.p.settle(sched.FromStd(d))
		for _, x := range st.faults {
			require.Zero(t, x.n, "%s %s did not happen", x.what, x.kind)
		}
		st.faults = nil
	case "counters":
		for _, name := range args[1:] {
			found := false
			for _, c := range st.side(args[0]).dev.Counters() {
				if c.Name == name {
					found = true
					st.lines = append(st.lines, fmt.Sprintf("%s %s=%d", args[0], name, c.Value))
				}
			}
			require.True(t, found, name)
		}
	default:
		t.Fatalf("no command %q", cmd)
	}
}

func (st *story) side(name string) *end {
	if name == "a" {
		return &st.p.a
	}
	require.Equal(st.t, "b", name)
	return &st.p.b
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// knob sets what a queue pair is connected with; psn is that of its first request.
func (st *story) knob(name string, v int, own, peer *verbs.QPAttr) {
	switch name {
	case "mtu":
		own.PathMTU = v
	case "psn":
		own.SQPSN, peer.RQPSN = uint32(v), uint32(v)
	case "ird":
		own.IRD = v
	case "ord":
		own.ORD = v
	case "timeout":
		own.Timeout = uint8(v)
	case "retry":
		own.RetryCnt = uint8(v)
	case "rnr":
		own.RNRRetry = uint8(v)
	case "minrnr":
		own.MinRNR = uint8(v)
	default:
		st.t.Fatalf("no knob %q", name)
	}
}

func (st *story) connect(args []string) {
	c := pairConfig{link: micro(), size: 1 << 18}
	c.trace = func(line string) { st.lines = append(st.lines, st.named(line)) }
	c.raw = func(a, b *verbs.QPAttr) {
		for _, x := range args {
			name, v, ok := strings.Cut(x, "=")
			if !ok {
				continue
			}
			side, name2, one := strings.Cut(name, ".")
			if one {
				name = name2
			}
			if !one || side == "a" {
				st.knob(name, number(st.t, v), a, b)
			}
			if !one || side == "b" {
				st.knob(name, number(st.t, v), b, a)
			}
		}
	}
	for _, x := range args {
		if x == "direct" {
			c.link = nil
		}
	}
	c.alloc = func(p *pair) { st.p = p }
	c.events = func(e *end) func(verbs.CQ) { return func(cq verbs.CQ) { st.completions(e, cq) } }
	newTestPair(st.t, c)
	st.p.net.tap = st.tap
	for i, e := range []*end{&st.p.a, &st.p.b} {
		e.cq.Arm(false)
		e.dev.OnEvent(func(ev verbs.AsyncEvent) { st.logf("%s: event %v", e.dev.name, ev.Type) })
		var err error
		st.fast[i], err = e.pd.AllocFastRegMR(1)
		require.NoError(st.t, err)
		require.NoError(st.t, e.pd.MapDMA(&st.dma[i], make([]byte, 4096)))
	}
}

func (st *story) end() {
	if st.p == nil {
		return
	}
	for i, e := range []*end{&st.p.a, &st.p.b} {
		require.NoError(st.t, st.fast[i].Close())
		e.pd.UnmapDMA(&st.dma[i])
	}
	st.p.close()
	st.p = nil
}

// completions writes down what a side's queue holds.
func (st *story) completions(e *end, cq verbs.CQ) {
	var wc [8]verbs.WC
	for {
		n, err := cq.Poll(wc[:])
		require.NoError(st.t, err)
		for _, w := range wc[:n] {
			s := fmt.Sprintf("%s: %d %v %v", e.dev.name, w.ID, w.Op, w.Status)
			if w.ByteLen > 0 {
				s += fmt.Sprintf(", %d bytes", w.ByteLen)
			}
			if w.Flags&verbs.WCWithImm != 0 {
				s += fmt.Sprintf(", imm %#x", w.Imm)
			}
			if w.Flags&verbs.WCWithInv != 0 {
				s += ", invalidated"
			}
			st.logf("%s", s)
		}
		if n == 0 && !cq.Arm(false) {
			return
		}
	}
}

var hexes = regexp.MustCompile(`(va|rkey|inv) (0x[0-9a-f]+)`)

// named replaces addresses and keys, which the seed deals out.
func (st *story) named(line string) string {
	return hexes.ReplaceAllStringFunc(line, func(s string) string {
		what, hex, _ := strings.Cut(s, " ")
		v, err := strconv.ParseUint(hex, 0, 64)
		require.NoError(st.t, err)
		for i, e := range []*end{&st.p.a, &st.p.b} {
			switch off := v - e.mr.Addr(); {
			case what == "va" && off <= uint64(e.mr.Len()):
				return fmt.Sprintf("va %s+%d", e.dev.name, off)
			case what != "va" && uint32(v) == e.mr.RKey():
				return fmt.Sprintf("%s %s", what, e.dev.name)
			case what != "va" && st.fast[i] != nil && uint32(v) == st.fast[i].RKey():
				return fmt.Sprintf("%s %s.fast", what, e.dev.name)
			}
		}
		return what + " unknown"
	})
}

func (st *story) tap(k *packet) bool {
	for _, x := range st.faults {
		if x.n == 0 || x.kind != kindNames[k.kind] || x.psn >= 0 && uint32(x.psn) != k.psn {
			continue
		}
		x.n--
		st.note(k, x.what)
		switch x.what {
		case "double":
			st.p.later(k, sched.Microsecond)
			return true
		case "hold":
			st.p.later(k, 21*sched.Microsecond)
		}
		return false
	}
	return true
}

// note adds what happens to a packet to its line.
func (st *story) note(k *packet, what string) {
	line := st.named(fmt.Sprintf("%v %v", st.p.s.Now(), k))
	for i := range st.lines {
		if st.lines[i] == line {
			st.lines[i] += " (" + what + ")"
			return
		}
	}
	st.t.Fatalf("no line %q", line)
}

// request posts a send work request. Options: unsignaled, solicited, fence, inline, imm, inv (of the
// peer's fast registration), at=N (address off by N), key (unknown to the peer), lkey (unknown).
func (st *story) request(cmd string, args []string) {
	t := st.t
	e := st.side(args[0])
	peer, i := &st.p.b, 0
	if e == peer {
		peer, i = &st.p.a, 1
	}
	n, opts := 0, args[2:]
	if cmd != "reg" && cmd != "inv" {
		n, opts = number(t, args[2]), args[3:]
	}
	wr := e.write(peer, uint64(number(t, args[1])), 0, n, 0)
	switch cmd {
	case "send":
		wr.Op = verbs.OpSend
	case "read":
		wr.Op = verbs.OpRDMARead
	case "reg":
		require.Equal(t, 1, st.fast[i].MapPages(st.dma[i].Segs))
		wr = verbs.SendWR{ID: wr.ID, Op: verbs.OpRegMR, Flags: wr.Flags, Reg: st.fast[i], Key: st.fast[i].NextKey(), Access: allRights}
	case "inv":
		wr = verbs.SendWR{ID: wr.ID, Op: verbs.OpLocalInv, Flags: wr.Flags, InvKey: st.fast[i].RKey()}
	}
	for _, o := range opts {
		switch o, v, _ := strings.Cut(o, "="); o {
		case "unsignaled":
			wr.Flags &^= verbs.Signaled
		case "solicited":
			wr.Flags |= verbs.Solicited
		case "fence":
			wr.Flags |= verbs.Fence
		case "inline":
			wr.Flags |= verbs.Inline
			wr.SGEs, wr.Data = nil, make([]byte, n)
		case "imm":
			wr.Op, wr.Imm = wr.Op+1, 0xabc
		case "inv":
			wr.Op, wr.InvKey = verbs.OpSendWithInv, st.fast[1-i].RKey()
		case "at":
			wr.RemoteAddr += uint64(number(t, v))
		case "key":
			wr.RKey ^= 1
		case "lkey":
			wr.SGEs[0].LKey ^= 1
		default:
			t.Fatalf("no option %q", o)
		}
	}
	st.p.post(e, wr)
}

// The harness notices what it is there to notice.
func TestStoryOfItself(t *testing.T) {
	st := &story{t: t}
	got := st.tell("# nothing\nconnect\nlose 1 SEND\nrecv b 1 10\nsend a 2 5\nwait 10ms")
	assert.Equal(t, []string{
		"0s a->b SEND only psn 100 payload 5 ack (lose)",
		"1.048576ms a->b SEND only psn 100 payload 5 ack",
		"1.049576ms b->a ACK psn 100",
		"1.049576ms b: 1 RECV success, 5 bytes",
		"1.050576ms a: 2 SEND success",
	}, strings.Split(got, "\n"))
	st.end()
}

package softroce

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Each message of connection management is lost, doubled or late, and the connection comes about all the same.
func TestCMTap(t *testing.T) {
	for _, l := range []*link.Config{nil, {Delay: 10 * time.Microsecond}} {
		for _, kind := range []string{"REQ", "REP", "RTU", "DREQ"} {
			for name, c := range map[string]struct {
				fate  Fate
				takes sched.Duration
			}{
				"drop":    {Fate{Drop: true}, sched.FromStd(cmTimeout)},
				"corrupt": {Fate{Corrupt: true}, sched.FromStd(cmTimeout)},
				"copies":  {Fate{Copies: 3}, 0},
				"delay":   {Fate{Copies: 1, Delay: time.Millisecond}, sched.Millisecond},
			} {
				p := newCMPair(t, l)
				var seen []string
				hit := false
				p.net.cfg.CMTap = func(k PacketInfo) Fate {
					seen = append(seen, k.From+">"+k.To+" "+k.Kind)
					if hit || k.Kind != kind {
						return Fate{}
					}
					hit = true
					return c.fate
				}
				began := p.s.Now()
				p.accept(bg, nil)
				p.connect(bg)
				p.wait()
				require.NoError(t, errors.Join(p.a.err, p.b.err))
				require.NoError(t, p.a.id.Disconnect())
				for len(p.b.events) == 0 {
					require.NoError(t, p.s.Sleep(bg, 100*sched.Microsecond))
				}
				took := p.s.Now().Sub(began)
				require.NoError(t, p.s.Sleep(bg, sched.Second))
				assert.Equal(t, []verbs.CMEventType{verbs.CMDisconnected}, p.b.events, "%s %s", name, kind)
				assert.True(t, hit)
				assert.GreaterOrEqual(t, took, c.takes, "%s %s", name, kind)
				assert.Less(t, took, c.takes+sched.Millisecond, "%s %s", name, kind)
				assert.Subset(t, seen, []string{"a>b REQ", "b>a REP", "a>b RTU", "a>b DREQ"})
				p.close()
			}
		}
	}
}

// What is lost again and again ends both sides.
func TestCMTapGivesUp(t *testing.T) {
	for _, kind := range []string{"REQ", "REP", "RTU"} {
		p := newCMPair(t, nil)
		p.net.cfg.CMTap = func(k PacketInfo) Fate { return Fate{Drop: k.Kind == kind} }
		ctx, cancel := p.s.WithTimeout(bg, sched.FromStd(20*cmTimeout))
		p.accept(ctx, nil)
		p.connect(ctx)
		p.wait()
		cancel()
		switch kind {
		case "REQ":
			assert.ErrorIs(t, p.a.err, verbs.ErrUnreachable)
		default:
			assert.ErrorIs(t, p.b.err, verbs.ErrDisconnected, kind)
			if kind == "RTU" {
				require.NoError(t, p.s.Sleep(bg, sched.Second))
				assert.True(t, p.a.err != nil || slices.Contains(p.a.events, verbs.CMDisconnected), kind)
			}
		}
		p.close()
	}
}

// A device that is back takes connections again, with memory that it knew before.
func TestPlug(t *testing.T) {
	p := newCMPair(t, nil)
	mr, err := p.a.pd.AllocMR(100, verbs.LocalWrite)
	require.NoError(t, err)
	p.a.dev.Remove()
	_, err = p.a.dev.Resolve(bg, "b:1")
	require.ErrorIs(t, err, verbs.ErrClosed)
	p.a.dev.Plug()
	p.a.closeID(t)
	p.a.id, err = p.a.dev.Resolve(bg, "b:1")
	require.NoError(t, err)
	p.a.createQP(t)
	p.accept(bg, nil)
	p.connect(bg)
	p.wait()
	require.NoError(t, errors.Join(p.a.err, p.b.err))
	_, err = p.a.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend, SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 100, LKey: mr.LKey()}}}})
	require.NoError(t, err)
	require.NoError(t, mr.Close())
	p.close()
}

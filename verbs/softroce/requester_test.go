package softroce

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/verbs"
)

// No more than the window is on its way, be it one message or many.
func TestWindow(t *testing.T) {
	for name, c := range map[string]pairConfig{
		"link":   {link: &link.Config{Delay: time.Microsecond}},
		"direct": {},
	} {
		t.Run(name, func(t *testing.T) {
			const n = (window + 100) * 256
			c.raw = func(a, b *verbs.QPAttr) { a.PathMTU, b.PathMTU = 256, 256 }
			c.size = n
			p := newTestPair(t, c)
			defer p.close()
			p.fill(&p.a)
			most := 0
			p.net.tap = func(k *packet) bool {
				if k.kind == pkWrite {
					most = max(most, int(psnDiff(k.psn, p.b.q().rcvPSN)))
				}
				return true
			}
			p.post(&p.a, p.a.write(&p.b, 1, 0, n, 0))
			p.want(&p.a, 1, verbs.OpRDMAWrite, verbs.Success)
			require.True(t, string(p.a.mr.Bytes()) == string(p.b.mr.Bytes()))
			assert.Equal(t, window, most)
			clear(p.b.mr.Bytes())
			most = 0
			for i := range uint64(3) {
				p.post(&p.a, p.a.write(&p.b, i, 0, n/3, int(i)*n/3))
			}
			for i := range uint64(3) {
				p.want(&p.a, i, verbs.OpRDMAWrite, verbs.Success)
			}
			assert.LessOrEqual(t, most, window)
		})
	}
}

// Unsignaled work frees its entries without a completion, also of a queue of one.
func TestUnsignaled(t *testing.T) {
	for _, depth := range []int{1, 2, 3, 64} {
		p := newTestPair(t, pairConfig{depth: depth})
		wr := p.a.write(&p.b, 1, 0, 10, 0)
		wr.Flags = 0
		for range 300 {
			p.post(&p.a, wr)
		}
		p.none(&p.a)
		p.post(&p.a, p.a.write(&p.b, 2, 0, 10, 0))
		p.want(&p.a, 2, verbs.OpRDMAWrite, verbs.Success)
		p.close()
	}
}

// On a direct wire nothing is sent twice, whoever runs the engines.
func TestDirectNeverRepeats(t *testing.T) {
	p := newTestPair(t, pairConfig{live: true})
	defer p.close()
	g := p.s.NewGroup("both directions")
	for _, x := range [][2]*end{{&p.a, &p.b}, {&p.b, &p.a}} {
		e, peer := x[0], x[1]
		g.Go(e.dev.name, func() {
			for i := range uint64(1500) {
				p.post(e, e.read(peer, 2*i, 2000, 64, 0))
				p.post(e, e.write(peer, 2*i+1, 1000, 64, 3000))
				p.want(e, 2*i, verbs.OpRDMARead, verbs.Success)
				p.want(e, 2*i+1, verbs.OpRDMAWrite, verbs.Success)
			}
		})
	}
	require.NoError(t, g.Wait(bg))
	for _, e := range []*end{&p.a, &p.b} {
		for _, c := range e.dev.Counters() {
			switch c.Name {
			case "retransmits", "duplicate_request", "local_ack_timeout_err":
				assert.Zero(t, c.Value, c.Name)
			}
		}
	}
}

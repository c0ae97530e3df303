package softroce

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/verbs"
)

// Each fate of a packet, on a direct wire and on a link, is survived and counted by who sees it.
func TestTap(t *testing.T) {
	for _, l := range []*link.Config{nil, {BitsPerSecond: 10e9, Delay: time.Microsecond}} {
		for name, c := range map[string]struct {
			fate     Fate
			onA, onB string // counter that shows it
			atLeast  uint64
		}{
			"drop":      {fate: Fate{Drop: true}, onA: "local_ack_timeout_err", atLeast: 1},
			"corrupt":   {fate: Fate{Corrupt: true}, onB: "icrc_err", atLeast: 1},
			"copies":    {fate: Fate{Copies: 2}, onB: "duplicate_request", atLeast: 2},
			"not ready": {fate: Fate{NotReady: true}, onB: "send_rnr_err", atLeast: 1},
			"delay":     {fate: Fate{Delay: 10 * time.Microsecond}, onB: "rdma_recvs", atLeast: 1},
		} {
			t.Run(name, func(t *testing.T) {
				p := newTestPair(t, pairConfig{link: l, param: verbs.ConnParam{RetryCnt: 7, RNRRetry: 7}, accept: verbs.ConnParam{RetryCnt: 7, RNRRetry: 7}})
				defer p.close()
				hit := false
				p.net.cfg.Tap = func(k PacketInfo) Fate {
					if hit || k.Kind != "SEND" {
						return Fate{}
					}
					hit = true
					assert.Equal(t, PacketInfo{From: "a", To: "b", Kind: "SEND", PSN: k.PSN, Payload: 100, First: true, Last: true}, k)
					return c.fate
				}
				p.recv(&p.b, 7, 0, 200)
				p.post(&p.a, verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled, SGEs: p.a.sge(0, 100)})
				p.want(&p.a, 1, verbs.OpSend, verbs.Success)
				p.want(&p.b, 7, verbs.OpRecv, verbs.Success)
				require.True(t, hit)
				p.settle(1 << 40)
				dev, counter := p.b.dev, c.onB
				if c.onA != "" {
					dev, counter = p.a.dev, c.onA
				}
				var got uint64
				for _, x := range dev.Counters() {
					if x.Name == counter {
						got = x.Value
					}
				}
				assert.GreaterOrEqual(t, got, c.atLeast, counter)
			})
		}
	}
}

// A queue that overflows by hand fails its queue pairs, as one that is full does.
func TestOverflow(t *testing.T) {
	p := newTestPair(t, pairConfig{})
	defer p.close()
	p.a.cq.(*cq).Overflow()
	p.a.cq.(*cq).Overflow() // again: nothing
	var wc [1]verbs.WC
	_, err := p.a.cq.Poll(wc[:])
	assert.ErrorIs(t, err, verbs.ErrCQOverflow)
	assert.Equal(t, verbs.Error, p.a.qp.Query().State)
}

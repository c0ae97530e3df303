package softroce

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// NetConfig describes a network. The zero value is a direct wire.
type NetConfig struct {
	// Link is the wire between each two devices, one pipe each way; nil is a
	// direct wire, which takes no time.
	Link *link.Config
	// Trace, if not nil, gets a line for each packet that is sent. It must not wait.
	Trace func(string)
	// Tap, if not nil, decides on each packet that is sent. It must not wait nor use the network. Live, it
	// may be called by several goroutines at once.
	Tap func(PacketInfo) Fate
	// CMTap, if not nil, decides likewise on each message of connection management: its kind is one of CMKinds, and it
	// has no PSN. A lost one is sent again after 4.3 s, 15 times at most.
	CMTap func(PacketInfo) Fate
}

// Network joins the devices of one process. Its owner closes it after its devices.
type Network struct {
	s   *sched.Sched
	own bool // s is
	cfg NetConfig
	sec sections
	tap func(*packet) bool // of tests: sees each packet that is sent, false loses it

	landed []*flying // in virtual time: for the next packets

	mu      sync.Mutex
	rng     *rand.Rand
	devices map[string]*Device
	pipes   map[pipeKey]*link.Pipe
	qpns    map[uint32]*qp // of all devices: numbers are unique in the network
	cm      cmTable
}

type pipeKey struct{ from, to *Device }

// NewNetwork makes a network without devices. A nil s is live, and the network's own.
func NewNetwork(s *sched.Sched, cfg NetConfig) *Network {
	own := s == nil
	if own {
		s = sched.NewLive(1)
	}
	return &Network{
		s: s, own: own, sec: sections{live: !s.Virtual()}, cfg: cfg, rng: s.Rand("softroce"), devices: map[string]*Device{},
		pipes: map[pipeKey]*link.Pipe{}, qpns: map[uint32]*qp{}, cm: cmTable{listeners: map[string]*listener{}},
	}
}

// NewDevice adds a device; "name:port" is an address on it.
func (n *Network) NewDevice(name string, p Personality) (*Device, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.devices[name] != nil {
		return nil, fmt.Errorf("softroce: device %q: %w", name, verbs.ErrAddrInUse)
	}
	seed := n.rng.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	d := &Device{
		net: n, name: name, attr: p.Attr, rng: rng,
		nextAddr: 0x7f00_0000_0000 + uint64(rng.Uint32N(1<<20))<<pageShift,
	}
	if l := n.cfg.Link; l != nil && l.MTU > 0 {
		d.attr.ActiveMTU = min(d.attr.ActiveMTU, l.MTU)
	}
	d.dma.mu = n.lock()
	d.dma.base = 1<<32 + uint64(rng.Uint32N(1<<16))<<pageShift
	d.dma.rng = rand.New(rand.NewPCG(seed, 2))
	n.devices[name] = d
	return d, nil
}

// Close fails if a device is still open, and drops packets in flight. It ends a
// scheduler of the network's own with the last device.
func (n *Network) Close() error {
	n.mu.Lock()
	open := slices.Collect(maps.Values(n.devices))
	pipes := slices.Collect(maps.Values(n.pipes))
	n.mu.Unlock()
	var errs []error
	for _, d := range open {
		errs = append(errs, fmt.Errorf("softroce: device %s is open: %+v: %w", d.name, d.Resources(), verbs.ErrBusy))
	}
	for _, p := range pipes {
		p.Close()
	}
	if n.own && len(errs) == 0 {
		return n.s.Close()
	}
	return errors.Join(errs...)
}

// LinkStats are those of the pipe from one device to another.
func (n *Network) LinkStats(from, to string) link.Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pipes[pipeKey{n.devices[from], n.devices[to]}]; p != nil {
		return p.Stats()
	}
	return link.Stats{}
}

// pipe is the way from one device to another; nil on a direct wire and within a device.
func (n *Network) pipe(from, to *Device) *link.Pipe {
	if n.cfg.Link == nil || from == to {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	k := pipeKey{from, to}
	p := n.pipes[k]
	if p == nil {
		p = link.NewPipe(n.s, *n.cfg.Link, from.name+"->"+to.name)
		n.pipes[k] = p
	}
	return p
}

func (n *Network) lock() lock { return lock{virtual: n.s.Virtual()} }

func (n *Network) addQP(q *qp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		q.num = n.rng.Uint32N(1<<24-2) + 2
		if n.qpns[q.num] == nil {
			n.qpns[q.num] = q
			n.sec.add(&q.section)
			return
		}
	}
}

func (n *Network) removeQP(q *qp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.qpns, q.num)
	n.sec.remove(&q.section)
}

// findQP is the queue pair of a number, if it is on the device of that name.
func (n *Network) findQP(dev string, num uint32) *qp {
	n.mu.Lock()
	defer n.mu.Unlock()
	if q := n.qpns[num]; q != nil && q.dev.name == dev {
		return q
	}
	return nil
}

func (n *Network) psn() uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.Uint32N(1 << 24)
}

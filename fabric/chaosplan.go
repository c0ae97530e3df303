package fabric

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// chaosPlan is what a seed stands for.
type chaosPlan struct {
	params Params
	mounts int // which the tasks share
	tasks  int
	steps  int  // of each task
	crash  bool // the server may crash
	remove bool // a device may go away for good
	soft   bool // the mount is soft

	serverFails bool // calls of the server's device fail
}

// ChaosOptions fix some of what a seed of Chaos stands for. What is left out is the seed's.
type ChaosOptions struct {
	Mode        nfsclient.RegMode // registration mode; default the seed's
	Personality string            // of the device: a name of softroce.Personalities
	Proto       string            // "rdma", "tcp"
	Live        bool              // wall clock and goroutines: nothing replays, and no time is modelled
	Faults      []faults.Fault    // nil: the seed's
	NoFaults    bool              // with no Faults: none at all
}

// planChaos draws a plan. All registration modes take turns. What is drawn does not depend on options.
func planChaos(seed uint64, o ChaosOptions) (chaosPlan, error) {
	r := rand.New(rand.NewPCG(seed, 0xc4a05))
	modes := nfsclient.RegModes()[1:] // all but Auto
	p := Params{Seed: seed + 1, Device: Softroce, RegMode: modes[seed%uint64(len(modes))], TimeLimit: 30 * time.Minute, Live: o.Live}
	switch r.IntN(4) {
	case 0: // a direct wire
	case 1:
		l := RoCE25G
		p.Link = &l
	case 2:
		l := IBSDR
		l.Delay = time.Duration(r.IntN(50)) * time.Microsecond
		p.Link = &l
	default:
		l := RoCE100G
		l.Loss, l.Duplicate, l.Reorder = 0.01*r.Float64(), 0.01*r.Float64(), 0.01*r.Float64()
		p.Link = &l
	}
	p.Personality = softroce.Personalities()[[]int{0, 0, 1, 2}[r.IntN(4)]]
	if r.IntN(8) == 0 {
		p.Proto = TCP
	}
	p.Credits, p.ServerCredits, p.Threads = 2+r.IntN(31), 2+r.IntN(31), 1+r.IntN(8)
	p.MaxDataSegs = []int{8, 64, 257}[r.IntN(3)]
	p.InlineRead, p.InlineWrite = 1024<<r.IntN(3), 1024<<r.IntN(3)
	p.NoRemoteInv, p.RegisterSink = r.IntN(4) == 0, r.IntN(4) == 0
	p.Storage = Memory().Crashable()
	if r.IntN(3) == 0 {
		p.Storage = p.Storage.WithInodeLock(time.Duration(r.IntN(50))*time.Microsecond, 0)
	}
	if r.IntN(3) == 0 {
		p.Storage = p.Storage.WithJournal(Journal{Force: time.Duration(r.IntN(2000)) * time.Microsecond})
	}
	if err := o.apply(&p); err != nil {
		return chaosPlan{}, err
	}
	plan := chaosPlan{mounts: 1 + r.IntN(2), tasks: 2 + r.IntN(3), steps: 30 + r.IntN(30), soft: r.IntN(8) == 0}
	rnr := r.IntN(8)
	draw := drawFault
	if p.Proto == TCP {
		draw = drawFaultTCP
	}
	for range 2 + []int{r.IntN(4), r.IntN(10)}[r.IntN(5)/4] {
		p.Faults = append(p.Faults, draw(r))
	}
	if o.Faults != nil || o.NoFaults {
		p.Faults = o.Faults
	}
	for _, f := range p.Faults {
		plan.crash = plan.crash || f.Kind == faults.Crash
		plan.remove = plan.remove || f.Kind == faults.Remove && f.By == 0
		plan.serverFails = plan.serverFails || f.Side != faults.Client && (f.Kind == faults.RegFail || f.Kind == faults.AllocFail)
	}
	plan.soft = plan.soft || plan.remove // a hard mount waits for a device that is gone
	p.Client = func(c *nfsclient.Config) {
		c.ReconnectMin, c.ReconnectMax, c.Timeout = time.Millisecond, 20*time.Millisecond, 700*time.Millisecond
		c.JukeboxTime = 10 * time.Millisecond
		c.Soft, c.RNRRetry = plan.soft, rnr
	}
	plan.params = p
	return plan, nil
}

// apply fixes what options say, and what follows.
func (o *ChaosOptions) apply(p *Params) error {
	if o.Mode != nfsclient.Auto {
		p.RegMode = o.Mode
	}
	if o.Personality != "" {
		all := softroce.Personalities()
		i := slices.IndexFunc(all, func(x Personality) bool { return strings.EqualFold(x.Name, o.Personality) })
		if i < 0 {
			return fmt.Errorf("fabric: chaos: no personality %q", o.Personality)
		}
		p.Personality = all[i]
	}
	if o.Proto != "" {
		if err := p.Proto.UnmarshalText([]byte(o.Proto)); err != nil {
			return fmt.Errorf("fabric: chaos: %w", err)
		}
	}
	if p.RegMode == nfsclient.FMR && p.Personality.Attr.Caps&verbs.CapFMR == 0 {
		if o.Personality != "" && o.Mode == nfsclient.Auto {
			p.RegMode = nfsclient.FastReg
		} else if o.Personality == "" {
			p.Personality = softroce.RoCE
		}
	}
	switch {
	case p.Live:
		p.Link = nil
	case p.Proto == TCP && p.Link != nil: // the model of TCP has no loss
		p.Link.Loss, p.Link.Duplicate, p.Link.Reorder = 0, 0, 0
	}
	return nil
}

// drawFaultTCP draws a fault that makes sense over TCP.
func drawFaultTCP(r *rand.Rand) faults.Fault {
	for {
		f := drawFault(r)
		switch k := f.Kind; {
		case k == faults.EIO, k == faults.ENOSPC, k == faults.Jukebox, k == faults.Slow:
			return f
		case k == faults.Crash || k == faults.Disconnect:
			if f.Packet == "" && (f.Op == "" || slices.Contains(faults.Ops(faults.Slow), f.Op)) {
				return f
			}
		}
	}
}

// drawFault draws a fault that has a good chance to fire in a load of some hundred calls.
func drawFault(r *rand.Rand) faults.Fault {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	kinds := faults.Kinds()
	f := faults.Fault{Kind: kinds[r.IntN(len(kinds))], Optional: true}
	if r.IntN(12) == 0 {
		f.Kind = faults.Crash // the most is seen of those
	}
	at := func(most int) {
		switch r.IntN(3) {
		case 0:
			f.Nth = 1 + r.IntN(most)
		case 1:
			f.Every, f.Max = 2+r.IntN(most), 1+r.IntN(20)
		default:
			f.P, f.Max = 0.002+0.03*r.Float64(), 1+r.IntN(20)
		}
	}
	switch {
	case f.Kind <= faults.RNR:
		switch {
		case f.Kind == faults.RNR:
			f.Packet = pick([]string{"", "SEND", "SEND_INV"})
		case r.IntN(4) == 0:
			f.Packet = pick([]string{"CM", "REQ", "REP", "RTU", "REJ", "DREQ"})
		case r.IntN(5) > 0:
			f.Packet = pick([]string{"SEND", "SEND_INV", "WRITE", "READ_REQUEST", "READ_RESPONSE", "ACK", "NAK"})
		}
		f.Dir = faults.Dir(r.IntN(3))
		if r.IntN(6) == 0 { // nothing gets through for a while
			f.From = time.Duration(r.IntN(5000)) * time.Microsecond
			f.To = f.From + time.Duration(1+r.IntN(30_000))*time.Microsecond
		} else {
			at(200)
		}
		if f.CM() { // of which there are few
			f.Nth, f.Every, f.Max, f.P, f.From, f.To = 0, 1+r.IntN(3), 1+r.IntN(8), 0, 0, 0
		}
		if f.Kind == faults.Delay {
			f.By = time.Duration(1+r.IntN(3000)) * time.Microsecond
		}
	case f.Kind <= faults.PostFail:
		if r.IntN(3) > 0 {
			f.Op = pick(faults.Ops(f.Kind))
		}
		f.Side = faults.Side(r.IntN(3))
		at(40)
	case f.Kind <= faults.Slow:
		if r.IntN(4) > 0 {
			f.Op = pick([]string{"GETATTR", "SETATTR", "LOOKUP", "READ", "WRITE", "WRITE", "CREATE", "REMOVE", "RENAME", "COMMIT", "COMMIT",
				"LINK", "SYMLINK", "READLINK", "MKDIR", "RMDIR", "READDIR"})
		}
		at(20)
		if f.Kind == faults.Slow {
			f.By = time.Duration(1+r.IntN(5000)) * time.Microsecond
		}
	default:
		f.Side = faults.Side(r.IntN(3))
		switch r.IntN(5) {
		case 0:
			f.From = time.Duration(r.IntN(20_000)) * time.Microsecond
		case 1:
			f.Packet = pick([]string{"SEND", "WRITE", "READ_REQUEST", "READ_RESPONSE", "SEND_INV"})
			f.Nth = 1 + r.IntN(300)
		case 2:
			f.Packet, f.Nth = pick([]string{"CM", "REQ", "REP", "RTU"}), 1+r.IntN(3)
		case 3:
			f.Op = pick([]string{"READ", "WRITE", "COMMIT", "CREATE", "RENAME", "REMOVE", "LINK", "SYMLINK", "MKDIR", "RMDIR"})
			f.Every, f.Max = 1+r.IntN(20), 1+r.IntN(4)
		default:
			f.Op = pick([]string{"SEND", "SEND_WITH_INV", "RDMA_READ", "RDMA_WRITE", "REG_MR"})
			f.Every, f.Max = 1+r.IntN(50), 1+r.IntN(4)
		}
		if f.Kind == faults.Crash || f.Kind == faults.Remove && r.IntN(4) > 0 {
			f.By = time.Duration(r.IntN(30_000)+1) * time.Microsecond
		}
	}
	return f
}

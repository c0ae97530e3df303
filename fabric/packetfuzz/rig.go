package packetfuzz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

const (
	mtu      = 256
	size     = 4096 // of each region
	rnrTimer = 1
	maxDepth = 16
	psnMask  = 1<<24 - 1
)

// Regions of the victim, by what the peer may do with them.
const (
	regBoth = iota
	regRead
	regWrite
	regOwn // nothing: receives and the requester's own memory
	numRegions
)

var regionNames = [numRegions]string{"both", "read", "write", "own"}

var rights = [numRegions]verbs.Access{verbs.RemoteRead | verbs.RemoteWrite, verbs.RemoteRead, verbs.RemoteWrite, 0}

// Rig is a queue pair and its raw peer in virtual time.
type Rig struct {
	s    *sched.Sched
	net  *softroce.Network
	raw  *softroce.Raw
	qp   verbs.QP
	own  verbs.QP // the raw peer's
	cq   verbs.CQ
	mr   [numRegions]verbs.MR
	undo []func() error

	rnrRetry uint8

	seen    []softroce.RawPacket
	wc      [64]verbs.WC
	Packets int // sent, in all inputs
}

// NewRig makes one. Its owner closes it.
func NewRig() (r *Rig, err error) {
	r = &Rig{s: sched.NewVirtual(1)}
	r.net = softroce.NewNetwork(r.s, softroce.NetConfig{Link: &link.Config{Delay: time.Microsecond}})
	r.undo = append(r.undo, r.s.Close, r.net.Close)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	var cq verbs.CQ
	var pd verbs.PD
	end := func(name string) (qp verbs.QP) {
		if err != nil {
			return nil
		}
		var dev *softroce.Device
		if dev, err = r.net.NewDevice(name, softroce.RoCE); err != nil {
			return nil
		}
		r.undo = append(r.undo, dev.Close)
		if pd, err = dev.AllocPD(); err != nil {
			return nil
		}
		r.undo = append(r.undo, pd.Close)
		if cq, err = dev.CreateCQ(verbs.CQInit{Depth: 64, Name: name}); err != nil {
			return nil
		}
		r.undo = append(r.undo, cq.Close)
		if qp, err = pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: maxDepth, MaxRecvWR: maxDepth, Name: name}); err == nil {
			r.undo = append(r.undo, qp.Close)
		}
		return qp
	}
	r.own = end("raw")
	r.qp = end("victim")
	if err != nil {
		return r, err
	}
	r.cq = cq
	for i := range r.mr {
		if r.mr[i], err = pd.AllocMR(size, rights[i]|verbs.LocalWrite); err != nil {
			return r, err
		}
		r.undo = append(r.undo, r.mr[i].Close)
	}
	if err = r.own.Modify(verbs.QPAttr{State: verbs.Init}); err != nil {
		return r, err
	}
	r.raw, err = softroce.NewRaw(r.own, r.qp, func(p softroce.RawPacket) { r.seen = append(r.seen, p) })
	return r, err
}

// Close ends it.
func (r *Rig) Close() error {
	var errs []error
	for i := len(r.undo) - 1; i >= 0; i-- {
		errs = append(errs, r.undo[i]())
	}
	r.undo = nil
	return errors.Join(errs...)
}

// connect makes the queue pair and its memory anew.
func (r *Rig) connect(psn uint32, ird int) error {
	for _, a := range []verbs.QPAttr{
		{State: verbs.Reset},
		{State: verbs.Init, Access: verbs.RemoteRead | verbs.RemoteWrite | verbs.LocalWrite},
		{State: verbs.RTR, PathMTU: mtu, DestAddr: "raw", DestQPN: r.own.Num(), RQPSN: psn, IRD: ird, MinRNR: rnrTimer},
		{State: verbs.RTS, SQPSN: psn, ORD: 16, RetryCnt: 7, RNRRetry: r.rnrRetry},
	} {
		if err := r.qp.Modify(a); err != nil {
			return err
		}
	}
	for i := range r.mr {
		fill(r.mr[i].Bytes(), i)
	}
	r.seen = r.seen[:0]
	_, err := r.cq.Poll(r.wc[:])
	return err
}

// fill gives each region bytes of its own.
func fill(b []byte, region int) {
	for k := range b {
		b[k] = byte(k*7+k>>8) ^ byte(region<<6)
	}
}

// send lets packets arrive together, and waits for what comes of them.
func (r *Rig) send(ps ...softroce.RawPacket) error {
	r.Packets += len(ps)
	r.seen = r.seen[:0]
	r.raw.Send(ps...)
	return r.settle()
}

// settle lets a packet go to the peer and back. RNR timers are of 10 us, and this is a little less than half of one: so
// none ends just before a packet is sent, when what it lets go has not been seen.
func (r *Rig) settle() error {
	return r.s.Sleep(context.Background(), 4990*sched.Nanosecond)
}

func (r *Rig) completions() ([]verbs.WC, error) {
	n, err := r.cq.Poll(r.wc[:])
	if err != nil {
		return nil, fmt.Errorf("packetfuzz: %w", err)
	}
	return r.wc[:n], nil
}

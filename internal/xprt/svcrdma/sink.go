package svcrdma

import "example.org/nfsrdma/verbs"

// sinkReg is a fast registration of a part of a sink, kept by its request.
type sinkReg struct {
	mr  verbs.FastRegMR
	key uint32
}

// mapSinks registers the sink, so that one SGE covers as much of it as a page list holds, and adds the
// REG_MR work requests. What the regions are is in ch.regs. False: not possible; the sink is used as it is.
func (r *Request) mapSinks(ch *chain, sink []Mem) bool {
	pd := r.conn.x.pd
	ch.segs = ch.segs[:0]
	for i := range sink {
		if i == len(r.dma) {
			r.dma = append(r.dma, verbs.DMAMap{})
		}
		if err := pd.MapDMA(&r.dma[i], sink[i].Bytes); err != nil {
			r.unmapSinks()
			return false
		}
		r.ndma = i + 1
		ch.segs = append(ch.segs, r.dma[i].Segs...)
	}
	ch.regs = ch.regs[:0]
	for segs := ch.segs; len(segs) > 0; {
		n := r.mapSink(segs)
		if n == 0 {
			r.unmapSinks()
			return false
		}
		f := &r.fr[r.nfr-1]
		// The lkey has the new tag byte once the region is registered.
		lkey := f.mr.LKey()&^0xff | f.key&0xff
		ch.regs = append(ch.regs, Mem{Addr: f.mr.Addr(), Len: uint32(f.mr.Len()), LKey: lkey})
		segs = segs[n:]
	}
	access := verbs.LocalWrite
	if r.conn.x.attr.Transport == verbs.IWARP {
		access |= verbs.RemoteWrite
	}
	for i := range r.fr[:r.nfr] {
		wr := ch.add(kindMore, r.idx)
		if wr == nil {
			return false
		}
		wr.Op, wr.Reg, wr.Key, wr.Access = verbs.OpRegMR, r.fr[i].mr, r.fr[i].key, access
	}
	return true
}

// mapSink puts the first pages of segs into the next region, and gives their number.
func (r *Request) mapSink(segs []verbs.DMASeg) int {
	x := r.conn.x
	if r.nfr == len(r.fr) {
		mr, err := x.pd.AllocFastRegMR(min(x.attr.MaxFastRegPages, x.cfg.MaxPayload/verbs.PageSize+2))
		if err != nil {
			return 0
		}
		r.fr = append(r.fr, sinkReg{mr: mr})
	}
	f := &r.fr[r.nfr]
	n := f.mr.MapPages(segs)
	if n > 0 {
		f.key = f.mr.NextKey()
		r.nfr++
	}
	return n
}

// invalidateSinks adds the LOCAL_INV work requests, which begin when the READs are done: before the data is
// looked at, the peer must not reach it any more.
func (r *Request) invalidateSinks(ch *chain) bool {
	for i := range r.fr[:r.nfr] {
		wr := ch.add(kindMore, r.idx)
		if wr == nil {
			return false
		}
		wr.Op, wr.InvKey, wr.Flags = verbs.OpLocalInv, r.fr[i].key, verbs.Fence
	}
	return true
}

func (r *Request) unmapSinks() {
	for i := range r.dma[:r.ndma] {
		r.conn.x.pd.UnmapDMA(&r.dma[i])
	}
	r.ndma, r.nfr = 0, 0
}

func (r *Request) closeSinks() {
	r.unmapSinks()
	for i := range r.fr {
		_ = r.fr[i].mr.Close()
	}
	r.fr = nil
}

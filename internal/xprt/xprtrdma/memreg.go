package xprtrdma

import (
	"context"
	"fmt"

	"example.org/nfsrdma/verbs"
)

// registrar lets the peer reach memory in one mode (rpcrdma_memreg_strategy). Each has a file of
// its own. A method that takes a Req is called by its caller, except invalidated and
// fenceWRs, which the receive handler calls while it holds the slot.
type registrar interface {
	// chunks is false where data can only go inline.
	chunks() bool
	// maxSegs is the number of segments that a chunk may have.
	maxSegs() int
	// segPages is the number of pages that a segment covers.
	segPages() int
	// regions is how many regions a chunk of these pages takes.
	regions(pages int) int
	// wrsPerRegion are the work requests that a region needs before and after the call.
	wrsPerRegion() (before, after int)
	// reserve takes n regions for q, waiting for them in order of arrival.
	reserve(ctx context.Context, q *Req, n int) error
	// register appends segments for pages to q.segs, and the work requests that make them valid to q.wrs.
	register(q *Req, pages []verbs.DMASeg, access verbs.Access) error
	// invalidated notes that the peer has invalidated key; false if it is none of q's.
	invalidated(q *Req, key uint32) bool
	// fenceWRs appends to q.inv what must complete before the peer cannot reach q's memory any more.
	fenceWRs(q *Req)
	// fences is false if nothing but the end of the connection keeps the peer away.
	fences() bool
	// release gives up q's regions. broken: the connection ended first, so their state is unknown.
	release(q *Req, broken bool)
	Close() error
}

// region is what one segment is registered with.
type region struct {
	mr    verbs.FastRegMR
	key   uint32
	valid bool // registered, as far as this side knows
}

func newRegistrar(x *Xprt) (registrar, error) {
	switch x.cfg.Mode {
	case FastReg:
		return newFastReg(x)
	case AllPhysical:
		return newAllPhysical(x)
	case Bounce:
		return bounce{}, nil
	}
	return nil, modeError(x.cfg.Mode)
}

// modeError is a mode that this client lacks, whatever the device can. It matches verbs.ErrUnsupported.
type modeError RegMode

func (e modeError) Error() string {
	return fmt.Sprintf("registration mode %v is not implemented by this client, which has fastreg, all-physical and bounce", RegMode(e))
}

func (e modeError) Is(target error) bool { return target == verbs.ErrUnsupported }

package xprtrdma

import (
	"context"
	"errors"

	"example.org/nfsrdma/verbs"
)

// bounce copies everything through the inline buffers. A call that does not fit fails when it is marshalled.
type bounce struct{}

var errBounce = errors.New("xprtrdma: bounce has no chunks")

func (bounce) chunks() bool                                      { return false }
func (bounce) maxSegs() int                                      { return 0 }
func (bounce) segPages() int                                     { return 0 }
func (bounce) regions(int) int                                   { return 0 }
func (bounce) wrsPerRegion() (before, after int)                 { return 0, 0 }
func (bounce) reserve(context.Context, *Req, int) error          { return nil }
func (bounce) register(*Req, []verbs.DMASeg, verbs.Access) error { return errBounce }
func (bounce) invalidated(*Req, uint32) bool                     { return false }
func (bounce) fenceWRs(*Req)                                     {}
func (bounce) fences() bool                                      { return true }
func (bounce) release(*Req, bool)                                {}
func (bounce) Close() error                                      { return nil }

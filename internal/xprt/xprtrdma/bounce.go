package xprtrdma

import (
	"context"
	"errors"
)

// bounce copies everything through the inline buffers. A call that does not fit fails when it is marshalled.
type bounce struct{ byCaller }

var errBounce = errors.New("xprtrdma: bounce has no chunks")

func (bounce) chunks() bool                             { return false }
func (bounce) maxSegs() int                             { return 0 }
func (bounce) segPages() int                            { return 0 }
func (bounce) regions(int) int                          { return 0 }
func (bounce) mapBuf(*mapping) error                    { return errBounce }
func (bounce) unmapBuf(*mapping)                        {}
func (bounce) reserve(context.Context, *Req, int) error { return nil }
func (bounce) register(*Req, *mapping) error            { return errBounce }
func (bounce) fences() bool                             { return true }
func (bounce) release(*Req, bool)                       {}
func (bounce) detach(*ep)                               {}
func (bounce) Close() error                             { return nil }

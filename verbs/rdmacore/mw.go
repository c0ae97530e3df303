//go:build rdmacore && cgo

package rdmacore

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync/atomic"

	"example.org/nfsrdma/verbs"
)

// mw is a memory window.
type mw struct {
	object
	pd  *pd
	c   *C.struct_ibv_mw
	typ verbs.MWType
	key atomic.Uint32 // of the latest bind
	tag atomic.Uint32 // the key that NextKey gave
}

// AllocMW implements verbs.PD.
func (p *pd) AllocMW(t verbs.MWType) (verbs.MW, error) {
	d := p.dev
	need, typ := verbs.CapMemWindow1, uint32(C.IBV_MW_TYPE_1)
	if t == verbs.MWType2B {
		need, typ = verbs.CapMemWindow2B, C.IBV_MW_TYPE_2
	}
	if t != verbs.MWType1 && t != verbs.MWType2B || d.attr.Caps&need == 0 {
		return nil, fmt.Errorf("rdmacore: %s: memory window type %d: %w", d.what, t, verbs.ErrUnsupported)
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	if err := d.count(&d.res.MW); err != nil {
		p.unuse()
		return nil, err
	}
	c, err := C.ibv_alloc_mw(p.c, typ)
	if c == nil {
		d.uncount(&d.res.MW)
		p.unuse()
		return nil, errnoError(errnoOf(err), "%s: memory window, max_mw is %d", d.what, d.attr.MaxMW)
	}
	w := &mw{object: object{what: "window"}, pd: p, c: c, typ: t}
	w.key.Store(uint32(c.rkey))
	w.tag.Store(uint32(c.rkey))
	return w, nil
}

func (w *mw) Type() verbs.MWType { return w.typ }
func (w *mw) RKey() uint32       { return w.key.Load() }

// NextKey implements verbs.MW.
func (w *mw) NextKey() uint32 {
	for {
		old := w.tag.Load()
		key := nextTag(old)
		if w.tag.CompareAndSwap(old, key) {
			return key
		}
	}
}

// bound notes the key of a bind that was posted; the library finds the window of the next one by it.
func (w *mw) bound(key uint32) {
	w.c.rkey = C.uint32_t(key)
	w.key.Store(key)
}

// Close implements verbs.MW.
func (w *mw) Close() error {
	done, err := w.shut()
	if done || err != nil {
		return err
	}
	if rc := C.ibv_dealloc_mw(w.c); rc != 0 {
		w.reopen()
		return errnoError(int(rc), "%s: closing window %#x", w.pd.dev.what, w.RKey())
	}
	w.pd.dev.uncount(&w.pd.dev.res.MW)
	w.pd.unuse()
	return nil
}

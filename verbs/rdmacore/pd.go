//go:build rdmacore && cgo

package rdmacore

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"example.org/nfsrdma/verbs"
)

// pd is a protection domain.
type pd struct {
	object
	dev *Device
	c   *C.struct_ibv_pd
}

// AllocPD implements verbs.Device.
func (d *Device) AllocPD() (verbs.PD, error) {
	if err := d.count(&d.res.PD); err != nil {
		return nil, err
	}
	c, err := C.ibv_alloc_pd(d.hca.ctx)
	if c == nil {
		d.uncount(&d.res.PD)
		return nil, errnoError(errnoOf(err), "%s: protection domain, max_pd is %d", d.what, d.attr.MaxPD)
	}
	return &pd{object: object{what: "protection domain of " + d.info.Name}, dev: d, c: c}, nil
}

// errnoOf is the errno that a cgo call returned beside a null pointer.
func errnoOf(err error) int {
	if e, ok := err.(syscall.Errno); ok {
		return int(e)
	}
	return int(syscall.EIO)
}

// Device implements verbs.PD.
func (p *pd) Device() verbs.Device { return p.dev }

// Close implements verbs.PD.
func (p *pd) Close() error {
	done, err := p.shut()
	if done || err != nil {
		return err
	}
	if rc := C.ibv_dealloc_pd(p.c); rc != 0 {
		p.reopen()
		return errnoError(int(rc), "%s: closing", p.what)
	}
	p.dev.uncount(&p.dev.res.PD)
	return nil
}

// mr is a memory region.
type mr struct {
	object
	pd     *pd
	c      *C.struct_ibv_mr
	buf    []byte
	addr   uint64
	lkey   uint32
	rkey   uint32
	access verbs.Access
	pin    runtime.Pinner
	mapped []byte // AllocMR: given back at the end
}

const allAccess = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind | verbs.ZeroBased

// RegMR implements verbs.PD. Go memory is pinned until Close.
func (p *pd) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	return p.register(buf, access, nil)
}

// AllocMR implements verbs.PD. The memory is the kernel's, outside the Go heap.
func (p *pd) AllocMR(n int, access verbs.Access) (verbs.MR, error) {
	if n <= 0 {
		return nil, fmt.Errorf("rdmacore: %s: region of %d bytes: %w", p.dev.what, n, verbs.ErrInvalid)
	}
	page := syscall.Getpagesize()
	if n > (1<<62)-page {
		return nil, fmt.Errorf("rdmacore: %s: region of %d bytes: %w", p.dev.what, n, verbs.ErrNoResources)
	}
	mem, err := mapMemory((n + page - 1) &^ (page - 1))
	if err != nil {
		return nil, fmt.Errorf("rdmacore: %s: region of %d bytes: %w: %w", p.dev.what, n, verbs.ErrNoResources, err)
	}
	m, err := p.register(mem[:n:n], access, mem)
	if err != nil {
		unmapMemory(mem)
		return nil, err
	}
	return m, nil
}

func (p *pd) register(buf []byte, access verbs.Access, mapped []byte) (verbs.MR, error) {
	d := p.dev
	what := fmt.Sprintf("%s: region of %d bytes, access %#x", d.what, len(buf), uint32(access))
	switch {
	case access&(verbs.RemoteWrite|verbs.RemoteAtomic) != 0 && access&verbs.LocalWrite == 0:
		return nil, fmt.Errorf("rdmacore: %s: remote write or atomic access needs local write: %w", what, verbs.ErrInvalid)
	case access&^allAccess != 0 || access&verbs.ZeroBased != 0:
		return nil, fmt.Errorf("rdmacore: %s: not an access of a region: %w", what, verbs.ErrInvalid)
	case len(buf) == 0 || uint64(len(buf)) > d.attr.MaxMRSize:
		return nil, fmt.Errorf("rdmacore: %s: must be 1 to max_mr_size %d: %w", what, d.attr.MaxMRSize, verbs.ErrInvalid)
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	if err := d.count(&d.res.MR); err != nil {
		p.unuse()
		return nil, err
	}
	m := &mr{object: object{what: "region"}, pd: p, buf: buf, access: access, mapped: mapped}
	if mapped == nil {
		pin(&m.pin, &buf[0])
	}
	c, err := C.ibv_reg_mr(p.c, unsafe.Pointer(&buf[0]), C.size_t(len(buf)), C.int(access))
	if c == nil {
		m.pin.Unpin()
		d.uncount(&d.res.MR)
		p.unuse()
		e := errnoOf(err)
		if syscall.Errno(e) == syscall.ENOMEM {
			what += ", max_mr " + fmt.Sprint(d.attr.MaxMR) + ", or ulimit -l"
		}
		return nil, errnoError(e, "%s", what)
	}
	m.c, m.addr, m.lkey, m.rkey = c, uint64(uintptr(unsafe.Pointer(&buf[0]))), uint32(c.lkey), uint32(c.rkey)
	return m, nil
}

// pin keeps Go memory where it is. Memory that is not Go's does not move: Pin panics on it.
func pin(p *runtime.Pinner, b *byte) {
	defer func() { _ = recover() }()
	p.Pin(b)
}

func (m *mr) Addr() uint64  { return m.addr }
func (m *mr) Len() int      { return len(m.buf) }
func (m *mr) Bytes() []byte { return m.buf }
func (m *mr) LKey() uint32  { return m.lkey }
func (m *mr) RKey() uint32  { return m.rkey }

// Close implements verbs.MR. A region with a window bound is kept by the device.
func (m *mr) Close() error {
	done, err := m.shut()
	if done || err != nil {
		return err
	}
	if rc := C.ibv_dereg_mr(m.c); rc != 0 {
		m.reopen()
		if syscall.Errno(rc) == syscall.EINVAL || syscall.Errno(rc) == syscall.EBUSY {
			return fmt.Errorf("rdmacore: %s: region %#x has windows bound: %w: %w", m.pd.dev.what, m.lkey, verbs.ErrBusy, syscall.Errno(rc))
		}
		return errnoError(int(rc), "%s: closing region %#x", m.pd.dev.what, m.lkey)
	}
	m.pin.Unpin()
	if m.mapped != nil {
		unmapMemory(m.mapped)
	}
	m.pd.dev.uncount(&m.pd.dev.res.MR)
	m.pd.unuse()
	return nil
}

func (p *pd) unsupported(what, why string) error {
	return fmt.Errorf("rdmacore: %s: %s: %s: %w", p.dev.what, what, why, verbs.ErrUnsupported)
}

// AllocFastRegMR implements verbs.PD.
func (p *pd) AllocFastRegMR(int) (verbs.FastRegMR, error) {
	return nil, p.unsupported("fast registration", "libibverbs has no REG_MR")
}

// GlobalKey implements verbs.PD.
func (p *pd) GlobalKey(verbs.Access) (uint32, error) {
	return 0, p.unsupported("key for all memory", "the kernel alone has one")
}

// LocalDMAKey implements verbs.PD.
func (p *pd) LocalDMAKey() (uint32, error) {
	return 0, p.unsupported("local DMA key", "the kernel alone has one")
}

// MapDMA implements verbs.PD.
func (p *pd) MapDMA(*verbs.DMAMap, []byte) error {
	return p.unsupported("DMA mapping", "addresses in user space are virtual")
}

// UnmapDMA implements verbs.PD.
func (p *pd) UnmapDMA(m *verbs.DMAMap) { m.Segs = m.Segs[:0] }

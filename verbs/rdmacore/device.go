//go:build rdmacore && cgo

package rdmacore

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"example.org/nfsrdma/verbs"
	"github.com/Mellanox/rdmamap"
)

// Device is a device of the machine. Several may be open for one; each counts its own objects.
type Device struct {
	object
	hca  *hca
	info Info
	attr verbs.DeviceAttr
	// tracks says that queue pairs need a track.
	tracks bool
	// Of a completion whose key the peer has invalidated (IBV_WC_*).
	invFlags uint32

	res     verbs.Resources        // under object.mu
	onEvent func(verbs.AsyncEvent) // under object.mu
	removed bool                   // under object.mu

	cm cmChannel
}

// Open opens the device called name, or on the network interface called name, or with the IP address name.
func Open(name string) (verbs.Device, error) {
	info, err := find(name)
	if err != nil {
		return nil, err
	}
	h, err := openHCA(info.Name)
	if err != nil {
		return nil, err
	}
	d := &Device{object: object{what: "device " + info.Name}, hca: h, info: info}
	if err = d.query(); err == nil {
		err = d.cm.open(d)
	}
	if err != nil {
		h.release()
		return nil, err
	}
	h.mu.Lock()
	h.devices[d] = true
	h.mu.Unlock()
	return d, nil
}

// Name implements verbs.Device.
func (d *Device) Name() string { return d.info.Name }

// Attr implements verbs.Device.
func (d *Device) Attr() verbs.DeviceAttr { return d.attr }

// Addr is the first IP address of the device, for the "host:port" of Listen and Resolve; "" if it has none.
func (d *Device) Addr() string {
	if len(d.info.Addrs) == 0 {
		return ""
	}
	return d.info.Addrs[0].String()
}

// OnEvent implements verbs.Device.
func (d *Device) OnEvent(f func(verbs.AsyncEvent)) {
	d.mu.Lock()
	d.onEvent = f
	d.mu.Unlock()
}

func (d *Device) event(e verbs.AsyncEvent) {
	d.mu.Lock()
	f := d.onEvent
	d.mu.Unlock()
	if f != nil {
		f(e)
	}
}

// becomeRemoved refuses new objects. What exists can be closed.
func (d *Device) becomeRemoved() {
	d.mu.Lock()
	was := d.removed
	d.removed = true
	d.hca.removed.Store(true)
	d.mu.Unlock()
	if !was {
		d.event(verbs.AsyncEvent{Type: verbs.EventDeviceFatal})
	}
}

// count keeps the device open for one more object, which is counted in n.
func (d *Device) count(n *int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return closedError(d.what)
	}
	if d.removed {
		return fmt.Errorf("rdmacore: %s was removed: %w", d.what, verbs.ErrClosed)
	}
	d.users++
	*n++
	return nil
}

func (d *Device) uncount(n *int) {
	d.mu.Lock()
	d.users--
	*n--
	d.mu.Unlock()
}

// Resources implements verbs.Device.
func (d *Device) Resources() verbs.Resources {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.res
}

// Counters implements verbs.Device.
func (d *Device) Counters() []verbs.Counter {
	dir := filepath.Join(rdmamap.RdmaClassDir, d.info.Name, "ports", "1", "hw_counters")
	entries, _ := os.ReadDir(dir)
	var out []verbs.Counter
	for _, e := range entries {
		if e.Name() == "lifespan" { // how old the others may be
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if v, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil {
			out = append(out, verbs.Counter{Name: e.Name(), Value: v})
		}
	}
	return out
}

// Close implements verbs.Device.
func (d *Device) Close() error {
	done, err := d.shut()
	if done || err != nil {
		return err
	}
	d.cm.close()
	d.hca.mu.Lock()
	delete(d.hca.devices, d)
	d.hca.mu.Unlock()
	d.hca.release()
	return nil
}

// query reads the attributes.
func (d *Device) query() error {
	var a C.struct_ibv_device_attr
	if rc := C.ibv_query_device(d.hca.ctx, &a); rc != 0 {
		return errnoError(int(rc), "%s: query", d.what)
	}
	var layer, state, mtu, msg C.uint32_t
	var lid C.uint16_t
	if rc := C.rc_port(d.hca.ctx, &layer, &state, &mtu, &msg, &lid); rc != 0 {
		return errnoError(int(rc), "%s: query of port 1", d.what)
	}
	t := &d.attr
	*t = verbs.DeviceAttr{
		Vendor: fmt.Sprintf("%#06x", uint32(a.vendor_id)), Part: fmt.Sprintf("%#x", uint32(a.vendor_part_id)),
		Transport: verbs.IB,
		MaxQP:     int(a.max_qp), MaxQPWR: int(a.max_qp_wr), MaxSGE: int(a.max_sge), MaxSGERd: int(a.max_sge_rd),
		MaxCQ: int(a.max_cq), MaxCQE: int(a.max_cqe), MaxMR: int(a.max_mr), MaxMRSize: uint64(a.max_mr_size), MaxPD: int(a.max_pd),
		MaxSRQ: int(a.max_srq), MaxSRQWR: int(a.max_srq_wr), MaxMW: int(a.max_mw),
		MaxQPRdAtom: min(int(a.max_qp_rd_atom), 255), MaxQPInitRdAtom: min(int(a.max_qp_init_rd_atom), 255), // 8 bits in the connection manager
		PageSize: verbs.PageSize, MaxMsgSize: uint32(msg), ActiveMTU: 128 << mtu,
		MaxConnPrivate: 56, MaxAcceptPrivate: 196,
	}
	switch {
	case d.hca.ctx.device.transport_type == C.IBV_TRANSPORT_IWARP:
		t.Transport = verbs.IWARP
		t.MaxConnPrivate, t.MaxAcceptPrivate = 251, 251 // what fits into the 8 bits that siw has for it, with the depths (RFC 6581)
	case layer == C.IBV_LINK_LAYER_ETHERNET:
		t.Transport = verbs.RoCE
	}
	if t.MaxSGERd <= 0 || t.MaxSGERd > t.MaxSGE {
		t.MaxSGERd = t.MaxSGE
	}
	flags := uint32(a.device_cap_flags)
	for _, c := range []struct {
		flag uint32
		caps verbs.Cap
	}{
		{C.IBV_DEVICE_MEM_WINDOW, verbs.CapMemWindow1},
		{C.IBV_DEVICE_MEM_WINDOW_TYPE_2B, verbs.CapMemWindow2B | verbs.CapSendWithInv},
		{C.IBV_DEVICE_MEM_MGT_EXTENSIONS, verbs.CapSendWithInv},
	} {
		if flags&c.flag != 0 {
			t.Caps |= c.caps
		}
	}
	d.invFlags = C.IBV_WC_WITH_INV
	if a.vendor_id == rxeVendor {
		// rxe hands the kernel's flags to user space, where this bit has another name.
		d.invFlags |= C.IBV_WC_IP_CSUM_OK
	}
	d.tracks = a.vendor_id == siwVendor
	if t.Transport != verbs.IWARP {
		t.Caps |= verbs.CapRNR
	}
	t.MaxInline = d.probeInline()
	return nil
}

// The vendor_id of soft-RoCE and soft-iWARP.
const (
	rxeVendor = 0xffffff
	siwVendor = 0x626d74
)

// mostInline bounds what probeInline asks for, bytes.
const mostInline = 4096

// probeInline tries how much inline data a queue pair may have: no attribute says it.
func (d *Device) probeInline() int {
	pd := C.ibv_alloc_pd(d.hca.ctx)
	if pd == nil {
		return 0
	}
	defer C.ibv_dealloc_pd(pd)
	cq := C.ibv_create_cq(d.hca.ctx, 2, nil, nil, 0)
	if cq == nil {
		return 0
	}
	defer C.ibv_destroy_cq(cq)
	works := func(n int) bool {
		var a C.struct_ibv_qp_init_attr
		a.cap.max_send_wr, a.cap.max_recv_wr = 1, 1
		a.cap.max_send_sge, a.cap.max_recv_sge = C.uint32_t(min(4, d.attr.MaxSGE)), 1
		a.cap.max_inline_data = C.uint32_t(n)
		var qp *C.struct_ibv_qp
		if C.rc_create_qp(pd, &a, cq, cq, nil, &qp) != 0 {
			return false
		}
		C.ibv_destroy_qp(qp)
		return true
	}
	lo, hi := 0, mostInline+1 // lo works, hi does not
	if works(mostInline) {
		return mostInline
	}
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; works(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

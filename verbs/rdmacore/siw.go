//go:build rdmacore && cgo

package rdmacore

/*
#include "shim.h"
*/
import "C"

// libsiw takes the key of an mmap for an error if it is 0x90000: what the kernel puts on page 0x90 of the
// process's keys cannot be created, which is the tenth connection or so. avoidKey puts a small completion queue on
// pages 0x8f and 0x90, and keeps it. Pages are dealt out from the lowest free one; a queue of n entries has
// n*32 bytes and a control word.
func (h *hca) avoidKey() {
	var a C.struct_ibv_device_attr
	if C.ibv_query_device(h.ctx, &a) != 0 || a.vendor_id != siwVendor {
		return
	}
	var fill []*C.struct_ibv_cq
	for _, n := range []C.int{16384, 1024, 512} { // 129, 9 and 5 pages
		fill = append(fill, C.ibv_create_cq(h.ctx, n, nil, nil, 0))
	}
	h.spacer = C.ibv_create_cq(h.ctx, 128, nil, nil, 0)
	for _, c := range fill {
		if c != nil {
			C.ibv_destroy_cq(c)
		}
	}
}

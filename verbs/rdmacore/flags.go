//go:build rdmacore && cgo

package rdmacore

import "example.org/nfsrdma/verbs"

// sendFlags are IBV_SEND_*.
func sendFlags(f verbs.SendFlags) uint32 {
	const fence, signaled, solicited, inline = 1, 2, 4, 8
	var out uint32
	for _, x := range []struct {
		f verbs.SendFlags
		v uint32
	}{{verbs.Fence, fence}, {verbs.Signaled, signaled}, {verbs.Solicited, solicited}, {verbs.Inline, inline}} {
		if f&x.f != 0 {
			out |= x.v
		}
	}
	return out
}

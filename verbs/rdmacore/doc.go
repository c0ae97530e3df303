// Package rdmacore is RDMA verbs on the devices of the machine, through libibverbs and librdmacm:
// the kernel's rxe and siw, or an HCA.
//
// It is built with the build tag rdmacore, with cgo and the packages libibverbs-dev and librdmacm-dev.
// Without the tag Open says so, and Devices still lists what is there.
//
// # What user space lacks
//
// libibverbs has no fast registration (REG_MR), no key for all memory and no local DMA key: those give an error
// that matches verbs.ErrUnsupported. Memory windows of type 2B, which rxe has, give the per-call registration
// with remote invalidation instead. PD.MapDMA maps nothing, as addresses in user space are virtual: it is
// ErrUnsupported too.
//
// # How it runs
//
// Always live: device events come through Go's poller. Each completion queue has a channel and a goroutine that calls its
// handler; a device has one for connection events, the process one for each device's asynchronous events.
// Memory of AllocMR is mapped outside the Go heap; what RegMR gets is pinned until Close.
//
// # Devices that differ
//
// Counters are those of hw_counters in sysfs, which the kernel may hold back for some milliseconds. Private data
// arrives padded with zeros to 56 or 196 bytes over InfiniBand and RoCE. An error of the responder shows at an
// iWARP initiator as the end of the connection.
package rdmacore

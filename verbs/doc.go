// Package verbs is RDMA verbs and connection management as interfaces and values,
// in the terms of the InfiniBand specification, libibverbs and librdmacm.
//
// A Device is the user-space soft-RoCE of package softroce, or any other
// implementation; package verbstest says whether one conforms. Nothing here
// asks for what a real HCA and its libraries cannot do. What a device lacks
// gives an error that matches ErrUnsupported: what DeviceAttr does not promise, PD.CreateQP, and
// immediate data on iWARP. All else every device has.
//
// # Order of use
//
// Device, then PD, MR and CQ; then on the active side Resolve, CreateQP, PostRecv and
// Connect, on the passive side Listen, Listener.Accept, CreateQP, PostRecv, ID.Accept.
// Close in the opposite order: an object that others still use is ErrBusy.
// Closing an object again is an error or nothing, and frees nothing twice. Posting to a closed
// object, polling it, or making another from it is ErrClosed.
//
// # Concurrency
//
// All methods may be called by several tasks at once, except where said. CQ
// handlers and event handlers run in the device's own context, or in that of whoever posted
// the work: they must not wait, and may post and poll.
package verbs

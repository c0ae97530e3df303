// Package softroce is an RDMA device in user space: reliable-connected queue
// pairs over packets, with the keys, rights, orders, timers and errors of hardware.
//
// A Network joins devices in one process, by a direct wire or a modelled link.
// It runs in virtual time or live. The engine runs in the goroutine that posts
// work or, on a link, in the event of a packet's arrival: there is no goroutine of its own.
//
// # Packets and copies
//
// A message is cut into packets of the path MTU. A packet holds a reference to
// its part of the sender's memory, and the receiver copies it into place: the only copy. So READ
// data is as it is when it arrives, which the order of work without a fence allows.
//
// # Addresses and keys
//
// A registered region has an address range of its own; addresses are not used
// again. A DMA mapping gives each page a frame somewhere in the DMA range, so
// that neighbouring pages are not neighbours. A key is an index and a tag byte
// that changes with each registration. All of them come from the seed.
//
// # Locks
//
// One goroutine at a time runs a queue pair's engine: who finds it idle runs it
// until nothing is left, others leave their work in its mailbox. No lock is held while the
// peer or a completion handler is called. What ends the right to use memory (flush,
// invalidation, deregistration) forbids new copies and then waits for those that run, which hold
// no lock on their memory. A packet whose memory was taken away counts as lost.
// Closing a completion queue or an ID waits for its handler.
//
// # Limits
//
// Atomics are not implemented. Connection management messages are not lost on a lossy link.
package softroce

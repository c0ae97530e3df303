// Command perf compares, in a guest, this module's client and server with the kernel's over the same device: READ and
// WRITE throughput, and what perftest gets out of the device alone. make guest-bench runs it.
//
// All is measured in one boot, one after the other: figures of different boots, or of the emulated machine and a real
// one, are not comparable; the ratios are.
package main

// Command guest boots Debian's own kernel in QEMU on a machine that has no RDMA device, makes a soft-RoCE (rxe) or
// soft-iWARP (siw) device in it, and runs programs and test binaries there. It needs neither KVM nor a network.
//
//	guest setup                    fetch and build what a guest needs
//	guest exec [flags] PROG ARG... run a program in a guest; its output and exit status are ours
//	guest shell [flags]            a prompt in a guest
//	guest test [flags]             the suites of suites.go on each device, and a summary
//	guest direct -dev NAME         the suites of a device, on this machine's own device NAME
//
// # What a guest is
//
// One virtual CPU, the kernel of Debian 12, an initramfs with the programs listed in contents.go, dummy0 with
// 10.9.0.1/24 and MTU 9000, on it rxe0 or siw0. Directories come in over 9p: the run's own at /host (writable), and
// read-only, at the paths that they have outside, the module and GOROOT. Besides Debian's programs it has
//
//	guest-rdma add rxe|siw [NETDEV] | del [rxe|siw]
//	guest-nfsd start [THREADS [SIZE]] | threads N | stop
//
// A program there finds NFSRDMA_GUEST=1, NFSRDMA_DEVICE=rxe0 or siw0 and NFSRDMA_ADDR=10.9.0.1 in its environment.
//
// # Cache
//
// All is kept in $NFSRDMA_CACHE, by default nfsrdma in the user's cache directory: a directory for each kernel and
// recipe, renamed into place when it is complete, and the logs of failed runs. A lock file serves one builder at a time.
package main

package main

import "embed"

// kernelPrograms come with the kernel's NFS server package, which is unpacked and never installed here.
var kernelPrograms = []string{"usr/sbin/exportfs", "usr/sbin/rpc.nfsd", "usr/sbin/rpc.mountd"}

// guestPrograms are copied from this machine to the same place in the guest, with the libraries that they need.
var guestPrograms = []string{
	"/usr/bin/kmod", "/usr/bin/dash", "/usr/bin/bash", "/usr/bin/strace", "/usr/bin/tcpdump",
	"/usr/bin/ibv_devices", "/usr/bin/ibv_devinfo", "/usr/bin/ibv_rc_pingpong", "/usr/bin/rping",
	"/usr/bin/ib_read_bw", "/usr/bin/ib_read_lat", "/usr/bin/ib_write_bw", "/usr/bin/ib_write_lat", "/usr/bin/ib_send_bw", "/usr/bin/ib_send_lat",
	"/usr/sbin/mount.nfs", "/usr/sbin/nfsstat", "/usr/sbin/rpcdebug", "/usr/sbin/rpcbind", "/usr/sbin/rpcinfo",
}

// guestCopies are other files of this machine, to where they go in the guest. /bin, /sbin and /lib are links into /usr there.
var guestCopies = map[string]string{
	"/bin/busybox": "/usr/bin/busybox",
	"/bin/ip":      "/usr/sbin/ip",
	"/bin/rdma":    "/usr/sbin/rdma",
	"/sbin/tc":     "/usr/sbin/tc",

	"/etc/libibverbs.d/rxe.driver": "/etc/libibverbs.d/rxe.driver",
	"/etc/libibverbs.d/siw.driver": "/etc/libibverbs.d/siw.driver",
	"/etc/netconfig":               "/etc/netconfig",
	"/etc/protocols":               "/etc/protocols",
	"/etc/rpc":                     "/etc/rpc",
	"/etc/services":                "/etc/services",
}

// guestPlugins are loaded by name while a program runs: nothing links them. libgcc_s is pthread_exit's.
var guestPlugins = map[string]string{
	libraryDirs[0] + "/libibverbs/librxe-rdmav34.so": "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
	libraryDirs[0] + "/libibverbs/libsiw-rdmav34.so": "/usr/lib/x86_64-linux-gnu/libibverbs/libsiw-rdmav34.so",
	"/lib/x86_64-linux-gnu/libgcc_s.so.1":            "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
}

// testLibraries are what test binaries of cgo packages need, whether or not a program above does.
var testLibraries = []string{"libibverbs.so.1", "librdmacm.so.1", "libnl-3.so.200", "libnl-route-3.so.200", "libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6", "libresolv.so.2"}

// shared are programs too large for the initramfs: they are exported from the cache, with their libraries.
var shared = []string{"/usr/bin/fio"}

// guestFiles are written as they stand. Only root and the users that daemons become exist.
var guestFiles = map[string]string{
	"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\n_rpc:x:105:65534::/run/rpcbind:/bin/false\n" +
		"statd:x:104:65534::/var/lib/nfs:/bin/false\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"/etc/group":         "root:x:0:\nnogroup:x:65534:\n",
	"/etc/hosts":         "127.0.0.1 localhost guest\n10.9.0.1 rdma\n",
	"/etc/hosts.allow":   "ALL: ALL\n",
	"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nrpc: files\nservices: files\nprotocols: files\nnetgroup: files\n",
	"/etc/profile":       "PS1='guest \\w # '\n",
}

// guestLinks are symbolic links, to their targets. The kernel and libtirpc look for rpcbind below /var/run.
var guestLinks = map[string]string{
	"/bin": "usr/bin", "/sbin": "usr/sbin", "/lib": "usr/lib", "/lib64": "usr/lib64",
	"/var/run": "../run", "/etc/mtab": "/proc/self/mounts",
	"/usr/bin/sh":          "dash", // busybox's sh would prefer its own ip and modprobe
	"/usr/sbin/modprobe":   "../bin/kmod",
	"/usr/sbin/insmod":     "../bin/kmod",
	"/usr/sbin/rmmod":      "../bin/kmod",
	"/usr/sbin/lsmod":      "../bin/kmod",
	"/usr/sbin/modinfo":    "../bin/kmod",
	"/usr/sbin/mount.nfs4": "mount.nfs",
}

// guestDirs exist and are empty.
var guestDirs = []string{"/proc", "/sys", "/dev", "/tmp", "/run", "/root", "/mnt", "/export", "/host", "/opt/shared",
	"/var/lib/nfs/rpc_pipefs", "/var/lib/nfs/v4recovery", "/var/lib/nfs/sm", "/var/lib/nfs/nfsdcltrack", "/var/log", "/var/tmp"}

// rootfs are the guest's own programs: init, and what doc.go lists.
//
//go:embed rootfs
var rootfs embed.FS

package linuxclient

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	mnt       = "/mnt"
	rdmaPort  = "20049"
	mountPort = "20048"
)

func clock() vfs.Time {
	t := time.Now()
	return vfs.Time{Sec: uint32(t.Unix()), Nsec: uint32(t.Nanosecond())}
}

// newMemFS loses in Crash what was not committed.
func newMemFS() *memfs.FS {
	return memfs.New(memfs.Options{Now: clock, RootMode: 0o777, TrackUnstable: true})
}

// rig is our server on the guest's device, and the kernel's mounts of it. Its checks run when the test ends.
type rig struct {
	t    *testing.T
	addr string
	fs   vfs.FS
	boot uint64
	log  *kernelLog

	mu  sync.Mutex // of dev and srv, which a test replaces while others ask
	dev verbs.Device
	srv *nfsserver.Server

	expected []string // counters of refusals that the test causes
	mounted  bool
}

var (
	warm   sync.Once
	warmed bool
)

func prepareKernel(t *testing.T) {
	sh(t, "modprobe", "-a", "rpcrdma", "nfs", "nfsv3")
	traceFailedMarshal(t)
}

// warmUp takes what is taken once: modules, and what librdmacm keeps of a device for the process's life.
func warmUp(t *testing.T) {
	warm.Do(func() {
		warmed = true
		prepareKernel(t)
		name, addr := inGuest(t)
		r := &rig{t: t, addr: addr, fs: newMemFS()}
		r.open(name)
		r.start()
		r.stop()
		require.NoError(t, r.dev.Close())
	})
}

func newRig(t *testing.T, fs vfs.FS) *rig {
	t.Helper()
	name, addr := inGuest(t)
	warmUp(t)
	before := resources(t, name)
	r := &rig{t: t, addr: addr, fs: fs, log: markKernelLog(t)}
	t.Cleanup(func() {
		r.umount()
		r.stop()
		if r.dev != nil {
			assert.NoError(t, r.dev.Close())
		}
		if fs, ok := fs.(interface{ CheckConsistent() error }); ok {
			assert.NoError(t, fs.CheckConsistent())
		}
		wantResources(t, name, before)
		assert.Empty(t, r.log.news(t), "the kernel's log")
	})
	r.open(name)
	r.start()
	return r
}

func (r *rig) open(name string) {
	dev, err := rdmacore.Open(name)
	require.NoError(r.t, err)
	r.dev = dev
}

// start starts an instance of the server, which is not the one before.
func (r *rig) start() {
	r.boot++
	srv, err := nfsserver.New(nfsserver.Config{
		Device:  r.dev,
		Addr:    net.JoinHostPort(r.addr, rdmaPort),
		TCP:     []string{":" + mountPort},
		Exports: []nfsserver.Export{{Path: "/export", FS: r.fs}},
		Boot:    r.boot,
	})
	require.NoError(r.t, err)
	r.mu.Lock()
	r.srv = srv
	r.mu.Unlock()
}

// stop ends the server as it is, and checks what it counted.
func (r *rig) stop() {
	r.mu.Lock()
	srv := r.srv
	r.srv = nil
	r.mu.Unlock()
	if srv == nil {
		return
	}
	assert.NoError(r.t, srv.Close())
	st := srv.Stats()
	assert.Empty(r.t, refusals(&st, r.expected), "the server refused something")
}

func (r *rig) stats() nfsserver.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.srv.Stats()
}

// mount mounts the export; options follow those that any mount of our server needs.
func (r *rig) mount(options string) {
	r.t.Helper()
	o := fmt.Sprintf("rdma,port=%s,vers=3,nolock,mountproto=tcp,mountport=%s,mountvers=3", rdmaPort, mountPort)
	if options != "" {
		o += "," + options
	}
	clearTrace(r.t)
	sh(r.t, "mount.nfs", r.addr+":/export", mnt, "-o", o)
	r.mounted = true
	require.Contains(r.t, mountOptions(r.t), "proto=rdma")
}

// umount ends the mount after a look at the kernel's counters.
func (r *rig) umount() {
	if !r.mounted {
		return
	}
	r.mounted = false
	if r.t.Failed() {
		cmd, cancel := command("umount", "-f", mnt)
		defer cancel()
		if cmd.Run() == nil {
			return
		}
	}
	x := xprtStats(r.t)
	r.t.Logf("%v", x)
	assert.Zero(r.t, x["bad_reply_count"])
	// The kernel counts a call that finds no MR too. It makes more and sends the call again.
	assert.EqualValues(r.t, retriedMarshal(r.t), x["failed_marshal_count"], "failed_marshal_count, less those for want of MRs")
	assert.Zero(r.t, x["bad_xids"])
	cmd, cancel := command("umount", mnt)
	defer cancel()
	if out, err := cmd.CombinedOutput(); !assert.NoError(r.t, err, "%s", out) {
		sh(r.t, "umount", "-f", "-l", mnt)
	}
}

// remount makes the kernel forget all that it knows.
func (r *rig) remount(options string) {
	r.t.Helper()
	r.umount()
	r.mount(options)
}

func dropCaches(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0o200))
}

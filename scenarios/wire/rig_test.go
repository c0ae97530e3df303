package wire

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

var bg = context.Background()

// rig is a server in virtual time with what the captured server exported: file handles are the same in each.
type rig struct {
	s    *sched.Sched
	cdev verbs.Device
	rec  *recorder
}

const addr = "server:20049"

func newRig(t *testing.T, p softroce.Personality) *rig {
	t.Helper()
	s := sched.NewVirtual(1)
	net := softroce.NewNetwork(s, softroce.NetConfig{})
	rec := &recorder{}
	device := func(name string, client bool) verbs.Device {
		d, err := net.NewDevice(name, p)
		require.NoError(t, err)
		return &tap{d, rec, client}
	}
	sdev, cdev := device("server", false), device("client", true)
	srv, err := nfsserver.New(nfsserver.Config{
		Device: sdev, Addr: addr, Sched: s,
		Exports: []nfsserver.Export{{Path: "/export", FS: exported(t)}},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.NoError(t, cdev.Close())
		require.NoError(t, sdev.Close())
		require.NoError(t, s.Close())
	})
	return &rig{s, cdev, rec}
}

const (
	bigNames = 500
	roSize   = 1 << 20
)

// exported makes the tree: a directory of 500 names of 199 bytes, and a file of 1 MiB.
func exported(t *testing.T) vfs.FS {
	t.Helper()
	f := memfs.New(memfs.Options{RootMode: 0o777})
	var a vfs.Attr
	var w vfs.WCC
	require.NoError(t, f.Mkdir(bg, f.Root(), "big", &vfs.SetAttr{SetMode: true, Mode: 0o755}, &a, &w))
	big := a.ID
	tail := strings.Repeat("n", 190)
	for i := range bigNames {
		name := fmt.Sprintf("file-%d-%s", 100+i, tail)
		require.NoError(t, f.Create(bg, big, name, vfs.Unchecked, 0, &vfs.SetAttr{SetMode: true, Mode: 0o644}, &a, &w))
	}
	require.NoError(t, f.Create(bg, f.Root(), "ro", vfs.Unchecked, 0, &vfs.SetAttr{SetMode: true, Mode: 0o644}, &a, &w))
	require.NoError(t, f.Write(bg, a.ID, 0, random(roSize), true, &w))
	return f
}

func random(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

// session has our client do what Linux's did: the same procedures with the same arguments, as far as they
// are the caller's choice.
func session(t *testing.T, r *rig) {
	t.Helper()
	m, err := nfsclient.New(bg, nfsclient.Config{Device: r.cdev, Addr: addr, Export: "/export", Sched: r.s})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	root := m.Root()
	ok := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	lookup := func(dir nfsclient.FH, name string) nfsclient.FH {
		t.Helper()
		l, err := m.Lookup(bg, dir, name)
		require.NoError(t, err)
		return l.FH
	}
	mode := func(m uint32) nfsclient.Sattr { return nfsclient.Sattr{SetMode: true, Mode: m} }
	create := func(dir nfsclient.FH, name string) nfsclient.FH {
		t.Helper()
		_, err := m.Lookup(bg, dir, name)
		require.ErrorIs(t, err, nfsclient.NFS3ERR_NOENT)
		c, err := m.Create(bg, dir, name, nfsclient.CreateHow{Mode: nfsclient.UNCHECKED, Attr: mode(0o644)})
		require.NoError(t, err)
		return c.FH
	}
	write := func(fh nfsclient.FH, off uint64, n int, how nfsclient.StableHow) {
		t.Helper()
		w, err := m.Write(bg, fh, off, make([]byte, n), how)
		require.NoError(t, err)
		require.Equal(t, n, w.Count)
	}
	read := func(fh nfsclient.FH, off uint64, n, want int) {
		t.Helper()
		got, _, err := m.Read(bg, fh, off, make([]byte, n))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}

	ok(m.Null(bg))
	_, err = m.PathConf(bg, root)
	ok(err)
	_, err = m.GetAttr(bg, root)
	ok(err)
	_, err = m.Access(bg, root, 0x1f)
	ok(err)
	set := mode(0o755)
	made, err := m.Mkdir(bg, root, "d", &set)
	ok(err)
	d := made.FH

	tiny := create(d, "tiny")
	write(tiny, 0, 3, nfsclient.FILE_SYNC)
	for _, n := range []int{2000, 5000, 65537} {
		write(create(d, fmt.Sprintf("w%d", n)), 0, n, nfsclient.FILE_SYNC)
	}
	lookup(d, "tiny")
	read(tiny, 0, 4096, 3)
	read(lookup(d, "w2000"), 0, 4096, 2000)
	read(lookup(d, "w5000"), 0, 8192, 5000)
	w64k1 := lookup(d, "w65537")
	read(w64k1, 0, 16384, 16384)
	read(w64k1, 16384, 32768, 32768)
	read(w64k1, 49152, 20480, 16385)

	big := lookup(root, "big")
	first, err := m.ReadDirPlus(bg, big, 0, nfsclient.Verf{}, 65536, 65536)
	ok(err)
	var last nfsclient.EntryPlus
	for l := first.Entries; l.Next(&last); {
		continue
	}
	_, err = m.ReadDirPlus(bg, big, last.Cookie, first.Verf, 131072, 131072)
	ok(err)

	set = mode(0o777)
	for i, target := range []string{"short", strings.Repeat("t", 900), strings.Repeat("t", 4000)} {
		c, err := m.Symlink(bg, d, fmt.Sprintf("s%d", i+1), target, &set)
		ok(err)
		got, err := m.ReadLink(bg, c.FH)
		ok(err)
		require.Equal(t, target, got)
	}
	ok(m.Rename(bg, d, "tiny", d, "tiny2"))
	_, err = m.Link(bg, tiny, d, "hard")
	ok(err)
	_, err = m.Remove(bg, d, "tiny2")
	ok(err)
	_, err = m.FSStat(bg, root)
	ok(err)

	f := create(root, "f1m")
	for _, off := range []uint64{262144, 524288, 786432, 0} { // the order in which Linux's server saw them
		write(f, off, 262144, nfsclient.UNSTABLE)
	}
	_, err = m.Commit(bg, f, 0, 0)
	ok(err)
	ro := lookup(root, "ro")
	for off := uint64(0); off < roSize; off += 262144 {
		read(ro, off, 262144, 262144)
	}
}

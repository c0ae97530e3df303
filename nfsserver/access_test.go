package nfsserver_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
)

const allBits = 0x3f

// TestAccessTable goes over owner, group, other and root, with every mode, on a file and a directory: ACCESS
// says what then works.
func TestAccessTable(t *testing.T) {
	e := newEnv(t, envOpt{})
	f := e.newFile("f", []byte("data"))
	d := e.mkdir(e.root, "d", 0o777).Object.FH
	okStatus(t, e.create(d, "in", 0o777).Status)
	own := nfs3.Sattr3{SetUID: true, UID: 10, SetGID: true, GID: 20}
	okStatus(t, e.setattr(f, own).Status)
	okStatus(t, e.setattr(d, own).Status)
	callers := []struct {
		name   string
		uid    uint32
		groups []uint32
		shift  int // of the class in the mode
		root   bool
	}{
		{"owner", 10, nil, 6, false},
		{"owner, who is in the group too", 10, []uint32{20}, 6, false},
		{"group", 20, nil, 3, false},
		{"group by a supplementary group", 30, []uint32{1, 20}, 3, false},
		{"other", 40, []uint32{41}, 0, false},
		{"root", 0, nil, 0, true},
	}
	for bits := range uint32(8) {
		for _, c := range callers {
			name := fmt.Sprintf("%s %03b", c.name, bits)
			mode := bits << c.shift
			if c.root {
				mode = bits << 6
			}
			e.setUID(0)
			okStatus(t, e.setattr(f, nfs3.Sattr3{SetMode: true, Mode: mode}).Status)
			okStatus(t, e.setattr(d, nfs3.Sattr3{SetMode: true, Mode: mode}).Status)
			e.setUID(c.uid, c.groups...)
			r, w, x := bits&4 != 0 || c.root, bits&2 != 0 || c.root, bits&1 != 0

			var wantFile, wantDir uint32
			if r {
				wantFile |= nfs3.ACCESS3_READ
				wantDir |= nfs3.ACCESS3_READ
			}
			if w {
				wantFile |= nfs3.ACCESS3_MODIFY | nfs3.ACCESS3_EXTEND
				wantDir |= nfs3.ACCESS3_MODIFY | nfs3.ACCESS3_EXTEND | nfs3.ACCESS3_DELETE
			}
			if x {
				wantFile |= nfs3.ACCESS3_EXECUTE
			}
			if x || c.root {
				wantDir |= nfs3.ACCESS3_LOOKUP
			}
			assert.Equal(t, wantFile, e.access(f, allBits), "%s: file", name)
			assert.Equal(t, wantDir, e.access(d, allBits), "%s: directory", name)
			assert.Equal(t, wantDir&nfs3.ACCESS3_READ, e.access(d, nfs3.ACCESS3_READ), "only what was asked for")

			can := func(ok bool, st nfs3.Status, what string) {
				t.Helper()
				if ok {
					assert.Equal(t, nfs3.NFS3_OK, st, "%s: %s", name, what)
				} else {
					assert.Equal(t, nfs3.NFS3ERR_ACCES, st, "%s: %s", name, what)
				}
			}
			owner := c.uid == 10
			can(r || x || owner, e.read(f, 0, 4).Status, "READ")
			can(w || owner, e.write(f, 0, []byte("data"), nfs3.UNSTABLE).Status, "WRITE")
			can(w || owner, e.commit(f, 0, 0).Status, "COMMIT")
			can(w || owner, e.setattr(f, nfs3.Sattr3{SetSize: true, Size: 4}).Status, "truncate")
			can(w || owner, e.setattr(f, nfs3.Sattr3{MtimeHow: nfs3.SET_TO_SERVER_TIME}).Status, "touch")
			dx := x || c.root
			can(dx, e.lookup(d, "in").Status, "LOOKUP")
			can(w && dx, e.create(d, "new", 0o666).Status, "CREATE")
			can(r, do(e, nfs3.READDIR, nfs3.AppendReaddirArgs, &nfs3.ReaddirArgs{Dir: d, Count: 1000}, nfs3.ConsumeReaddirRes).Status, "READDIR")
			if w && dx {
				okStatus(t, e.rename(d, "new", d, "newer").Status)
				okStatus(t, e.link(f, d, "hard").Status)
				e.remove(d, "hard")
				e.remove(d, "newer")
				okStatus(t, e.mkdir(d, "sub", 0o777).Status)
				okStatus(t, e.rmdir(d, "sub").Status)
			} else {
				can(false, e.rename(d, "in", d, "out").Status, "RENAME")
				can(false, e.link(f, d, "hard").Status, "LINK")
				can(false, e.symlink(d, "soft", "x").Status, "SYMLINK")
				can(false, e.mkdir(d, "sub", 0o777).Status, "MKDIR")
				can(false, e.rmdir(d, "in").Status, "RMDIR")
			}
		}
	}
}

func TestSetattrPermissions(t *testing.T) {
	e := newEnv(t, envOpt{})
	e.setUID(10, 11)
	f := e.create(e.root, "f", 0o6755).Object.FH
	client := nfs3.Sattr3{AtimeHow: nfs3.SET_TO_CLIENT_TIME}
	okStatus(t, e.setattr(f, client).Status)
	okStatus(t, e.setattr(f, nfs3.Sattr3{SetGID: true, GID: 11}).Status)
	assert.EqualValues(t, 0o755, e.getattr(f).Attr.Mode, "set-ID bits go with the group")
	okStatus(t, e.setattr(f, nfs3.Sattr3{SetUID: true, UID: 10}).Status)
	assert.Equal(t, nfs3.NFS3ERR_PERM, e.setattr(f, nfs3.Sattr3{SetUID: true, UID: 12}).Status, "giving away")
	assert.Equal(t, nfs3.NFS3ERR_PERM, e.setattr(f, nfs3.Sattr3{SetGID: true, GID: 12}).Status, "a group of others")
	e.setUID(99)
	for _, s := range []nfs3.Sattr3{client, {SetMode: true, Mode: 0o777}, {SetGID: true, GID: 99}, {SetUID: true, UID: 99}} {
		assert.Equal(t, nfs3.NFS3ERR_PERM, e.setattr(f, s).Status, "%v", &s)
	}
	assert.Equal(t, nfs3.NFS3ERR_ACCES, e.setattr(f, nfs3.Sattr3{SetSize: true}).Status)

	// What a stranger writes loses its set-ID bits.
	e.setUID(0)
	okStatus(t, e.setattr(f, nfs3.Sattr3{SetMode: true, Mode: 0o6777}).Status)
	e.setUID(99)
	okStatus(t, e.write(f, 0, []byte("x"), nfs3.UNSTABLE).Status)
	assert.EqualValues(t, 0o777, e.getattr(f).Attr.Mode)

	// A setgid directory hands its group down.
	e.setUID(0)
	okStatus(t, e.mkdir(e.root, "g", 0o777).Status)
	g := e.lookup(e.root, "g").Object
	okStatus(t, e.setattr(g, nfs3.Sattr3{SetGID: true, GID: 77, SetMode: true, Mode: 0o2777}).Status)
	e.setUID(10)
	assert.EqualValues(t, 77, e.create(g, "f", 0o644).ObjAttr.Attr.GID)
	sub := e.mkdir(g, "d", 0o755).ObjAttr.Attr
	assert.EqualValues(t, 77, sub.GID)
	assert.EqualValues(t, 0o2755, sub.Mode)
}

func TestStickyDirectory(t *testing.T) {
	e := newEnv(t, envOpt{})
	e.setUID(1)
	tmp := e.mkdir(e.root, "tmp", 0o1777).Object.FH
	e.setUID(10)
	for _, name := range []string{"a", "b", "c"} {
		okStatus(t, e.create(tmp, name, 0o666).Status)
	}
	okStatus(t, e.mkdir(tmp, "d", 0o777).Status)
	e.setUID(11)
	okStatus(t, e.create(tmp, "mine", 0o666).Status)
	unlink := func(name string) nfs3.Status {
		return do(e, nfs3.REMOVE, nfs3.AppendRemoveArgs, &nfs3.RemoveArgs{Object: dirOp(tmp, name)}, nfs3.ConsumeRemoveRes).Status
	}
	assert.Equal(t, nfs3.NFS3ERR_PERM, unlink("a"))
	assert.Equal(t, nfs3.NFS3ERR_PERM, e.rmdir(tmp, "d").Status)
	assert.Equal(t, nfs3.NFS3ERR_PERM, e.rename(tmp, "a", tmp, "e").Status, "away")
	assert.Equal(t, nfs3.NFS3ERR_PERM, e.rename(tmp, "mine", tmp, "a").Status, "over")
	okStatus(t, e.rename(tmp, "mine", tmp, "still-mine").Status)
	okStatus(t, unlink("still-mine"))
	e.setUID(10)
	okStatus(t, unlink("a")) // the file's owner
	e.setUID(1)
	okStatus(t, unlink("b")) // the directory's owner
	e.setUID(0)
	okStatus(t, unlink("c"))
}

func TestSquashAndReadOnly(t *testing.T) {
	fs := func() *memfs.FS { return memfs.New(memfs.Options{RootMode: 0o777}) }
	a, b, c := fs(), fs(), fs()
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Exports: []nfsserver.Export{
		{Path: "/root", FS: a, RootSquash: true},
		{Path: "/all", FS: b, AllSquash: true, AnonUID: 42, AnonGID: 43},
		{Path: "/ro", FS: c, ReadOnly: true},
	}}})
	owner := func(fs *memfs.FS, fsid, uid uint32) [2]uint32 {
		e.setUID(uid, 0, 7)
		r := e.create(e.rootFH(fs, fsid), fmt.Sprint("f", uid), 0o600)
		okStatus(t, r.Status)
		return [2]uint32{r.ObjAttr.Attr.UID, r.ObjAttr.Attr.GID}
	}
	assert.Equal(t, [2]uint32{65534, 65534}, owner(a, 1, 0))
	assert.Equal(t, [2]uint32{10, 10}, owner(a, 1, 10))
	assert.Equal(t, [2]uint32{42, 43}, owner(b, 2, 0))
	assert.Equal(t, [2]uint32{42, 43}, owner(b, 2, 10))
	e.setUID(0)
	e.auth = rpc.Auth{} // AUTH_NONE
	r := e.create(e.rootFH(a, 1), "none", 0o600)
	okStatus(t, r.Status)
	assert.EqualValues(t, 65534, r.ObjAttr.Attr.UID)

	ro := e.rootFH(c, 3)
	e.setUID(0)
	assert.Equal(t, nfs3.NFS3ERR_ROFS, e.create(ro, "f", 0o600).Status)
	assert.Equal(t, nfs3.NFS3ERR_ROFS, e.mkdir(ro, "f", 0o600).Status)
	assert.Equal(t, nfs3.NFS3ERR_ROFS, e.setattr(ro, nfs3.Sattr3{SetMode: true}).Status)
	assert.Equal(t, nfs3.NFS3ERR_ROFS, e.write(ro, 0, []byte("x"), nfs3.UNSTABLE).Status)
	assert.Equal(t, nfs3.NFS3ERR_ROFS, e.rename(ro, "a", ro, "b").Status)
	assert.EqualValues(t, nfs3.ACCESS3_READ|nfs3.ACCESS3_LOOKUP, e.access(ro, allBits))
}

package nfsclient_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsclient"
)

// Every procedure, in each mode, and what it leaves behind.
func TestProcedures(t *testing.T) {
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) { testProcedures(t, newEnv(t, mode(m))) })
	}
}

func testProcedures(t *testing.T, e *env) {
	m, root := e.m, e.m.Root()
	perm := func(mode uint32) nfsclient.Sattr { return nfsclient.Sattr{SetMode: true, Mode: mode} }
	require.NoError(t, m.Null(bg))

	set := perm(0o755)
	dir, err := m.Mkdir(bg, root, "dir", &set)
	require.NoError(t, err)
	require.True(t, dir.HasFH)
	assert.Equal(t, nfsclient.NF3DIR, dir.Attr.Attr.Type)

	f, err := m.Create(bg, dir.FH, "file", nfsclient.CreateHow{Mode: nfsclient.GUARDED, Attr: perm(0o640)})
	require.NoError(t, err)
	assert.EqualValues(t, 0o640, f.Attr.Attr.Mode)
	_, err = m.Create(bg, dir.FH, "file", nfsclient.CreateHow{Mode: nfsclient.GUARDED})
	assert.ErrorIs(t, err, fs.ErrExist)
	v := nfsclient.Verf{1, 2, 3}
	x1, err := m.Create(bg, dir.FH, "excl", nfsclient.CreateHow{Mode: nfsclient.EXCLUSIVE, Verf: v})
	require.NoError(t, err)
	x2, err := m.Create(bg, dir.FH, "excl", nfsclient.CreateHow{Mode: nfsclient.EXCLUSIVE, Verf: v})
	require.NoError(t, err, "a retransmission, told by its verifier")
	assert.Equal(t, x1.FH, x2.FH)

	data := pattern(3000, 1)
	w, err := m.Write(bg, f.FH, 10, data, nfsclient.FILE_SYNC)
	require.NoError(t, err)
	assert.Equal(t, nfsclient.WriteResult{Count: 3000, Committed: nfsclient.FILE_SYNC, Verf: w.Verf}, w)
	buf := make([]byte, 3500)
	n, eof, err := m.Read(bg, f.FH, 0, buf)
	require.NoError(t, err)
	assert.Equal(t, 3010, n)
	assert.True(t, eof)
	assert.Equal(t, append(make([]byte, 10), data...), buf[:n])
	n, eof, err = m.Read(bg, f.FH, 3010, buf)
	require.NoError(t, err)
	assert.Zero(t, n)
	assert.True(t, eof)
	n, _, err = m.Read(bg, f.FH, 5, nil)
	require.NoError(t, err)
	assert.Zero(t, n)
	verf, err := m.Commit(bg, f.FH, 0, 0)
	require.NoError(t, err)
	assert.Equal(t, w.Verf, verf)

	a, err := m.GetAttr(bg, f.FH)
	require.NoError(t, err)
	assert.EqualValues(t, 3010, a.Size)
	_, err = m.SetAttr(bg, f.FH, &nfsclient.Sattr{SetSize: true, Size: 7}, &nfsclient.Time{Sec: 1})
	assert.ErrorIs(t, err, nfsclient.NFS3ERR_NOT_SYNC)
	_, err = m.SetAttr(bg, f.FH, &nfsclient.Sattr{SetSize: true, Size: 7}, &a.Ctime)
	require.NoError(t, err)

	l, err := m.Lookup(bg, dir.FH, "file")
	require.NoError(t, err)
	assert.Equal(t, f.FH, l.FH)
	assert.EqualValues(t, 7, l.Attr.Attr.Size)
	bits, err := m.Access(bg, f.FH, nfsclient.ACCESS3_READ|nfsclient.ACCESS3_MODIFY)
	require.NoError(t, err)
	assert.EqualValues(t, nfsclient.ACCESS3_READ|nfsclient.ACCESS3_MODIFY, bits)

	for _, target := range []string{"file", strings.Repeat("x/", 450), strings.Repeat("long", 255)} {
		s, err := m.Symlink(bg, dir.FH, "link", target, &nfsclient.Sattr{})
		require.NoError(t, err)
		got, err := m.ReadLink(bg, s.FH)
		require.NoError(t, err)
		assert.Equal(t, target, got)
		_, err = m.Remove(bg, dir.FH, "link")
		require.NoError(t, err)
	}
	fifo, err := m.Mknod(bg, dir.FH, "fifo", nfsclient.NF3FIFO, &set, nfsclient.Spec{})
	require.NoError(t, err)
	assert.Equal(t, nfsclient.NF3FIFO, fifo.Attr.Attr.Type)
	chr, err := m.Mknod(bg, dir.FH, "chr", nfsclient.NF3CHR, &set, nfsclient.Spec{Major: 1, Minor: 3})
	require.NoError(t, err)
	assert.Equal(t, nfsclient.Spec{Major: 1, Minor: 3}, chr.Attr.Attr.Rdev)

	pa, err := m.Link(bg, f.FH, root, "hard")
	require.NoError(t, err)
	assert.EqualValues(t, 2, pa.Attr.Nlink)
	require.NoError(t, m.Rename(bg, root, "hard", dir.FH, "renamed"))
	_, err = m.Lookup(bg, root, "hard")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.EqualError(t, err, `LOOKUP "hard": NFS3ERR_NOENT`)

	_, err = m.Rmdir(bg, root, "dir")
	assert.ErrorIs(t, err, nfsclient.NFS3ERR_NOTEMPTY)
	_, err = m.Remove(bg, dir.FH, "renamed")
	require.NoError(t, err)

	st, err := m.FSStat(bg, root)
	require.NoError(t, err)
	assert.Positive(t, st.TotalBytes)
	fi, err := m.FSInfo(bg, root)
	require.NoError(t, err)
	assert.Positive(t, fi.RtMax)
	pc, err := m.PathConf(bg, root)
	require.NoError(t, err)
	assert.EqualValues(t, 255, pc.NameMax)
	assert.Zero(t, e.counter("bad_reply_count"))
}

// Directories of several results, through inline replies and Reply chunks.
func TestReadDir(t *testing.T) {
	for _, m := range modes {
		for _, count := range []uint32{0, 512, 3900, 30000} {
			if m == nfsclient.Bounce && count > 3900 {
				continue
			}
			t.Run(fmt.Sprint(m, count), func(t *testing.T) {
				e := newEnv(t, mode(m))
				want := map[string]bool{}
				for i := range 300 {
					name := fmt.Sprintf("%03d-%s", i, strings.Repeat("n", i%200))
					_, err := e.m.Create(bg, e.m.Root(), name, nfsclient.CreateHow{})
					require.NoError(t, err)
					want[name] = true
				}
				got, plus := map[string]bool{}, map[string]bool{}
				var cookie uint64
				var verf nfsclient.Verf
				for eof := false; !eof; {
					res, err := e.m.ReadDir(bg, e.m.Root(), cookie, verf, count)
					require.NoError(t, err)
					var x nfsclient.Entry
					for l := res.Entries; l.Next(&x); cookie = x.Cookie {
						got[string(x.Name)] = true
					}
					verf, eof = res.Verf, res.EOF
				}
				cookie, verf = 0, nfsclient.Verf{}
				for eof := false; !eof; {
					res, err := e.m.ReadDirPlus(bg, e.m.Root(), cookie, verf, 0, count)
					require.NoError(t, err)
					var x nfsclient.EntryPlus
					for l := res.Entries; l.Next(&x); cookie = x.Cookie {
						plus[string(x.Name)] = x.Attr.Present && x.FH.Present
					}
					verf, eof = res.Verf, res.EOF
				}
				delete(got, ".")
				delete(got, "..")
				delete(plus, ".")
				delete(plus, "..")
				assert.Equal(t, want, got)
				assert.Equal(t, want, plus)
				if count > 4000 {
					assert.Positive(t, e.counter("reply_chunk_count"))
				}
			})
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status nfsclient.Status
		target error
	}{
		{nfsclient.NFS3ERR_NOENT, fs.ErrNotExist},
		{nfsclient.NFS3ERR_STALE, fs.ErrNotExist},
		{nfsclient.NFS3ERR_EXIST, fs.ErrExist},
		{nfsclient.NFS3ERR_NOTEMPTY, fs.ErrExist},
		{nfsclient.NFS3ERR_PERM, fs.ErrPermission},
		{nfsclient.NFS3ERR_ACCES, fs.ErrPermission},
		{nfsclient.NFS3ERR_INVAL, fs.ErrInvalid},
		{nfsclient.NFS3ERR_NOTSUPP, errors.ErrUnsupported},
	} {
		err := &nfsclient.Error{Op: "REMOVE", Name: "x", Status: c.status}
		assert.ErrorIs(t, err, c.target)
		assert.ErrorIs(t, err, c.status)
		assert.NotErrorIs(t, err, nfsclient.NFS3ERR_IO)
		assert.NotErrorIs(t, &nfsclient.Error{Status: nfsclient.NFS3ERR_IO}, c.target)
	}
}

// A long name makes a call that does not fit 1024 bytes inline: it goes as a position-zero Read chunk.
func TestLongCall(t *testing.T) {
	for _, m := range []nfsclient.RegMode{nfsclient.FastReg, nfsclient.AllPhysical} {
		e := newEnv(t, mode(m), client(func(c *nfsclient.Config) {
			c.InlineSend, c.Cred.GIDs, c.Cred.Machine = 1024, make([]uint32, 16), strings.Repeat("m", 255)
		}))
		long := strings.Repeat("a", 400)
		err := e.m.Rename(bg, e.m.Root(), long, e.m.Root(), long)
		assert.ErrorIs(t, err, nfsclient.NFS3ERR_NAMETOOLONG)
		assert.Equal(t, 1, e.counter("nomsg_call_count"))
	}
	e := newEnv(t, mode(nfsclient.Bounce), client(func(c *nfsclient.Config) { c.InlineSend = 1024 }))
	err := e.m.Rename(bg, e.m.Root(), strings.Repeat("a", 600), e.m.Root(), strings.Repeat("a", 600))
	assert.ErrorIs(t, err, nfsclient.ErrMarshal)
	assert.ErrorContains(t, err, "exceeds 1024, the limit of InlineSend")
	assert.Equal(t, 1, e.counter("failed_marshal_count"))
}

// C39: just the items that RFC 8267 section 4 lists move in Read and Write chunks.
func TestC39EligibleItems(t *testing.T) {
	var lines []string
	e := newEnv(t, client(func(c *nfsclient.Config) {
		c.InlineSend, c.InlineRecv = 1024, 1024
		c.Trace = func(l string) { lines = append(lines, l) }
	}))
	m := e.m
	require.NoError(t, m.WriteFile(bg, "f", pattern(5000, 1), 0o644))
	_, err := m.ReadFile(bg, "f")
	require.NoError(t, err)
	f, _, err := m.LookupPath(bg, "f")
	require.NoError(t, err)
	_, err = m.Commit(bg, f, 0, 0)
	require.NoError(t, err)
	s, err := m.Symlink(bg, m.Root(), "l", strings.Repeat("t/", 500), &nfsclient.Sattr{})
	require.NoError(t, err)
	_, err = m.ReadLink(bg, s.FH)
	require.NoError(t, err)
	_, err = m.ReadDirPlus(bg, m.Root(), 0, nfsclient.Verf{}, 0, 8000)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, l := range lines {
		if !strings.HasPrefix(l, "> ") {
			continue
		}
		op := strings.Fields(strings.SplitN(l, " | ", 2)[1])[0]
		assert.Equal(t, op == "WRITE" || op == "SYMLINK", strings.Contains(l, " reads=["), l)
		assert.Equal(t, op == "READ" || op == "READLINK", strings.Contains(l, " writes=["), l)
		seen[op] = true
	}
	for _, op := range []string{"WRITE", "SYMLINK", "READ", "READLINK", "READDIRPLUS", "LOOKUP", "CREATE", "COMMIT"} {
		assert.True(t, seen[op], op)
	}
}

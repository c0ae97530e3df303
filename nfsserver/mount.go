package nfsserver

import (
	"slices"
	"sync"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/nfsserver/vfs"
)

// mountMax bounds the list of mounts, which only DUMP shows.
const mountMax = 1024

// mountList remembers who mounted what.
type mountList struct {
	mu   sync.Mutex
	list []mounted
}

type mounted struct{ host, path string }

func (l *mountList) add(host, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := mounted{host, path}
	if !slices.Contains(l.list, m) && len(l.list) < mountMax {
		l.list = append(l.list, m)
	}
}

// remove forgets the mount of path by host; path "" is all.
func (l *mountList) remove(host, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(m mounted) bool { return m.host == host && (path == "" || m.path == path) })
}

func (l *mountList) dump() []mount3.Mount {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []mount3.Mount
	for _, m := range l.list {
		out = append(out, mount3.Mount{Hostname: []byte(m.host), Path: []byte(m.path)})
	}
	return out
}

// mount executes a call of the MOUNT program.
func (t *thread) mount(r svc.Request, args []byte) {
	proc := mount3.Proc(t.call.Proc)
	_, _, chunk := r.ReadChunk()
	switch {
	case t.call.Vers != mount3.Version:
		t.srv.n.progMismatch.Add(1)
		t.reject(r, &rpc.Reply{Accept: rpc.PROG_MISMATCH, Low: mount3.Version, High: mount3.Version})
		return
	case proc > mount3.EXPORT:
		t.srv.n.procUnavail.Add(1)
		t.reject(r, &rpc.Reply{Accept: rpc.PROC_UNAVAIL})
		return
	case chunk:
		t.badChunk(r)
		return
	}
	var a mount3.PathArgs
	if proc == mount3.MNT || proc == mount3.UMNT {
		if _, err := mount3.ConsumePathArgs(args, &a); err != nil {
			t.garbage(r)
			return
		}
	}
	t.srv.n.mount.Add(1)
	host := r.Host()
	var b []byte
	switch proc {
	case mount3.MNT:
		b = t.mnt(host, string(a.Path))
	case mount3.DUMP:
		b = mount3.AppendDumpRes(nil, &mount3.DumpRes{Mounts: t.srv.mounts.dump()})
	case mount3.UMNT:
		t.srv.mounts.remove(host, string(a.Path))
	case mount3.UMNTALL:
		t.srv.mounts.remove(host, "")
	case mount3.EXPORT:
		var res mount3.ExportRes
		for _, e := range t.srv.exports {
			res.Exports = append(res.Exports, mount3.Export{Path: []byte(e.Path)})
		}
		b = mount3.AppendExportRes(nil, &res)
	}
	t.sendLong(r, b)
}

func (t *thread) mnt(host, path string) []byte {
	res := mount3.MntRes{Flavors: []rpc.Flavor{rpc.AUTH_SYS, rpc.AUTH_NONE}}
	e, rest := t.srv.find(path)
	if e == nil {
		res.Status = mount3.MNT3ERR_ACCES
		return mount3.AppendMntRes(nil, &res)
	}
	var a vfs.Attr
	err := e.walk(t.ctx, rest, &a)
	if err == nil && a.Type != vfs.Directory {
		err = vfs.ErrNotDir
	}
	if err != nil {
		res.Status = mountStatus(status(err))
		return mount3.AppendMntRes(nil, &res)
	}
	res.FH = e.handle(a.ID)
	t.srv.mounts.add(host, path)
	return mount3.AppendMntRes(nil, &res)
}

// mountStatus maps a status: mountstat3 has the same values, but fewer.
func mountStatus(st nfs3.Status) mount3.Status {
	switch m := mount3.Status(st); m {
	case mount3.MNT3ERR_PERM, mount3.MNT3ERR_NOENT, mount3.MNT3ERR_IO, mount3.MNT3ERR_ACCES, mount3.MNT3ERR_NOTDIR,
		mount3.MNT3ERR_INVAL, mount3.MNT3ERR_NAMETOOLONG:
		return m
	}
	return mount3.MNT3ERR_SERVERFAULT
}

// sendLong answers with a result that may be longer than an inline message.
func (t *thread) sendLong(r svc.Request, result []byte) {
	n := rpc.SuccessLen + len(result)
	big := n > r.MaxInline()
	if big {
		if n > t.maxPayload {
			t.reject(r, &rpc.Reply{Accept: rpc.SYSTEM_ERR})
			return
		}
		buf, err := r.Need(n)
		if err != nil {
			t.reject(r, &rpc.Reply{Accept: rpc.SYSTEM_ERR})
			return
		}
		if buf == nil {
			return
		}
	}
	p := r.Reply(t.xt)
	if p == nil {
		return
	}
	if big {
		p.UseBuffer(r)
	}
	p.Msg = append(rpc.AppendReplySuccess(p.Msg, r.XID()), result...)
	p.Send(t.xt, r)
}

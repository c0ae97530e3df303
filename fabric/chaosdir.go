package fabric

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"example.org/nfsrdma/nfsclient"
)

// at is a name as directory and component.
func (t *chaosTask) at(name string) (nfsclient.FH, string) {
	if n, ok := strings.CutPrefix(name, "sub/"); ok {
		return t.dirs[1], n
	}
	return t.dirs[0], name
}

// name draws a name that is surely not there, or surely of an object of one of these kinds.
func (t *chaosTask) name(kinds ...nfsclient.FType) (string, bool) {
	fit := t.names.fit(kinds...)
	if len(fit) == 0 {
		return "", false
	}
	return fit[t.r.IntN(len(fit))], true
}

// unsure says that a call on a name ended with an error. Made, if not nil, is what it may have made.
func (t *chaosTask) unsure(ctx context.Context, settled bool, name string, made *chaosObj) {
	if !settled {
		t.names.murky[name] = true
		return
	}
	dir, n := t.at(name)
	gen := t.gen()
	res, err := t.m.Lookup(ctx, dir, n)
	t.judge("LOOKUP", gen, notNoEnt(err))
	switch {
	case err == nil && res.Attr.Present:
		id, kind := res.Attr.Attr.FileID, res.Attr.Attr.Type
		if made != nil && kind == made.kind {
			made.fh = res.FH
			t.keep(t.names.add(name, id, made))
			return
		}
		t.keep(t.names.check(name, id))
		t.names.set(name, id)
	case errors.Is(err, nfsclient.NFS3ERR_NOENT):
		t.keep(t.names.check(name, 0))
		t.names.set(name, 0)
	default:
		t.names.murky[name] = t.names.murky[name] || made != nil // of an unknown number
	}
}

// notNoEnt is err without the status that says that a name is not there.
func notNoEnt(err error) error {
	if errors.Is(err, nfsclient.NFS3ERR_NOENT) {
		return nil
	}
	return err
}

// keep notes what a check says.
func (t *chaosTask) keep(err error) {
	if err != nil {
		t.c.violated(err)
	}
}

// made notes how the call ended that was to make an object.
func (t *chaosTask) made(ctx context.Context, what, name string, gen uint32, o *chaosObj, res nfsclient.Created, err error) bool {
	settled := t.judge(what, gen, err)
	switch {
	case err != nil:
		t.unsure(ctx, settled, name, o)
		return false
	case !res.HasFH || !res.Attr.Present:
		t.violated("%s of %s gives neither handle nor attributes", what, name)
		t.names.murky[name] = true
		return false
	}
	if k := res.Attr.Attr.Type; k != o.kind {
		t.violated("%s made %v", what, k)
	}
	o.fh = res.FH
	t.keep(t.names.add(name, res.Attr.Attr.FileID, o))
	return true
}

func (t *chaosTask) create(ctx context.Context) {
	name, ok := t.name()
	if !ok {
		return
	}
	dir, n := t.at(name)
	f := newChaosFile(t.number(), name, min(700, t.m.WSize()), 1, t.c.plan.crash)
	o := &chaosObj{kind: nfsclient.NF3REG, file: f}
	how := nfsclient.CreateHow{Mode: nfsclient.GUARDED, Attr: nfsclient.Sattr{SetMode: true, Mode: 0o644}}
	if t.r.IntN(3) == 0 {
		how = nfsclient.CreateHow{Mode: nfsclient.EXCLUSIVE, Verf: nfsclient.Verf{byte(f.num), byte(f.num >> 8), 1}}
	}
	gen := t.gen()
	res, err := t.m.Create(ctx, dir, n, how)
	if !t.made(ctx, "CREATE", name, gen, o, res, err) {
		return
	}
	gen = t.gen()
	f.begin(gen)
	v := f.next()
	f.size = f.cell
	f.note(v, 0, 1, maybe)
	_, err = t.m.Write(ctx, o.fh, 0, f.data(v, 0, 1), nfsclient.FILE_SYNC)
	settled := t.judge("WRITE", gen, err)
	if err != nil {
		f.note(v, 0, 1, unknown(settled))
		return
	}
	f.note(v, 0, 1, done)
}

func (t *chaosTask) mkdir(ctx context.Context) {
	name, ok := t.name()
	if !ok {
		return
	}
	dir, n := t.at(name)
	gen := t.gen()
	res, err := t.m.Mkdir(ctx, dir, n, &nfsclient.Sattr{SetMode: true, Mode: 0o755})
	t.made(ctx, "MKDIR", name, gen, &chaosObj{kind: nfsclient.NF3DIR}, res, err)
}

func (t *chaosTask) symlink(ctx context.Context) {
	name, ok := t.name()
	if !ok {
		return
	}
	dir, n := t.at(name)
	target := fmt.Sprintf("%d/%s", t.number(), strings.Repeat("x", t.r.IntN(1000)))
	gen := t.gen()
	res, err := t.m.Symlink(ctx, dir, n, target, nil)
	t.made(ctx, "SYMLINK", name, gen, &chaosObj{kind: nfsclient.NF3LNK, target: target}, res, err)
}

func (t *chaosTask) link(ctx context.Context) {
	from, ok := t.name(nfsclient.NF3REG)
	if !ok {
		return
	}
	to, ok := t.name()
	if !ok {
		return
	}
	id, _ := t.names.sure(from)
	dir, n := t.at(to)
	gen := t.gen()
	_, err := t.m.Link(ctx, t.names.objs[id].fh, dir, n)
	settled := t.judge("LINK", gen, err)
	if err != nil {
		t.names.may(to, id)
		t.unsure(ctx, settled, to, nil)
		return
	}
	t.names.set(to, id)
}

func (t *chaosTask) remove(ctx context.Context) {
	name, ok := t.name(nfsclient.NF3REG, nfsclient.NF3LNK)
	if !ok {
		return
	}
	dir, n := t.at(name)
	gen := t.gen()
	_, err := t.m.Remove(ctx, dir, n)
	t.removed(ctx, "REMOVE", name, gen, err)
}

func (t *chaosTask) rmdir(ctx context.Context) {
	name, ok := t.name(nfsclient.NF3DIR)
	if !ok {
		return
	}
	dir, n := t.at(name)
	gen := t.gen()
	_, err := t.m.Rmdir(ctx, dir, n)
	t.removed(ctx, "RMDIR", name, gen, err)
}

func (t *chaosTask) removed(ctx context.Context, what, name string, gen uint32, err error) {
	settled := t.judge(what, gen, err)
	if err != nil {
		t.names.may(name, 0)
		t.unsure(ctx, settled, name, nil)
		return
	}
	t.names.set(name, 0)
}

func (t *chaosTask) rename(ctx context.Context) {
	kinds := []nfsclient.FType{nfsclient.NF3REG, nfsclient.NF3LNK}
	if t.r.IntN(4) == 0 {
		kinds = []nfsclient.FType{nfsclient.NF3DIR} // all of them are empty
	}
	from, ok := t.name(kinds...)
	if !ok {
		return
	}
	if t.r.IntN(2) == 0 {
		kinds = nil
	}
	to, ok := t.name(kinds...)
	if !ok || from == to {
		return
	}
	obj, _ := t.names.sure(from)
	over, _ := t.names.sure(to)
	d1, n1 := t.at(from)
	d2, n2 := t.at(to)
	gen := t.gen()
	err := t.m.Rename(ctx, d1, n1, d2, n2)
	settled := t.judge("RENAME", gen, err)
	switch {
	case over == obj: // two links of one file: nothing happens (RFC 1813 section 3.3.14)
		if !settled { // a late one may find other files
			t.names.murky[from], t.names.murky[to] = true, true
		}
	case err != nil:
		t.names.may(from, 0)
		t.names.may(to, obj)
		t.unsure(ctx, settled, from, nil)
		t.unsure(ctx, settled, to, nil)
	default:
		t.names.set(from, 0)
		t.names.set(to, obj)
	}
}

// refused makes a call that must be refused.
func (t *chaosTask) refused(ctx context.Context) {
	m := t.m
	gen := t.gen()
	try := func(what, name string, err error, want ...nfsclient.Status) {
		if !t.judge(what, gen, err, want...) || err == nil { // it may come when it need not be refused any more
			t.names.murky[name] = true
		}
	}
	some, ok := t.name(nfsclient.NF3REG, nfsclient.NF3LNK, nfsclient.NF3DIR)
	none, ok2 := t.name()
	switch k := t.r.IntN(4); {
	case k == 0 && ok:
		dir, n := t.at(some)
		_, err := m.Create(ctx, dir, n, nfsclient.CreateHow{Mode: nfsclient.GUARDED})
		try("CREATE", some, err, nfsclient.NFS3ERR_EXIST)
	case k == 1 && ok:
		dir, n := t.at(some)
		_, err := m.Mkdir(ctx, dir, n, nil)
		try("MKDIR", some, err, nfsclient.NFS3ERR_EXIST)
	case k == 2 && ok2:
		dir, n := t.at(none)
		_, err := m.Remove(ctx, dir, n)
		try("REMOVE", none, err, nfsclient.NFS3ERR_NOENT)
	case k == 3:
		for _, name := range chaosNameList {
			if obj, sure := t.names.sure(name); sure && obj != 0 && strings.HasPrefix(name, "sub/") {
				_, err := m.Rmdir(ctx, t.dirs[0], "sub")
				if !t.judge("RMDIR", gen, err, nfsclient.NFS3ERR_NOTEMPTY) {
					t.names.murky[name] = true // which keeps it from being removed: a late RMDIR must find the directory not empty
				}
				return
			}
		}
	}
}

// look looks at an object: what a link leads to, what is in a file.
func (t *chaosTask) look(ctx context.Context) {
	name, ok := t.name(nfsclient.NF3REG, nfsclient.NF3LNK, nfsclient.NF3DIR)
	if !ok {
		return
	}
	id, _ := t.names.sure(name)
	o := t.names.objs[id]
	gen := t.gen()
	switch o.kind {
	case nfsclient.NF3LNK:
		s, err := t.m.ReadLink(ctx, o.fh)
		if t.judge("READLINK", gen, err); err == nil && s != o.target {
			t.violated("%s leads to %q, must to %q", name, s, o.target)
		}
		t.compared(len(s))
	case nfsclient.NF3REG:
		b := make([]byte, o.file.cell+1)
		o.file.begin(gen)
		n, _, err := t.m.Read(ctx, o.fh, 0, b)
		if t.judge("READ", gen, err); err != nil {
			return
		}
		t.compared(n)
		w := ever
		if t.calm(gen) {
			w = calm
		}
		if err := o.file.checkAll(b[:n], w); err != nil {
			t.violated("READ: %w", err)
		}
	default:
		a, err := t.m.GetAttr(ctx, o.fh)
		if t.judge("GETATTR", gen, err); err == nil && (a.Type != o.kind || a.FileID != id) {
			t.violated("%s is %v, object %d; it was made as object %d", name, a.Type, a.FileID, id)
		}
	}
}

// list reads a directory, in pieces, and compares names, kinds and numbers of links.
func (t *chaosTask) list(ctx context.Context, which int) {
	prefix := []string{"", "sub/"}[which]
	count := uint32([]int{600, 1024, 8192}[t.r.IntN(3)])
	plus := t.r.IntN(2) == 0
	seen := map[string]nfsclient.EntryPlus{}
	var verf nfsclient.Verf
	for cookie := uint64(0); ; {
		gen := t.gen()
		var list []nfsclient.EntryPlus
		var eof bool
		var err error
		if plus {
			var res nfsclient.ReaddirplusRes
			res, err = t.m.ReadDirPlus(ctx, t.dirs[which], cookie, verf, 0, count)
			var e nfsclient.EntryPlus
			for err == nil && res.Entries.Next(&e) {
				list = append(list, e)
			}
			verf, eof = res.Verf, res.EOF
			t.judge("READDIRPLUS", gen, err)
		} else {
			var res nfsclient.ReaddirRes
			res, err = t.m.ReadDir(ctx, t.dirs[which], cookie, verf, count)
			var e nfsclient.Entry
			for err == nil && res.Entries.Next(&e) {
				list = append(list, nfsclient.EntryPlus{Entry: e})
			}
			verf, eof = res.Verf, res.EOF
			t.judge("READDIR", gen, err)
		}
		if err != nil {
			return
		}
		if len(list) == 0 && !eof {
			t.violated("READDIR gives no entry and no end")
			return
		}
		for _, e := range list {
			if _, twice := seen[string(e.Name)]; twice {
				t.violated("READDIR gives %q twice", e.Name)
			}
			seen[string(e.Name)] = e
			cookie = e.Cookie
		}
		if eof {
			break
		}
	}
	for _, name := range chaosNameList {
		n, ours := strings.CutPrefix(name, prefix)
		if !ours || strings.Contains(n, "/") {
			continue
		}
		e := seen[n]
		t.keep(t.names.check(name, e.FileID))
		id, ok := t.names.sure(name)
		if !ok || id == 0 || !e.Attr.Present {
			continue
		}
		o := t.names.objs[id]
		links, sure := t.names.links(id)
		if a := e.Attr.Attr; a.Type != o.kind || o.kind == nfsclient.NF3REG && sure && int(a.Nlink) != links {
			t.violated("READDIRPLUS: %s is %v with %d links, must be %v with %d", name, a.Type, a.Nlink, o.kind, links)
		}
	}
}

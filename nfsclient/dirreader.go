package nfsclient

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"

	"example.org/nfsrdma/internal/nfs3"
)

// dirReader goes through a directory with READDIRPLUS.
type dirReader struct {
	m      *Mount
	fh     FH
	cookie uint64
	verf   Verf
	eof    bool
	size   uint32 // bytes of the last result that was asked for
	ahead  []dirent
}

// firstDirSize is the size of the first result of a directory, bytes. Each further one is twice as large, up to what
// the server prefers, so that a small directory costs little and a large one few calls.
const firstDirSize = 64 << 10

// dirent is an entry with its handle, if the server gave it.
type dirent struct {
	info
	fh    FH
	hasFH bool
}

// next gives at most n entries, all that are left if n <= 0. As fs.ReadDirFile has it, io.EOF comes only with n > 0.
func (d *dirReader) next(ctx context.Context, n int) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	for n <= 0 || len(out) < n {
		if len(d.ahead) == 0 {
			if d.eof {
				break
			}
			if err := d.fill(ctx); err != nil {
				return out, err
			}
			continue
		}
		e := d.ahead[0]
		d.ahead = d.ahead[1:]
		out = append(out, &e.info)
	}
	if n > 0 && len(out) == 0 {
		return nil, io.EOF
	}
	return out, nil
}

// fill reads the next part of the directory.
func (d *dirReader) fill(ctx context.Context) error {
	d.size = min(max(2*d.size, firstDirSize), d.m.dtsize)
	res, err := d.m.ReadDirPlus(ctx, d.fh, d.cookie, d.verf, 0, d.size)
	if err != nil {
		return err
	}
	d.verf, d.eof = res.Verf, res.EOF
	last := d.cookie
	var e EntryPlus
	for list := res.Entries; list.Next(&e); {
		last = e.Cookie
		name := string(e.Name)
		if name == "." || name == ".." {
			continue
		}
		if !e.Attr.Present || !e.FH.Present {
			n, err := d.m.child(ctx, d.fh, name)
			if err != nil {
				if isNotExist(err) {
					continue // removed meanwhile
				}
				return err
			}
			d.ahead = append(d.ahead, dirent{info{name, n.attr}, n.fh, true})
			continue
		}
		d.ahead = append(d.ahead, dirent{info{name, e.Attr.Attr}, e.FH.FH, true})
	}
	if last == d.cookie && !d.eof {
		return badResult(nfs3.READDIRPLUS, io.ErrNoProgress)
	}
	d.cookie = last
	return nil
}

// readDir reads all of a directory, sorted by name.
func (m *Mount) readDir(ctx context.Context, fh FH) ([]dirent, error) {
	d := &dirReader{m: m, fh: fh}
	for !d.eof {
		if err := d.fill(ctx); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(d.ahead, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	return d.ahead, nil
}

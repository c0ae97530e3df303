package nfsclient

import (
	"context"
	"io/fs"
	"path"
	"strings"

	"example.org/nfsrdma/internal/nfs3"
)

// maxSymlinks bounds the symbolic links followed in one path, as Linux does.
const maxSymlinks = 40

// node is an object that a path leads to. Attr is that of NF3DIR and without size when the server gave none.
type node struct {
	fh   FH
	attr Fattr
}

// clean makes a path relative to the root of the mount, "." for the root itself. It is read as if
// absolute, so ".." does not leave the mount.
func clean(name string) string {
	if name = path.Clean("/" + name)[1:]; name == "" {
		return "."
	}
	return name
}

// missing says that a directory does not have the last name of a path.
type missing struct {
	dir  FH
	name string
	err  error
}

func (e *missing) Error() string { return e.err.Error() }
func (e *missing) Unwrap() error { return e.err }

// resolve follows name from the root. follow says whether a symbolic link at its end is followed too.
func (m *Mount) resolve(ctx context.Context, name string, follow bool) (node, error) {
	n, known, err := m.walk(ctx, name, follow)
	if err == nil && !known {
		n.attr, err = m.GetAttr(ctx, n.fh)
	}
	return n, err
}

// walk is resolve without the attributes of what no LOOKUP told; known says that they are there. If only the last
// name is not there the error is a *missing.
func (m *Mount) walk(ctx context.Context, name string, follow bool) (_ node, known bool, _ error) {
	stack := []node{{fh: m.root, attr: Fattr{Type: nfs3.NF3DIR}}}
	left := strings.Split(name, "/")
	links := 0
	for len(left) > 0 {
		part := left[0]
		left = left[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
				known = false
			}
			continue
		}
		dir := stack[len(stack)-1].fh
		n, err := m.child(ctx, dir, part)
		switch {
		case isNotExist(err) && len(left) == 0:
			return node{}, false, &missing{dir, part, err}
		case err != nil:
			return node{}, false, err
		}
		if n.attr.Type != nfs3.NF3LNK || len(left) == 0 && !follow {
			stack, known = append(stack, n), true
			continue
		}
		if links++; links > maxSymlinks {
			return node{}, false, ErrLoop
		}
		target, err := m.ReadLink(ctx, n.fh)
		if err != nil {
			return node{}, false, err
		}
		if strings.HasPrefix(target, "/") {
			stack, known = stack[:1], false
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return stack[len(stack)-1], known, nil
}

// child looks a name up, with its attributes.
func (m *Mount) child(ctx context.Context, dir FH, name string) (node, error) {
	r, err := m.Lookup(ctx, dir, name)
	if err != nil {
		return node{}, err
	}
	if r.Attr.Present {
		return node{r.FH, r.Attr.Attr}, nil
	}
	a, err := m.GetAttr(ctx, r.FH)
	return node{r.FH, a}, err
}

// parent resolves the directory of name, and gives the last part of name.
func (m *Mount) parent(ctx context.Context, name string) (dir FH, base string, err error) {
	name = clean(name)
	if name == "." {
		return FH{}, "", fs.ErrInvalid
	}
	d, base := path.Split(name)
	n, _, err := m.walk(ctx, clean(d), true)
	return n.fh, base, err
}

// made gives the node of a new object, asking for what the server left out.
func (m *Mount) made(ctx context.Context, dir FH, name string, c Created) (node, error) {
	switch {
	case !c.HasFH:
		return m.child(ctx, dir, name)
	case !c.Attr.Present:
		a, err := m.GetAttr(ctx, c.FH)
		return node{c.FH, a}, err
	}
	return node{c.FH, c.Attr.Attr}, nil
}

// LookupPath follows a path, symbolic links included, and gives what it leads to.
func (m *Mount) LookupPath(ctx context.Context, name string) (FH, Fattr, error) {
	n, err := m.resolve(ctx, clean(name), true)
	return n.fh, n.attr, pathError("lookup", name, err)
}

// Walk calls fn for every file and directory below root, as fs.WalkDir does; each entry's Info has a *Fattr as Sys.
func (m *Mount) Walk(ctx context.Context, root string, fn fs.WalkDirFunc) error {
	return fs.WalkDir(m.FS(ctx), clean(root), fn)
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

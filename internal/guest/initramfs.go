package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const initramfsRecipe = 1

// tree is what an initramfs will hold: absolute paths in the guest.
type tree struct {
	nodes map[string]node
}

type node struct {
	kind   uint32 // modeDir, modeFile or modeLink
	perm   fs.FileMode
	from   string // a file: where it is here, or
	data   []byte // its contents
	target string // of a link
}

func newTree() *tree { return &tree{nodes: map[string]node{"/": {kind: modeDir, perm: 0o755}}} }

// put adds a node and the directories above it, unless something is there already.
func (t *tree) put(name string, n node) {
	if _, ok := t.nodes[name]; ok {
		return
	}
	for d := path.Dir(name); d != "/"; d = path.Dir(d) {
		if _, ok := t.nodes[d]; !ok {
			t.nodes[d] = node{kind: modeDir, perm: 0o755}
		}
	}
	t.nodes[name] = n
}

func (t *tree) dir(name string)          { t.put(name, node{kind: modeDir, perm: 0o755}) }
func (t *tree) link(name, target string) { t.put(name, node{kind: modeLink, target: target}) }
func (t *tree) file(name, from string)   { t.put(name, node{kind: modeFile, perm: 0o755, from: from}) }
func (t *tree) data(name string, contents []byte) {
	t.put(name, node{kind: modeFile, perm: 0o644, data: contents})
}

func (t *tree) names() []string { return slices.Sorted(maps.Keys(t.nodes)) }

// key names what the tree holds: contents of its own files, size and time of those copied.
func (t *tree) key() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, initramfsRecipe)
	for _, name := range t.names() {
		n := t.nodes[name]
		fmt.Fprintf(h, "%s %o %o %s %s %q\n", name, n.kind, n.perm, n.from, n.target, n.data)
		if n.from != "" {
			st, err := os.Stat(n.from)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, st.Size(), st.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:10], nil
}

// write makes the archive. Names in order put a directory before what is in it.
func (t *tree) write(c *cpioWriter) error {
	for _, name := range t.names() {
		n := t.nodes[name]
		rel := strings.TrimPrefix(name, "/")
		if rel == "" {
			rel = "."
		}
		var err error
		switch {
		case n.kind == modeDir:
			err = c.Dir(rel, n.perm)
		case n.kind == modeLink:
			err = c.Symlink(rel, n.target)
		case n.from == "":
			err = c.File(rel, n.perm, n.data)
		default:
			err = appendFile(c, rel, n)
		}
		if err != nil {
			return err
		}
	}
	return c.Close()
}

func appendFile(c *cpioWriter, name string, n node) error {
	f, err := os.Open(n.from)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return c.FileFrom(name, n.perm, f, st.Size())
}

// guestTree lists what the guest's root holds. Real paths only: /bin and its like are links there.
func guestTree(g *guest) (*tree, error) {
	t := newTree()
	for name, target := range guestLinks {
		t.link(name, target)
	}
	for _, d := range guestDirs {
		t.dir(d)
	}
	for name, contents := range guestFiles {
		t.data(name, []byte(contents))
	}
	var programs []string
	add := func(from, to string) {
		t.file(to, from)
		programs = append(programs, from)
	}
	for _, p := range guestPrograms {
		add(existing(p), p)
	}
	for from, to := range guestCopies {
		add(existing(from), to)
	}
	for from, to := range guestPlugins {
		add(from, to)
	}
	for _, p := range kernelPrograms {
		add(filepath.Join(g.dir, filepath.Base(p)), "/"+p)
	}
	for _, name := range testLibraries {
		at := findLibrary(name)
		if at == "" {
			return nil, fmt.Errorf("shared library %s is missing", name)
		}
		add(at, libraryDirs[0]+"/"+name)
	}
	libs, err := libraries(programs)
	if err != nil {
		return nil, err
	}
	for name, at := range libs {
		t.file(libraryDirs[0]+"/"+name, at)
	}
	t.file("/usr"+loader, loader)
	if err := addModules(t, g); err != nil {
		return nil, err
	}
	if err := addRootfs(t); err != nil {
		return nil, err
	}
	return t, addApplets(t)
}

// existing gives the path without /usr if that is where a program is: Debian moves them.
func existing(p string) string {
	if _, err := os.Stat(p); err != nil {
		if short, ok := strings.CutPrefix(p, "/usr"); ok {
			return short
		}
	}
	return p
}

func addModules(t *tree, g *guest) error {
	root := filepath.Join(g.dir, "lib/modules")
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		t.file("/usr/lib/modules/"+rel, name)
		return err
	})
}

func addRootfs(t *tree) error {
	return fs.WalkDir(rootfs, "rootfs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := rootfs.ReadFile(name)
		to := "/usr/sbin/" + path.Base(name)
		if path.Base(name) == "init" {
			to = "/init"
		}
		t.put(to, node{kind: modeFile, perm: 0o755, data: b})
		return err
	})
}

// addApplets links busybox's programs, where there is no better one.
func addApplets(t *tree) error {
	out, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		return fmt.Errorf("busybox: %w", err)
	}
	for _, a := range strings.Fields(string(out)) {
		if _, ok := t.nodes["/usr/sbin/"+a]; !ok {
			t.link("/usr/bin/"+a, "busybox")
		}
	}
	return nil
}

// buildInitramfs writes the archive into the kernel's directory, unless this very one is there.
func buildInitramfs(g *guest) (string, error) {
	t, err := guestTree(g)
	if err != nil {
		return "", err
	}
	if err := addShared(t, g); err != nil {
		return "", err
	}
	key, err := t.key()
	if err != nil {
		return "", err
	}
	name := filepath.Join(g.dir, "initramfs-"+key+".cpio")
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	removeOld(g.dir, "*.cpio")
	f, err := os.CreateTemp(g.dir, "building-*.cpio")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	w := bufio.NewWriterSize(f, 1<<20)
	if err := t.write(newCPIOWriter(w)); err != nil {
		return "", err
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return name, os.Rename(f.Name(), name)
}

// removeOld removes files that no guest is booting from any more: those of an hour ago.
func removeOld(dir, pattern string) {
	files, _ := filepath.Glob(filepath.Join(dir, pattern))
	for _, f := range files {
		if st, err := os.Stat(f); err == nil && time.Since(st.ModTime()) > time.Hour {
			_ = os.Remove(f)
		}
	}
}

// addShared puts large programs and their libraries into the kernel's directory, from where guests mount them at /opt/shared,
// and scripts of their names into the tree.
func addShared(t *tree, g *guest) error {
	libs, err := libraries(shared)
	if err != nil {
		return err
	}
	dir := filepath.Join(g.dir, "shared")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := maps.Clone(libs)
	for _, p := range shared {
		files[filepath.Base(p)] = p
		var sh bytes.Buffer
		fmt.Fprintf(&sh, "#!/bin/sh\nLD_LIBRARY_PATH=/opt/shared exec /opt/shared/%s \"$@\"\n", filepath.Base(p))
		t.put(p, node{kind: modeFile, perm: 0o755, data: sh.Bytes()})
	}
	for name, from := range files {
		to := filepath.Join(dir, name)
		if _, err := os.Stat(to); err == nil {
			continue
		}
		if err := copyFile(to, from, 0o755); err != nil {
			return err
		}
	}
	return nil
}

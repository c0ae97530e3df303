package fabric

import (
	"fmt"
	"maps"
	"slices"

	"example.org/nfsrdma/nfsclient"
)

// chaosObj is an object that a task made.
type chaosObj struct {
	kind   nfsclient.FType
	fh     nfsclient.FH
	file   *chaosFile // of a regular file: its data
	target string     // of a symbolic link
}

// chaosNames are the names of a task's directories as their only user knows them: for each, which objects it may be of.
// A name in the second directory is "sub/NAME".
type chaosNames struct {
	dir   string
	poss  map[string][]uint64 // by fileid; 0: the name is not there
	murky map[string]bool     // nothing is known: a call may still happen
	objs  map[uint64]*chaosObj
}

// chaosNameList are the names that tasks make and remove.
var chaosNameList = []string{"a", "b", "c", "d", "e", "sub/a", "sub/b", "sub/c"}

func newChaosNames(dir string) chaosNames {
	d := chaosNames{dir: dir, poss: map[string][]uint64{}, murky: map[string]bool{}, objs: map[uint64]*chaosObj{}}
	for _, n := range chaosNameList {
		d.set(n, 0)
	}
	return d
}

func (d *chaosNames) set(name string, obj uint64) { d.poss[name] = []uint64{obj} }

// may adds a possibility.
func (d *chaosNames) may(name string, obj uint64) {
	if !slices.Contains(d.poss[name], obj) {
		d.poss[name] = append(d.poss[name], obj)
	}
}

// sure gives the object of a name, 0 for none, if there is only one possibility.
func (d *chaosNames) sure(name string) (obj uint64, ok bool) {
	p := d.poss[name]
	return p[0], len(p) == 1 && !d.murky[name]
}

// fit lists the names that are surely not there, or surely of an object of one of these kinds.
func (d *chaosNames) fit(kinds ...nfsclient.FType) []string {
	var out []string
	for _, n := range chaosNameList {
		obj, ok := d.sure(n)
		switch {
		case !ok:
		case len(kinds) == 0 && obj == 0,
			len(kinds) > 0 && obj != 0 && slices.Contains(kinds, d.objs[obj].kind):
			out = append(out, n)
		}
	}
	return out
}

// check says whether a name may be of an object, 0 for none.
func (d *chaosNames) check(name string, obj uint64) error {
	if d.murky[name] || slices.Contains(d.poss[name], obj) {
		return nil
	}
	return fmt.Errorf("%s/%s is object %d; possible are %v (0: none)", d.dir, name, obj, d.poss[name])
}

// add notes a new object under a name, which must not be another's.
func (d *chaosNames) add(name string, id uint64, o *chaosObj) error {
	for _, n := range slices.Sorted(maps.Keys(d.poss)) {
		if have, ok := d.sure(n); ok && have == id && n != name {
			return fmt.Errorf("%s/%s is a new object with the number %d of %s", d.dir, name, id, n)
		}
	}
	d.objs[id] = o
	d.set(name, id)
	return nil
}

// links counts the names of an object; false if that is not sure.
func (d *chaosNames) links(id uint64) (n int, ok bool) {
	for _, name := range chaosNameList {
		switch obj, ok := d.sure(name); {
		case !ok:
			return 0, false
		case obj == id:
			n++
		}
	}
	return n, true
}

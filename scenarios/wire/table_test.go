package wire

import (
	"fmt"
	"os"
	"strings"
)

// entry is the fields of a case or connection.
type entry struct {
	name   string
	fields description
}

// table is what a kernel sends, entry by entry. In a file, a line that begins with = names an entry, and
// each indented line below it is a field. # begins a comment.
type table []entry

func (t table) get(name string) description {
	for _, e := range t {
		if e.name == name {
			return e.fields
		}
	}
	return nil
}

func readTable(path string) (table, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var t table
	for i, line := range strings.Split(string(b), "\n") {
		switch {
		case strings.HasPrefix(line, "= "):
			t = append(t, entry{name: line[2:]})
		case strings.HasPrefix(line, "  ") && len(t) > 0:
			k, v, _ := strings.Cut(line[2:], " ")
			e := &t[len(t)-1]
			e.fields = append(e.fields, field{k, strings.TrimSpace(v)})
		case line != "" && !strings.HasPrefix(line, "#"):
			return nil, fmt.Errorf("%s:%d: %q", path, i+1, line)
		}
	}
	return t, nil
}

func (t table) String() string {
	var s strings.Builder
	for _, e := range t {
		fmt.Fprintf(&s, "\n= %s\n", e.name)
		for _, f := range e.fields {
			fmt.Fprintf(&s, "  %-28s %s\n", f.name, f.value)
		}
	}
	return s.String()
}

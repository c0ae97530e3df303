package report

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

var formats = []struct {
	name     string
	suffixes []string
	write    func(io.Writer, []Cell) error
}{
	{"text", []string{".txt", ".text"}, WriteText},
	{"csv", []string{".csv"}, WriteCSV},
	{"json", []string{".json"}, WriteJSON},
	{"jsonl", []string{".jsonl", ".ndjson"}, WriteJSONL},
	{"bench", []string{".bench"}, WriteBench},
	{"html", []string{".html", ".htm"}, WriteHTML},
}

// Formats lists the names of the formats.
func Formats() []string {
	var out []string
	for _, f := range formats {
		out = append(out, f.name)
	}
	return out
}

// FormatOf is the format of a file's suffix.
func FormatOf(name string) (string, error) {
	ext := strings.ToLower(filepath.Ext(name))
	var all []string
	for _, f := range formats {
		for _, s := range f.suffixes {
			if s == ext {
				return f.name, nil
			}
		}
		all = append(all, f.suffixes[0])
	}
	return "", fmt.Errorf("%s: the suffix %q says no format; there are %s", name, ext, strings.Join(all, " "))
}

// Write writes cells, in the order of the matrix, in a format.
func Write(w io.Writer, format string, cells []Cell) error {
	if len(cells) == 0 {
		return errors.New("no cells")
	}
	for _, f := range formats {
		if f.name == format {
			return f.write(w, cells)
		}
	}
	return fmt.Errorf("format %q: there are %s", format, strings.Join(Formats(), ", "))
}

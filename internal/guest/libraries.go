package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// libraryDirs is where Debian keeps shared libraries of amd64.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/local/lib"}

// loader is the path that every dynamic program names as its interpreter.
const loader = "/lib64/ld-linux-x86-64.so.2"

// libraries gives the shared libraries that the programs need, by name, with their paths here.
func libraries(programs []string) (map[string]string, error) {
	found := map[string]string{}
	var missing []string
	queue := append([]string(nil), programs...)
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		names, dirs, err := needed(file)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if _, ok := found[name]; ok || name == filepath.Base(loader) {
				continue
			}
			at := findLibrary(name, dirs...)
			if at == "" {
				missing = append(missing, name+" (of "+file+")")
				continue
			}
			found[name] = at
			queue = append(queue, at)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("shared libraries are missing: %s", strings.Join(missing, ", "))
	}
	return found, nil
}

// needed gives what a file links, and the directories where it says to look first.
func needed(file string) (names, dirs []string, err error) {
	f, err := elf.Open(file)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) {
		return nil, nil, nil // a script, or a few bytes
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if names, err = f.ImportedLibraries(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, _ := f.DynString(tag)
		for _, p := range paths {
			dirs = append(dirs, strings.Split(p, ":")...)
		}
	}
	return names, dirs, nil
}

func findLibrary(name string, first ...string) string {
	for _, dir := range append(first, libraryDirs...) {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode()&fs.ModeType == 0 {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

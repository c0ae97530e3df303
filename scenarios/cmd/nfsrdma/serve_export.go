package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/dirfs"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// export makes an export of "PATH=DIR,option,...". The function closes it.
func (c *serveCmd) export(s string) (x nfsserver.Export, closeFS func() error, err error) {
	path, what, ok := strings.Cut(s, "=")
	if !ok || !strings.HasPrefix(path, "/") || what == "" {
		return x, nil, errors.New("want PATH=DIR or PATH=memfs:SIZE, with PATH beginning with /")
	}
	x = nfsserver.Export{Path: path, ReadOnly: c.RO, RootSquash: c.RootSquash}
	what, err = exportOptions(what, &x)
	if err != nil {
		return x, nil, err
	}
	if size, ok := strings.CutPrefix(what, "memfs"); ok && (size == "" || size[0] == ':') {
		capacity := int64(0)
		if size != "" {
			if capacity, err = parseSize(size[1:]); err != nil || capacity < memfs.ChunkSize {
				return x, nil, fmt.Errorf("memfs of %q: want a size such as 512M or 8G, at least 64K", size[1:])
			}
		}
		x.FS = memfs.New(memfs.Options{Capacity: uint64(capacity), RootMode: 0o777, Now: now})
		return x, func() error { return nil }, nil
	}
	key, err := c.handleKey()
	if err != nil {
		return x, nil, err
	}
	if uid := os.Geteuid(); uid != 0 && !x.AllSquash {
		x.AllSquash, x.AnonUID, x.AnonGID = true, uint32(uid), uint32(os.Getegid())
	}
	d, err := dirfs.New(what, dirfs.Options{ReadOnly: x.ReadOnly, Key: key})
	if err != nil {
		return x, nil, err
	}
	x.FS = d
	return x, d.Close, nil
}

func now() vfs.Time {
	t := time.Now()
	return vfs.Time{Sec: uint32(t.Unix()), Nsec: uint32(t.Nanosecond())}
}

// exportOptions takes the options off the end of "DIR,option,...": a comma before anything else is part of DIR.
func exportOptions(s string, x *nfsserver.Export) (string, error) {
	var opts []string
	for {
		i := strings.LastIndexByte(s, ',')
		if i < 0 || !isExportOption(s[i+1:]) {
			break
		}
		opts = append(opts, s[i+1:])
		s = s[:i]
	}
	if i := strings.LastIndexByte(s, ','); i >= 0 {
		if _, err := os.Lstat(s); err != nil {
			return s, fmt.Errorf("%q is neither a directory nor ends with an option: %s", s, exportOptionNames)
		}
	}
	for _, o := range slices.Backward(opts) {
		if err := setExportOption(o, x); err != nil {
			return s, err
		}
	}
	return s, nil
}

const exportOptionNames = "ro rw root_squash no_root_squash all_squash anonuid=N anongid=N"

func isExportOption(s string) bool {
	name, _, _ := strings.Cut(s, "=")
	return name != "" && slices.ContainsFunc(strings.Fields(exportOptionNames), func(o string) bool {
		known, _, _ := strings.Cut(o, "=")
		return name == known
	})
}

func setExportOption(opt string, x *nfsserver.Export) error {
	name, value, has := strings.Cut(opt, "=")
	if name == "anonuid" || name == "anongid" {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n == 0 {
			return fmt.Errorf("%s: want %s=1..4294967295", opt, name)
		}
		if name == "anonuid" {
			x.AnonUID = uint32(n)
		} else {
			x.AnonGID = uint32(n)
		}
		return nil
	}
	if has {
		return fmt.Errorf("option %s takes no value", name)
	}
	switch name {
	case "ro":
		x.ReadOnly = true
	case "rw":
		x.ReadOnly = false
	case "root_squash":
		x.RootSquash = true
	case "no_root_squash":
		x.RootSquash = false
	case "all_squash":
		x.AllSquash = true
	}
	return nil
}

// keyLen is the length of a key that is made, bytes.
const keyLen = 32

// handleKey reads or makes the key file; nil without one.
func (c *serveCmd) handleKey() ([]byte, error) {
	if c.Key == "" {
		return nil, nil
	}
	key, err := os.ReadFile(c.Key)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, keyLen)
		_, _ = rand.Read(key)
		err = os.WriteFile(c.Key, key, 0o600)
	}
	if err == nil && len(key) < 16 {
		err = fmt.Errorf("key file %s: %d bytes, want at least 16", c.Key, len(key))
	}
	return key, err
}

// describe prints an export as exports(5) has it.
func describe(x *nfsserver.Export) string {
	opts := []string{"rw"}
	if x.ReadOnly {
		opts[0] = "ro"
	}
	if x.RootSquash {
		opts = append(opts, "root_squash")
	} else {
		opts = append(opts, "no_root_squash")
	}
	if x.AllSquash {
		opts = append(opts, "all_squash")
	}
	if x.AnonUID != 0 {
		opts = append(opts, fmt.Sprint("anonuid=", x.AnonUID))
	}
	if x.AnonGID != 0 {
		opts = append(opts, fmt.Sprint("anongid=", x.AnonGID))
	}
	kind := "memory"
	if _, ok := x.FS.(*dirfs.FS); ok {
		kind = "directory"
	}
	return fmt.Sprintf("%s (%s) of a %s", x.Path, strings.Join(opts, ","), kind)
}

// parseSize reads "4096", "64K", "1M", "8G" or "1T".
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKmMgGtT")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift := 0
	switch strings.ToUpper(s[len(digits):]) {
	case "":
	case "K":
		shift = 10
	case "M":
		shift = 20
	case "G":
		shift = 30
	case "T":
		shift = 40
	default:
		return 0, fmt.Errorf("size %q", s)
	}
	if err != nil || n < 0 || n > 1<<62>>shift {
		return 0, fmt.Errorf("size %q: want a number with K, M, G or T behind it", s)
	}
	return n << shift, nil
}

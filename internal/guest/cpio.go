package main

import (
	"fmt"
	"io"
	"io/fs"
	"math"
)

// cpioWriter writes the "newc" archive that the kernel unpacks as its initramfs (Documentation/driver-api/early-userspace/
// buffer-format.rst). Every file belongs to root. Parents come before children: the kernel makes no directory by itself.
type cpioWriter struct {
	w   io.Writer
	n   int64 // bytes written
	ino uint32
	err error
}

const (
	cpioMagic   = "070701"
	cpioTrailer = "TRAILER!!!"

	modeDir, modeFile, modeLink = 0o040000, 0o100000, 0o120000
)

func newCPIOWriter(w io.Writer) *cpioWriter { return &cpioWriter{w: w} }

func (c *cpioWriter) Dir(name string, perm fs.FileMode) error {
	return c.entry(name, modeDir|uint32(perm.Perm()), nil, 0)
}

func (c *cpioWriter) Symlink(name, target string) error {
	return c.entry(name, modeLink|0o777, []byte(target), int64(len(target)))
}

func (c *cpioWriter) File(name string, perm fs.FileMode, data []byte) error {
	return c.entry(name, modeFile|uint32(perm.Perm()), data, int64(len(data)))
}

// FileFrom copies size bytes of r; fewer are an error.
func (c *cpioWriter) FileFrom(name string, perm fs.FileMode, r io.Reader, size int64) error {
	if err := c.entry(name, modeFile|uint32(perm.Perm()), nil, size); err != nil {
		return err
	}
	n, err := io.CopyN(c.w, r, size)
	c.n += n
	if err != nil {
		c.err = fmt.Errorf("cpio: %s: %w", name, err)
		return c.err
	}
	c.pad()
	return c.err
}

// Close writes the trailer; it does not close the underlying writer.
func (c *cpioWriter) Close() error {
	return c.header(cpioTrailer, 0, 0, 0)
}

func (c *cpioWriter) entry(name string, mode uint32, data []byte, size int64) error {
	if name == "" || name[0] == '/' {
		return fmt.Errorf("cpio: name %q: want a relative path", name)
	}
	if size < 0 || size > math.MaxUint32 {
		return fmt.Errorf("cpio: %s: %d bytes: at most %d", name, size, uint32(math.MaxUint32))
	}
	c.ino++
	if err := c.header(name, c.ino, mode, uint32(size)); err != nil {
		return err
	}
	if data != nil {
		c.write(data)
		c.pad()
	}
	return c.err
}

// header is thirteen fields of eight hexadecimal digits after the magic, then the name with its NUL, padded to four bytes.
func (c *cpioWriter) header(name string, ino, mode, size uint32) error {
	nlink := 1
	if mode&modeDir != 0 && mode&modeFile != modeFile {
		nlink = 2
	}
	c.write(fmt.Appendf(nil, "%s%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00", cpioMagic,
		ino, mode, 0, 0, nlink, 0, size, 0, 0, 0, 0, len(name)+1, 0, name))
	c.pad()
	return c.err
}

func (c *cpioWriter) write(b []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.err = err
}

func (c *cpioWriter) pad() {
	if r := c.n % 4; r != 0 {
		c.write(make([]byte, 4-r))
	}
}

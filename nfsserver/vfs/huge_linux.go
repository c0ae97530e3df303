package vfs

import "syscall"

// hugePage is the size from which huge pages can serve an allocation, in bytes.
const hugePage = 2 << 20

// huge asks for huge pages under b: a copy from a random place of a large file
// otherwise waits longer for page tables than for its data. Best effort: a kernel
// that refuses leaves b as it is.
func huge(b []byte) []byte {
	if len(b) >= hugePage {
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
	}
	return b
}

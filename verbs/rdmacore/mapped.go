package rdmacore

import (
	"sync"
	"syscall"
)

// mapped lends anonymous memory by whole pages. What comes back loses its contents and its physical memory, but
// stays mapped for the next of the same size: a late reader sees zeros, and does not kill the process.
var mapped = struct {
	mu   sync.Mutex
	free map[int][][]byte
}{free: map[int][][]byte{}}

// mapMemory gives n bytes, zeroed; n is a multiple of the page size.
func mapMemory(n int) ([]byte, error) {
	mapped.mu.Lock()
	list := mapped.free[n]
	if k := len(list); k > 0 {
		b := list[k-1]
		mapped.free[n] = list[:k-1]
		mapped.mu.Unlock()
		return b, nil
	}
	mapped.mu.Unlock()
	return syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

func unmapMemory(b []byte) {
	if err := syscall.Madvise(b, syscall.MADV_DONTNEED); err != nil {
		clear(b)
	}
	mapped.mu.Lock()
	mapped.free[len(b)] = append(mapped.free[len(b)], b)
	mapped.mu.Unlock()
}

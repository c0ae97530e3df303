//go:build rdmacore && cgo

package rdmacore

import (
	"fmt"
	"os"
	"syscall"
)

// watcher reads the events of a file descriptor of the library through Go's poller.
type watcher struct {
	f    *os.File
	done chan struct{}
}

// watch calls drain in a goroutine of its own whenever fd may be readable, until Close.
// drain reads until nothing is left. fd stays the library's.
func watch(fd int, name string, drain func()) (*watcher, error) {
	own, err := syscall.Dup(fd)
	if err != nil {
		return nil, fmt.Errorf("rdmacore: events of %s: %w", name, err)
	}
	syscall.CloseOnExec(own)
	if err := syscall.SetNonblock(own, true); err != nil {
		_ = syscall.Close(own)
		return nil, fmt.Errorf("rdmacore: events of %s: %w", name, err)
	}
	w := &watcher{f: os.NewFile(uintptr(own), name), done: make(chan struct{})}
	conn, err := w.f.SyscallConn()
	if err != nil {
		_ = w.f.Close()
		return nil, fmt.Errorf("rdmacore: events of %s: %w", name, err)
	}
	go func() {
		defer close(w.done)
		// It ends when the file is closed.
		_ = conn.Read(func(uintptr) bool {
			drain()
			return false
		})
	}()
	return w, nil
}

// Close ends the goroutine and waits for it: drain must not call it.
func (w *watcher) Close() {
	_ = w.f.Close()
	<-w.done
}

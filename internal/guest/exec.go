package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

type execOptions struct {
	dev     string
	timeout time.Duration
	mem     int
	nfsd    bool
	argv    []string
}

// execCommand runs one program in a guest. A name with a slash is a file of this machine, which is copied into the
// guest; any other is one of the guest's own.
func execCommand(ctx context.Context, out io.Writer, o execOptions) error {
	dev, err := checkDevice(o.dev)
	if err != nil {
		return err
	}
	if o.timeout <= 0 {
		return fmt.Errorf("timeout %v: want more than 0", o.timeout)
	}
	g, err := setup(ctx)
	if err != nil {
		return err
	}
	m, err := newMachine(g, dev)
	if err != nil {
		return err
	}
	defer m.remove()
	m.mem = o.mem
	argv := append([]string(nil), o.argv...)
	if strings.Contains(argv[0], "/") {
		at := filepath.Join("bin", filepath.Base(argv[0]))
		if err := copyFile(filepath.Join(m.dir, at), argv[0], 0o755); err != nil {
			return err
		}
		argv[0] = "/host/" + at
	}
	if o.nfsd {
		argv = append([]string{"sh", "-c", `guest-nfsd start && exec "$@"`, "sh"}, argv...)
	}
	if err := m.mountSources(ctx); err != nil {
		return err
	}
	m.steps = []step{{name: "1", argv: argv, timeout: o.timeout}}
	h := &execHandler{out: out, status: -1}
	if err := m.boot(ctx, h); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return fmt.Errorf("%w; logs in %s\n%s", err, m.keepLogs(), m.lastWords(30))
	}
	if trouble := kernelTrouble(filepath.Join(m.dir, "dmesg-1")); trouble != "" {
		progress("the guest's kernel complained; logs in %s\n%s", m.keepLogs(), trouble)
	}
	if h.status != 0 {
		return exitStatus(h.status)
	}
	return nil
}

type execHandler struct {
	out    io.Writer
	status int
}

func (h *execHandler) begin(string)             {}
func (h *execHandler) output(b []byte)          { _, _ = h.out.Write(b) }
func (h *execHandler) end(_ string, status int) { h.status = status }

// shell connects the terminal to a guest.
func shell(ctx context.Context, dev string, mem int) error {
	dev, err := checkDevice(dev)
	if err != nil {
		return err
	}
	g, err := setup(ctx)
	if err != nil {
		return err
	}
	m, err := newMachine(g, dev)
	if err != nil {
		return err
	}
	defer m.remove()
	m.mem = mem
	if err := m.mountSources(ctx); err != nil {
		return err
	}
	args, err := m.prepare("shell", "")
	if err != nil {
		return err
	}
	progress("exit ends the guest; %s is /host in it", m.dir)
	return runEmulator(ctx, append(args, "-chardev", "stdio,id=tty,signal=off", "-serial", "chardev:tty"), os.Stdin, os.Stdout, os.Stderr)
}

// terminalSize is "rows N cols N" for stty, or nothing if standard input is no terminal.
func terminalSize() string {
	var ws struct{ rows, cols, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, os.Stdin.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&ws)))
	if errno != 0 || ws.rows == 0 || ws.cols == 0 {
		return ""
	}
	return fmt.Sprintf("rows %d cols %d", ws.rows, ws.cols)
}

// kernelTrouble gives the lines of a kernel log in which the kernel found something wrong with itself.
func kernelTrouble(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	var lines []string
	for line := range strings.Lines(string(b)) {
		for _, word := range []string{"WARNING: ", "BUG: ", "kernel BUG at ", "general protection fault", "Oops: ", "UBSAN: ", "refcount_t: ", "blocked for more than", "Out of memory: "} {
			if strings.Contains(line, word) {
				lines = append(lines, strings.TrimSpace(line))
				break
			}
		}
	}
	return strings.Join(lines, "\n")
}

// mountSources gives the guest the module and GOROOT.
func (m *machine) mountSources(ctx context.Context) error {
	root, goroot, err := goDirs(ctx)
	m.mounts, m.goroot = []string{root, goroot}, goroot
	return err
}

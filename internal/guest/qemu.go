package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	emulator      = "qemu-system-x86_64"
	defaultMemory = 3072             // MiB
	bootTimeout   = 2 * time.Minute  // from start to the first step; some four seconds on an idle machine
	stepGrace     = 20 * time.Second // what a step may take beyond its own timeout
	overTimeout   = 20 * time.Second // from the last step to power off
)

var errBootTimeout = errors.New("the guest did not boot in time")

// devices are what a guest can have.
var devices = []string{"rxe", "siw", "none"}

func checkDevice(dev string) (string, error) {
	if dev == "" {
		return devices[0], nil
	}
	if !slices.Contains(devices, dev) {
		return "", fmt.Errorf("device %q: want one of %s", dev, strings.Join(devices, ", "))
	}
	return dev, nil
}

// machine is one boot of a guest: its run directory, which the guest has at /host, and what it is to do.
type machine struct {
	g      *guest
	dir    string
	dev    string
	mem    int      // MiB; 0 is defaultMemory
	mounts []string // exported read-only to the guest, at the same path
	goroot string   // one of them
	shared map[string]string
	steps  []step
}

// step is a program run in the guest. Steps run one after the other; each finds a fresh device.
type step struct {
	name    string // of letters, digits and -
	dir     string // "" is /root
	env     []string
	argv    []string
	timeout time.Duration // 0 is none
}

// newMachine makes the run directory; the caller calls remove.
func newMachine(g *guest, dev string) (*machine, error) {
	dir, err := os.MkdirTemp("", "nfsrdma-guest-")
	if err != nil {
		return nil, err
	}
	m := &machine{g: g, dir: dir, dev: dev, shared: map[string]string{"/opt/shared": filepath.Join(g.dir, "shared")}}
	for _, d := range []string{"steps", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			m.remove()
			return nil, err
		}
	}
	return m, nil
}

func (m *machine) remove() { _ = os.RemoveAll(m.dir) }

func (m *machine) console() string { return filepath.Join(m.dir, "console.log") }

// script is what the guest's shell runs for a step.
func (s step) script() string {
	var b strings.Builder
	for _, e := range s.env {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(&b, "export %s=%s\n", name, quote(value))
	}
	dir := s.dir
	if dir == "" {
		dir = "/root"
	}
	fmt.Fprintf(&b, "cd %s || exit 126\nexec", quote(dir))
	for _, a := range s.argv {
		b.WriteString(" " + quote(a))
	}
	b.WriteString("\n")
	return b.String()
}

// prepare writes what init reads, and gives QEMU's arguments but for the console.
func (m *machine) prepare(mode, token string) ([]string, error) {
	mem := m.mem
	if mem == 0 {
		mem = defaultMemory
	}
	args := []string{
		"-M", "q35", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "1", "-m", fmt.Sprint(mem),
		"-nodefaults", "-no-reboot", "-display", "none", "-monitor", "none",
		"-kernel", m.g.vmlinux, "-initrd", m.g.initramfs,
		"-append", "console=ttyS0 loglevel=5 panic=-1 oops=panic nokaslr tsc=reliable no_timer_check mitigations=off",
	}
	export := func(tag, dir, readonly string) {
		args = append(args, "-fsdev", fmt.Sprintf("local,id=%s,path=%s,security_model=none,multidevs=remap,readonly=%s", tag, strings.ReplaceAll(dir, ",", ",,"), readonly),
			"-device", fmt.Sprintf("virtio-9p-pci,fsdev=%s,mount_tag=%s", tag, tag))
	}
	export("host", m.dir, "off")
	var mounts strings.Builder
	tag := func(at, dir string) {
		name := fmt.Sprint("dir", strings.Count(mounts.String(), "\n"))
		export(name, dir, "on")
		fmt.Fprintln(&mounts, name, at)
	}
	for at, dir := range m.shared {
		tag(at, dir)
	}
	for _, dir := range m.mounts {
		tag(dir, dir)
	}
	var env strings.Builder
	fmt.Fprintf(&env, "GUEST_MODE=%s\nGUEST_DEV=%s\nGUEST_TOKEN=%s\nGUEST_SIZE=%s\nGUEST_GOROOT=%s\n", mode, m.dev, token, quote(terminalSize()), quote(m.goroot))
	files := map[string]string{"boot.env": env.String(), "mounts": mounts.String()}
	for _, s := range m.steps {
		files["steps/"+s.name] = s.script()
		files["order"] += s.name + "\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// stepHandler sees a boot as it goes. Calls come from one goroutine.
type stepHandler interface {
	begin(name string)
	output(b []byte)
	end(name string, status int)
}

// boot runs the steps. It returns nil if all began and ended, whatever their status.
func (m *machine) boot(ctx context.Context, h stepHandler) error {
	token := rand.Text()
	args, err := m.prepare("steps", token)
	if err != nil {
		return err
	}
	args = append(args, "-serial", "file:"+strings.ReplaceAll(m.console(), ",", ",,"),
		"-device", "virtio-serial-pci", "-chardev", "stdio,id=out,signal=off", "-device", "virtserialport,chardev=out,name=out")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(bootTimeout, func() { cancel(errBootTimeout) })
	defer watch.Stop()
	d := &demux{token: token, h: h, timer: func(name string, running bool) {
		switch {
		case !running:
			watch.Reset(overTimeout)
		case m.timeout(name) > 0:
			limit := m.timeout(name)
			watch.Stop()
			watch = time.AfterFunc(limit+stepGrace, func() { cancel(fmt.Errorf("no end after %v", limit+stepGrace)) })
		default:
			watch.Stop()
		}
	}}
	// At the end of its input QEMU would close the port, and the guest would wait for it for ever.
	in, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer hold.Close()
	var stderr strings.Builder
	err = runEmulator(ctx, args, in, d, &stderr)
	d.flush()
	switch {
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case d.over:
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w\n%s", emulator, err, tail(stderr.String(), 5))
	}
	return errors.New("the guest ended early")
}

func (m *machine) timeout(name string) time.Duration {
	for _, s := range m.steps {
		if s.name == name {
			return s.timeout
		}
	}
	return 0
}

// runEmulator ends with the guest, or kills it when the context ends. It dies with us.
func runEmulator(ctx context.Context, args []string, in io.Reader, out, stderr io.Writer) error {
	runtime.LockOSThread() // Pdeathsig is the thread's
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, emulator, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	return cmd.Run()
}

// panicLine begins what the kernel has to say about its end.
var panicLine = regexp.MustCompile(`Kernel panic|BUG: |kernel BUG at |corruption, |general protection fault|Oops: |WARNING: |sysrq: `)

// lastWords is the kernel's report of its end, n lines of it, or else the last n lines of the console.
func (m *machine) lastWords(n int) string {
	b, err := os.ReadFile(m.console())
	if err != nil {
		return ""
	}
	text := strings.ReplaceAll(strings.TrimSpace(string(b)), "\r", "")
	at := panicLine.FindStringIndex(text)
	if at == nil {
		return tail(text, n)
	}
	lines := strings.Split(text[strings.LastIndexByte(text[:at[0]], '\n')+1:], "\n")
	return strings.Join(lines[:min(len(lines), n)], "\n")
}

// keptLogs is how many runs' logs stay in the cache.
const keptLogs = 30

// keepLogs copies the logs of a run into the cache and gives their directory.
func (m *machine) keepLogs() string {
	all := filepath.Join(m.g.cache, "logs")
	if old, err := os.ReadDir(all); err == nil && len(old) >= keptLogs {
		for _, d := range old[:len(old)-keptLogs+1] { // names begin with the time
			_ = os.RemoveAll(filepath.Join(all, d.Name()))
		}
	}
	dir := filepath.Join(all, time.Now().Format("20060102-150405")+"-"+m.dev)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return m.dir
	}
	files, _ := filepath.Glob(filepath.Join(m.dir, "*"))
	for _, f := range files {
		name := filepath.Base(f)
		if name == "console.log" || strings.HasPrefix(name, "dmesg-") || strings.HasPrefix(name, "output-") {
			_ = copyFile(filepath.Join(dir, name), f, 0o644)
		}
	}
	return short(dir)
}

// short writes a path below the home directory with ~.
func short(dir string) string {
	home, err := os.UserHomeDir()
	if rel, ok := strings.CutPrefix(dir, home+"/"); err == nil && ok {
		return "~/" + rel
	}
	return dir
}

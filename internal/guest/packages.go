package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// packages are what must be installed on Debian 12: the emulator, the tools that build siw, the libraries that
// verbs/rdmacore links, and the programs that the guest gets copies of.
var packages = []string{
	"qemu-system-x86", "seabios", "ipxe-qemu",
	"gcc", "gcc-12", "libc6-dev", "make", "libelf1", "xz-utils", "kmod",
	"libibverbs-dev", "librdmacm-dev",
	"busybox-static", "bash", "dash", "iproute2", "rdma-core", "ibverbs-utils", "rdmacm-utils", "ibverbs-providers",
	"perftest", "nfs-common", "rpcbind", "fio", "tcpdump", "strace",
	"netbase", "libwrap0", "libblkid1", "libuuid1", "libtirpc3", // the last four of rpc.mountd
}

// ensurePackages installs what is missing.
func ensurePackages(ctx context.Context) error {
	missing, err := missingPackages(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	names := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("these packages of Debian 12 are missing, and there is no apt-get: %s", names)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("packages are missing; as root run: apt-get install --no-install-recommends %s", names)
	}
	progress("installing %d packages", len(missing))
	if err := aptUpdate(ctx); err != nil {
		return err
	}
	return apt(ctx, "", append([]string{"install", "-qq", "-y", "--no-install-recommends"}, missing...)...)
}

func missingPackages(ctx context.Context) ([]string, error) {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		return nil, fmt.Errorf("the guest is built from Debian 12's packages, and there is no dpkg here; it needs: %s", strings.Join(packages, " "))
	}
	// dpkg-query fails when it does not know one of the names; what it prints counts.
	out, _ := exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", "-f", "${Package} ${db:Status-Status}\n"}, packages...)...).Output()
	return notInstalled(packages, string(out)), ctx.Err()
}

// notInstalled gives those of want that are not installed by lines of "NAME STATUS".
func notInstalled(want []string, lines string) []string {
	have := map[string]bool{}
	for line := range strings.Lines(lines) {
		if name, status, _ := strings.Cut(strings.TrimSpace(line), " "); status == "installed" {
			have[name] = true
		}
	}
	var missing []string
	for _, p := range want {
		if !have[p] {
			missing = append(missing, p)
		}
	}
	return missing
}

func aptUpdate(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return apt(ctx, "", "update", "-qq")
}

// apt runs apt-get in dir; its output appears only in an error.
func apt(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return quiet(cmd)
}

// quiet runs a command whose output is of interest only if it fails.
func quiet(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, tail(string(out), 30))
	}
	return nil
}

// tail gives the last n lines.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "guest: "+format+"\n", args...)
}

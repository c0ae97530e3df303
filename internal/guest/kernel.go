package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

const (
	// kernelRecipe is part of the cache's key: raise it when what this file makes changes.
	kernelRecipe = 1
	kernelSeries = "6.1" // Debian 12
	siwPath      = "drivers/infiniband/sw/siw"
)

// guest is a kernel and an initramfs, ready to boot.
type guest struct {
	cache     string // cacheDir
	dir       string // of this kernel in the cache
	release   string // as uname -r says it
	vmlinux   string
	initramfs string
}

// kernelKey names the recipe: two that would make the same have the same key.
func kernelKey() string {
	h := sha256.New()
	fmt.Fprintln(h, kernelRecipe, kernelSeries, guestModules, kernelPrograms)
	return hex.EncodeToString(h.Sum(nil))[:10]
}

// cachedKernel finds a kernel of this recipe in the cache: the last that was built.
func cachedKernel(cache string) string {
	dirs, _ := filepath.Glob(filepath.Join(cache, "kernel-*-"+kernelKey()))
	best, at := "", int64(0)
	for _, d := range dirs {
		if st, err := os.Stat(d); err == nil && st.ModTime().UnixNano() > at {
			best, at = d, st.ModTime().UnixNano()
		}
	}
	return best
}

// setup makes all that a guest needs, or finds it in the cache.
func setup(ctx context.Context) (*guest, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("the guest is Debian's for amd64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	unlock, err := lockCache(ctx, cache)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := ensurePackages(ctx); err != nil {
		return nil, err
	}
	dir := cachedKernel(cache)
	if dir == "" {
		if dir, err = buildKernel(ctx, cache); err != nil {
			return nil, err
		}
	}
	release, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return nil, err
	}
	g := &guest{cache: cache, dir: dir, release: strings.TrimSpace(string(release)), vmlinux: filepath.Join(dir, "vmlinux")}
	if g.initramfs, err = buildInitramfs(g); err != nil {
		return nil, fmt.Errorf("initramfs: %w", err)
	}
	return g, nil
}

// buildKernel fetches Debian's kernel and the kernel's NFS server programs, takes vmlinux out of its image, builds siw.
func buildKernel(ctx context.Context, cache string) (string, error) {
	release, err := newestRelease(ctx)
	if err != nil {
		return "", err
	}
	progress("kernel %s: fetching, unpacking, building siw", release)
	dir := filepath.Join(cache, "kernel-"+release+"-"+kernelKey())
	return dir, buildDir(dir, func(tmp string) error {
		work := filepath.Join(tmp, "work")
		for _, d := range []string{work, filepath.Join(tmp, "debs")} {
			if err := os.Mkdir(d, 0o755); err != nil {
				return err
			}
		}
		image := "linux-image-" + release
		headers := "linux-headers-" + strings.TrimSuffix(release, "-amd64")
		source := "linux-source-" + kernelSeries
		unpacked := []string{image, headers + "-amd64", headers + "-common", "linux-kbuild-" + kernelSeries, "nfs-kernel-server"}
		if err := download(ctx, filepath.Join(tmp, "debs"), append(unpacked, source)); err != nil {
			return err
		}
		for _, p := range unpacked {
			if err := quiet(exec.CommandContext(ctx, "dpkg", "-x", deb(tmp, p), work)); err != nil {
				return err
			}
		}
		if err := extractVmlinux(ctx, filepath.Join(work, "boot/vmlinuz-"+release), filepath.Join(tmp, "vmlinux")); err != nil {
			return err
		}
		siw, err := buildSiw(ctx, deb(tmp, source), work, release)
		if err != nil {
			return fmt.Errorf("siw: %w", err)
		}
		if err := keepModules(ctx, work, tmp, release, siw); err != nil {
			return err
		}
		for _, p := range kernelPrograms {
			if err := copyFile(filepath.Join(tmp, filepath.Base(p)), filepath.Join(work, p), 0o755); err != nil {
				return err
			}
		}
		for _, d := range []string{work, filepath.Join(tmp, "debs")} {
			if err := os.RemoveAll(d); err != nil {
				return err
			}
		}
		return os.WriteFile(filepath.Join(tmp, "release"), []byte(release+"\n"), 0o644)
	})
}

var releasePattern = regexp.MustCompile(`linux-image-(` + regexp.QuoteMeta(kernelSeries) + `\.[0-9]+-[0-9]+-amd64)\b`)

// newestRelease asks what Debian's metapackage of the kernel depends on.
func newestRelease(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("apt-cache"); err != nil {
		return "", errors.New("the kernel is fetched with apt, and there is none here")
	}
	ask := func() string {
		out, _ := exec.CommandContext(ctx, "apt-cache", "depends", "linux-image-amd64").Output()
		if m := releasePattern.FindSubmatch(out); m != nil {
			return string(m[1])
		}
		return ""
	}
	release := ask()
	if release == "" {
		if err := aptUpdate(ctx); err != nil {
			return "", err
		}
		release = ask()
	}
	if release == "" {
		return "", fmt.Errorf("apt knows no linux-image-amd64 of series %s (Debian 12): as root run apt-get update", kernelSeries)
	}
	return release, nil
}

// download fetches packages without installing them. Lists that are too old name files that are gone: then they are updated once.
func download(ctx context.Context, dir string, names []string) error {
	args := append([]string{"download", "-qq", "-o", "APT::Sandbox::User="}, names...)
	if apt(ctx, dir, args...) == nil {
		return nil
	}
	if err := aptUpdate(ctx); err != nil {
		return err
	}
	return apt(ctx, dir, args...)
}

func deb(tmp, name string) string {
	files, _ := filepath.Glob(filepath.Join(tmp, "debs", name+"_*.deb"))
	if len(files) == 0 {
		return filepath.Join(tmp, "debs", name+".deb") // named in the error of whoever opens it
	}
	return files[0]
}

// extractVmlinux writes the ELF kernel that a bzImage carries compressed: QEMU boots it directly, without the kernel
// unpacking itself in emulation.
func extractVmlinux(ctx context.Context, image, vmlinux string) error {
	b, err := os.ReadFile(image)
	if err != nil {
		return err
	}
	for _, p := range payloads(b) {
		cmd := exec.CommandContext(ctx, p.decoder[0], p.decoder[1:]...)
		cmd.Stdin = bytes.NewReader(b[p.offset:])
		out, _ := cmd.Output() // what follows the payload makes some decoders fail after it
		if bytes.HasPrefix(out, []byte("\x7fELF")) {
			return os.WriteFile(vmlinux, out, 0o644)
		}
	}
	return fmt.Errorf("%s has no ELF payload (xz, zstd or gzip)", filepath.Base(image))
}

type payload struct {
	offset  int
	decoder []string
}

// payloads finds where compressed data may start in a bzImage.
func payloads(b []byte) []payload {
	var out []payload
	for _, f := range []struct {
		magic   string
		decoder []string
	}{
		{"\xfd7zXZ\x00", []string{"xz", "-dc", "--single-stream"}},
		{"\x28\xb5\x2f\xfd", []string{"zstd", "-dcq"}},
		{"\x1f\x8b\x08", []string{"gzip", "-dcq"}},
	} {
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], []byte(f.magic))
			if i < 0 {
				break
			}
			at += i
			out = append(out, payload{at, f.decoder})
		}
	}
	return out
}

// buildSiw compiles siw, which Debian's kernels leave out, from Debian's source against the unpacked headers.
func buildSiw(ctx context.Context, source, work, release string) (string, error) {
	const tree = "linux-source-" + kernelSeries
	sh := fmt.Sprintf("dpkg-deb --fsys-tarfile %s | tar -xO ./usr/src/%s.tar.xz | tar -xJ -C %s %s/%s",
		quote(source), tree, quote(work), tree, siwPath)
	if err := quiet(exec.CommandContext(ctx, "sh", "-c", sh)); err != nil {
		return "", err
	}
	headers := filepath.Join(work, "usr/src/linux-headers-"+release)
	makefile := filepath.Join(headers, "Makefile")
	b, err := os.ReadFile(makefile)
	if err != nil {
		return "", err
	}
	// The headers expect to be installed in /usr/src.
	b = bytes.ReplaceAll(b, []byte("include /usr/src/"), []byte("include "+filepath.Join(work, "usr/src")+"/"))
	if err := os.WriteFile(makefile, b, 0o644); err != nil {
		return "", err
	}
	dir := filepath.Join(work, tree, siwPath)
	err = quiet(exec.CommandContext(ctx, "make", "-s", fmt.Sprint("-j", runtime.NumCPU()), "-C", headers, "M="+dir, "CONFIG_RDMA_SIW=m", "modules"))
	return filepath.Join(dir, "siw.ko"), err
}

// keepModules copies the modules that the guest needs, and siw, to tmp/lib/modules and makes their index for modprobe.
func keepModules(ctx context.Context, work, tmp, release, siw string) error {
	from := filepath.Join(work, "lib/modules", release)
	extra := filepath.Join(from, "extra")
	if err := os.MkdirAll(extra, 0o755); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(extra, "siw.ko"), siw, 0o644); err != nil {
		return err
	}
	if err := depmod(ctx, work, release); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(from, "modules.dep"))
	if err != nil {
		return err
	}
	builtin, err := os.ReadFile(filepath.Join(from, "modules.builtin"))
	if err != nil {
		return err
	}
	deps, err := parseModuleDeps(string(text))
	if err != nil {
		return err
	}
	files, err := deps.closure(guestModules, string(builtin))
	if err != nil {
		return err
	}
	to := filepath.Join(tmp, "lib/modules", release)
	for _, f := range append(files, "modules.builtin", "modules.builtin.modinfo", "modules.order") {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, f)), 0o755); err != nil {
			return err
		}
		if err := copyFile(filepath.Join(to, f), filepath.Join(from, f), 0o644); err != nil {
			return err
		}
	}
	return depmod(ctx, tmp, release)
}

func depmod(ctx context.Context, root, release string) error {
	return quiet(exec.CommandContext(ctx, "/sbin/depmod", "-b", root, release))
}

func copyFile(to, from string, perm os.FileMode) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, perm)
}

// quote makes one word of the shell of s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

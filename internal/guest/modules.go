package main

import (
	"fmt"
	"path"
	"strings"
)

// guestModules are loaded in the guest by name; what they depend on comes along. rxe asks for crc32 by its alias, and
// modprobe then wants every provider.
var guestModules = []string{
	"rdma_rxe", "siw", "ib_core", "ib_uverbs", "ib_cm", "iw_cm", "rdma_cm", "rdma_ucm", "ib_umad",
	"sunrpc", "rpcrdma", "nfs", "nfsv3", "nfsv4", "nfsd", "lockd", "auth_rpcgss", "nfs_acl",
	"nfs_layout_flexfiles", "nfs_layout_nfsv41_files",
	"virtio_pci", "virtio_console", "virtio_net", "9p", "9pnet_virtio",
	"dummy", "veth", "brd", "ext4", "sch_netem", "sch_tbf",
	"crc32_generic", "crc32-pclmul", "crc32c_generic", "crc32c-intel", "libcrc32c",
}

// moduleDeps is modules.dep: a module's path below lib/modules/RELEASE, and those of what it needs.
type moduleDeps map[string][]string

func parseModuleDeps(text string) (moduleDeps, error) {
	d := moduleDeps{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		file, deps, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("modules.dep:%d: no colon in %q", n, line)
		}
		d[file] = strings.Fields(deps)
	}
	return d, nil
}

// closure gives the files of the named modules and of all that they depend on, each once, dependencies first. A name in
// builtin (paths of modules.builtin) needs no file.
func (d moduleDeps) closure(names []string, builtin string) ([]string, error) {
	byName := map[string]string{}
	for file := range d {
		byName[moduleName(file)] = file
	}
	inKernel := map[string]bool{}
	for _, file := range strings.Fields(builtin) {
		inKernel[moduleName(file)] = true
	}
	var files []string
	done := map[string]bool{}
	var visit func(file string) error
	visit = func(file string) error {
		if done[file] {
			return nil
		}
		done[file] = true
		deps, ok := d[file]
		if !ok {
			return fmt.Errorf("module %s is needed and not in modules.dep", file)
		}
		for _, dep := range deps {
			if err := visit(dep); err != nil {
				return err
			}
		}
		files = append(files, file)
		return nil
	}
	for _, name := range names {
		file, ok := byName[moduleName(name)]
		if !ok {
			if inKernel[moduleName(name)] {
				continue
			}
			return nil, fmt.Errorf("this kernel has no module %s", name)
		}
		if err := visit(file); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// moduleName is the kernel's name of a module file: no directory, no suffix, underscores.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

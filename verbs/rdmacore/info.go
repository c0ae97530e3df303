package rdmacore

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.org/nfsrdma/verbs"
	"github.com/Mellanox/rdmamap"
)

// Info is what sysfs tells of a device.
type Info struct {
	Name      string
	Netdevs   []string // network interfaces on top of the same port
	Addrs     []netip.Addr
	Transport verbs.Transport
	NodeType  string // "CA" or "RNIC"
	State     string // of port 1: "ACTIVE"
	MTU       int    // of the first network interface, bytes; 0 unknown
}

// Devices lists the machine's RDMA devices, by name.
func Devices() ([]Info, error) {
	names := rdmamap.GetRdmaDeviceList()
	slices.Sort(names)
	ifaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("rdmacore: %w", err)
	}
	var out []Info
	for _, name := range names {
		out = append(out, infoOf(name, ifaces))
	}
	return out, nil
}

func sysfs(dev string, path ...string) string {
	b, _ := os.ReadFile(filepath.Join(append([]string{rdmamap.RdmaClassDir, dev}, path...)...))
	return strings.TrimSpace(string(b))
}

// afterColon is the name in "1: CA" and "4: ACTIVE".
func afterColon(s string) string {
	if _, name, ok := strings.Cut(s, ":"); ok {
		return strings.TrimSpace(name)
	}
	return s
}

func infoOf(name string, ifaces []net.Interface) Info {
	i := Info{
		Name:     name,
		NodeType: afterColon(sysfs(name, "node_type")),
		State:    afterColon(sysfs(name, "ports", "1", "state")),
	}
	switch {
	case i.NodeType == "RNIC":
		i.Transport = verbs.IWARP
	case sysfs(name, "ports", "1", "link_layer") == "Ethernet":
		i.Transport = verbs.RoCE
	}
	for _, f := range ifaces {
		if !isNetdevOf(&i, &f) {
			continue
		}
		i.Netdevs = append(i.Netdevs, f.Name)
		if i.MTU == 0 {
			i.MTU = f.MTU
		}
		addrs, err := f.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				addr := p.Addr().Unmap()
				if addr.IsLinkLocalUnicast() {
					addr = addr.WithZone(f.Name)
				}
				i.Addrs = append(i.Addrs, addr)
			}
		}
	}
	slices.SortStableFunc(i.Addrs, func(a, b netip.Addr) int { return addrRank(a) - addrRank(b) })
	return i
}

// addrRank puts the addresses that a person would type first.
func addrRank(a netip.Addr) int {
	switch {
	case a.Is4():
		return 0
	case a.IsLinkLocalUnicast():
		return 2
	}
	return 1
}

func isNetdevOf(i *Info, f *net.Interface) bool {
	if f.Flags&net.FlagLoopback != 0 {
		return false
	}
	if dev, err := rdmamap.GetRdmaDeviceForNetdevice(f.Name); err == nil {
		return dev == i.Name
	}
	if i.Transport != verbs.IWARP || len(f.HardwareAddr) != 6 {
		return false
	}
	// The GID of an iWARP port begins with its MAC address; sysfs does not name the interface.
	gid, err := hex.DecodeString(strings.ReplaceAll(sysfs(i.Name, "ports", "1", "gids", "0"), ":", ""))
	return err == nil && len(gid) == 16 && bytes.Equal(gid[:6], f.HardwareAddr)
}

// find gives the device called name, on the interface called name, or with the address name.
func find(name string) (Info, error) {
	all, err := Devices()
	if err != nil {
		return Info{}, err
	}
	for _, i := range all {
		if i.Name == name {
			return i, nil
		}
	}
	addr, _ := netip.ParseAddr(name)
	for _, i := range all {
		if slices.Contains(i.Netdevs, name) || slices.ContainsFunc(i.Addrs, func(a netip.Addr) bool {
			return a == addr || a.WithZone("") == addr
		}) {
			return i, nil
		}
	}
	var have []string
	for _, i := range all {
		have = append(have, fmt.Sprintf("%s (%s)", i.Name, strings.Join(i.Netdevs, " ")))
	}
	if len(have) == 0 {
		have = []string{"none; a software device is made with: rdma link add rxe0 type rxe netdev NETDEV"}
	}
	return Info{}, fmt.Errorf("rdmacore: no RDMA device %q: the machine has %s: %w", name, strings.Join(have, ", "), verbs.ErrInvalid)
}

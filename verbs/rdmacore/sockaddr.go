package rdmacore

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"example.org/nfsrdma/verbs"
)

// sockaddr is a struct sockaddr_in or sockaddr_in6, with room for any (struct sockaddr_storage).
type sockaddr [128]byte

func sockaddrOf(a netip.AddrPort) (s sockaddr) {
	ip := a.Addr().Unmap()
	binary.BigEndian.PutUint16(s[2:], a.Port())
	if ip.Is4() {
		binary.NativeEndian.PutUint16(s[:], syscall.AF_INET)
		b := ip.As4()
		copy(s[4:], b[:])
		return s
	}
	binary.NativeEndian.PutUint16(s[:], syscall.AF_INET6)
	b := ip.As16()
	copy(s[8:], b[:])
	binary.NativeEndian.PutUint32(s[24:], zoneIndex(ip.Zone()))
	return s
}

func zoneIndex(zone string) uint32 {
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}

// addrPort is the address in s, invalid if it has none.
func (s *sockaddr) addrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(s[2:])
	switch binary.NativeEndian.Uint16(s[:]) {
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(s[4:8])), port)
	case syscall.AF_INET6:
		ip := netip.AddrFrom16([16]byte(s[8:24])).Unmap()
		if scope := binary.NativeEndian.Uint32(s[24:]); scope != 0 {
			zone := strconv.Itoa(int(scope))
			if i, err := net.InterfaceByIndex(int(scope)); err == nil {
				zone = i.Name
			}
			ip = ip.WithZone(zone)
		}
		return netip.AddrPortFrom(ip, port)
	}
	return netip.AddrPort{}
}

// parseAddr resolves "host:port"; a host that is no IP address is looked up. An empty host is own.
func parseAddr(ctx context.Context, addr string, own netip.Addr) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %w", verbs.ErrInvalid, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port %q: %w", port, verbs.ErrInvalid)
	}
	ip := own
	if host != "" {
		if ip, err = netip.ParseAddr(host); err != nil {
			list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			if err != nil {
				return netip.AddrPort{}, fmt.Errorf("%w: %w", verbs.ErrUnreachable, err)
			}
			ip = list[0]
		}
	}
	if !ip.IsValid() {
		return netip.AddrPort{}, fmt.Errorf("no host in %q, and the device has no IP address: %w", addr, verbs.ErrInvalid)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}

//go:build rdmacore && cgo

package rdmacore

import (
	"net/netip"
	"syscall"
)

// freePort is a port of a that TCP can use now, 0 if there is none. librdmacm deals out ports without a look at TCP's,
// and siw then cannot bind to one whose last connection is in TIME_WAIT.
func freePort(a netip.Addr) uint16 {
	family, sa := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Addr: a.As16()})
	if a = a.Unmap(); a.Is4() {
		family, sa = syscall.AF_INET, &syscall.SockaddrInet4{Addr: a.As4()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer syscall.Close(fd)
	if syscall.Bind(fd, sa) != nil {
		return 0
	}
	switch sa, _ := syscall.Getsockname(fd); sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return uint16(sa.Port)
	case *syscall.SockaddrInet6:
		return uint16(sa.Port)
	}
	return 0
}

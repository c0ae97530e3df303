package rdmacore

import (
	"context"
	"net/netip"
	"testing"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

func TestSockaddr(t *testing.T) {
	for _, s := range []string{"10.9.0.1:20049", "0.0.0.0:1", "[2001:db8::7]:65535", "[::]:0", "[fe80::1%1]:7"} {
		ap := netip.MustParseAddrPort(s)
		sa := sockaddrOf(ap)
		got := sa.addrPort()
		require.Equal(t, ap.Port(), got.Port(), s)
		require.Equal(t, ap.Addr().WithZone(""), got.Addr().WithZone(""), s)
		require.Equal(t, ap.Addr().Zone() != "", got.Addr().Zone() != "", s)
	}
	var none sockaddr
	require.False(t, none.addrPort().IsValid())
	// struct sockaddr_in: family, port and address in network order.
	sa := sockaddrOf(netip.MustParseAddrPort("10.9.0.1:258"))
	require.Equal(t, []byte{2, 0, 1, 2, 10, 9, 0, 1}, sa[:8])
}

func TestParseAddr(t *testing.T) {
	ctx := context.Background()
	own := netip.MustParseAddr("10.9.0.1")
	for in, want := range map[string]string{
		"10.1.1.1:5": "10.1.1.1:5", ":20049": "10.9.0.1:20049", "[::1]:0": "[::1]:0", "[::ffff:10.0.0.1]:3": "10.0.0.1:3",
	} {
		got, err := parseAddr(ctx, in, own)
		require.NoError(t, err, in)
		require.Equal(t, want, got.String())
	}
	for _, in := range []string{"", "nonsense", ":::", "a:b:c", "10.0.0.1:-1", "10.0.0.1:65536", "10.0.0.1:"} {
		_, err := parseAddr(ctx, in, own)
		require.ErrorIs(t, err, verbs.ErrInvalid, in)
	}
	_, err := parseAddr(ctx, ":1", netip.Addr{})
	require.ErrorIs(t, err, verbs.ErrInvalid, "no host at all")
}

package rdmacore

import (
	"errors"
	"syscall"
	"testing"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

func TestErrno(t *testing.T) {
	for e, want := range map[syscall.Errno]error{
		syscall.EINVAL: verbs.ErrInvalid, syscall.ENOMEM: verbs.ErrNoResources, syscall.EBUSY: verbs.ErrBusy,
		syscall.EOPNOTSUPP: verbs.ErrUnsupported, syscall.EADDRINUSE: verbs.ErrAddrInUse, syscall.ECONNREFUSED: verbs.ErrRefused,
		syscall.EHOSTUNREACH: verbs.ErrUnreachable, syscall.ENODEV: verbs.ErrUnreachable, syscall.EIO: verbs.ErrClosed,
		syscall.ENOTCONN: verbs.ErrDisconnected,
	} {
		err := errnoError(int(e), "device %s: queue pair", "rxe0")
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, err, e)
		require.ErrorContains(t, err, "device rxe0: queue pair")
	}
	require.ErrorIs(t, errnoError(int(syscall.EPERM), "x"), syscall.EPERM)
}

func TestBounded(t *testing.T) {
	require.NoError(t, bounded("rxe0", "queue pair a", "MaxSendWR (max_qp_wr)", 5, 0, 5))
	for _, v := range []int{-1, 6} {
		err := bounded("rxe0", "queue pair a", "MaxSendWR (max_qp_wr)", v, 0, 5)
		require.ErrorIs(t, err, verbs.ErrInvalid)
		for _, part := range []string{"rxe0", "queue pair a", "MaxSendWR (max_qp_wr)", "0 to 5"} {
			require.ErrorContains(t, err, part)
		}
	}
}

func TestRejected(t *testing.T) {
	for status, reason := range map[int]string{
		8: "invalid service ID", 28: "consumer defined", 77: "reason 77", -int(syscall.ECONNREFUSED): "connection refused",
	} {
		err := error(rejected(status, []byte{1}))
		require.ErrorIs(t, err, verbs.ErrRefused)
		var rej *verbs.RejectError
		require.True(t, errors.As(err, &rej))
		require.Equal(t, reason, rej.Reason)
		require.Equal(t, []byte{1}, rej.PrivateData)
	}
	require.Equal(t, "consumer defined", rejected(-int(syscall.ECONNRESET), []byte{1}).Reason)
}

func TestUnreachable(t *testing.T) {
	for _, e := range []syscall.Errno{syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.EINVAL, syscall.EPERM} {
		err := unreachable(-int(e), "route")
		require.ErrorIs(t, err, verbs.ErrUnreachable)
		require.ErrorIs(t, err, e)
	}
}

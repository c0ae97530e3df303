//go:build rdmacore && cgo

package rdmacore_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
	"github.com/stretchr/testify/require"
)

// TestDeviceRemoved takes the device away in the midst of traffic (rdma link del), and puts it back: only in a guest,
// where nobody else has it.
func TestDeviceRemoved(t *testing.T) {
	if os.Getenv("NFSRDMA_GUEST") == "" {
		t.Skip("it removes the device: in a guest only (NFSRDMA_GUEST)")
	}
	name := os.Getenv("NFSRDMA_DEVICE")
	infos, err := rdmacore.Devices()
	require.NoError(t, err)
	i := slices.IndexFunc(infos, func(i rdmacore.Info) bool { return i.Name == name })
	if i < 0 {
		t.Skipf("NFSRDMA_DEVICE=%q is no name of a device", name)
	}
	info := infos[i]
	kind := "rxe"
	if info.Transport == verbs.IWARP {
		kind = "siw"
	}
	d := device(t)
	l := listenOn(t, d)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fatal, told := make(chan struct{}), make(chan struct{})
	d.OnEvent(func(e verbs.AsyncEvent) {
		if e.Type == verbs.EventDeviceFatal {
			close(fatal)
		}
	})
	var c, s end
	require.NoError(t, connectEnds(ctx, d, l, &c, &s))
	removals := make(chan verbs.CMEventType, 16)
	c.id.OnEvent(func(e verbs.CMEventType) { removals <- e })
	go func() {
		defer close(told)
		for e := range removals {
			if e == verbs.CMDeviceRemoval {
				return
			}
		}
	}()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := uint64(0); ; i++ {
			_, err := c.qp.PostSend([]verbs.SendWR{{ID: i, Op: verbs.OpRDMAWrite, Flags: verbs.Signaled, RemoteAddr: s.mr.Addr(), RKey: s.mr.RKey(),
				SGEs: []verbs.SGE{{Addr: c.mr.Addr(), Length: 4096, LKey: c.mr.LKey()}}}})
			if err != nil && !errors.Is(err, verbs.ErrQueueFull) {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	del := exec.Command("rdma", "link", "del", name)
	require.NoError(t, del.Start())
	for what, ch := range map[string]chan struct{}{"event DEVICE_REMOVAL": told, "event DEVICE_FATAL": fatal} {
		select {
		case <-ch:
		case <-ctx.Done():
			t.Fatalf("no %s", what)
		}
	}
	_, err = d.AllocPD()
	require.ErrorIs(t, err, verbs.ErrClosed)
	_, err = d.Listen(newAddr(d), 1)
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.NoError(t, errors.Join(c.close(), s.close(), l.Close()))
	<-stopped
	require.Equal(t, verbs.Resources{}, d.Resources())
	require.NoError(t, d.Close())
	require.NoError(t, del.Wait(), "rdma link del ends when nobody has the device any more")
	out, err := exec.Command("rdma", "link", "add", name, "type", kind, "netdev", info.Netdevs[0]).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Eventually(t, func() bool {
		all, _ := rdmacore.Devices()
		return slices.ContainsFunc(all, func(i rdmacore.Info) bool { return i.Name == name && i.State == "ACTIVE" && len(i.Addrs) > 0 })
	}, 30*time.Second, 10*time.Millisecond)
	again := device(t)
	l = listenOn(t, again)
	var c2, s2 end
	require.NoError(t, connectEnds(ctx, again, l, &c2, &s2), "the device that is back")
	require.NoError(t, errors.Join(c2.close(), s2.close(), l.Close()))
}

package rdmacore

import (
	"os"
	"path/filepath"
	"testing"

	"example.org/nfsrdma/verbs"
	"github.com/Mellanox/rdmamap"
	"github.com/stretchr/testify/require"
)

// fakeSysfs has devices as the kernel shows them: entries are links.
func fakeSysfs(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	class := filepath.Join(dir, "class")
	require.NoError(t, os.Mkdir(class, 0o755))
	for name, text := range files {
		file := filepath.Join(dir, "devices", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o644))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "devices"), 0o755))
	devs, err := os.ReadDir(filepath.Join(dir, "devices"))
	require.NoError(t, err)
	for _, d := range devs {
		require.NoError(t, os.Symlink(filepath.Join(dir, "devices", d.Name()), filepath.Join(class, d.Name())))
	}
	old := rdmamap.RdmaClassDir
	rdmamap.RdmaClassDir = class
	t.Cleanup(func() { rdmamap.RdmaClassDir = old })
}

func TestDevices(t *testing.T) {
	fakeSysfs(t, map[string]string{
		"rxe0/node_type": "1: CA", "rxe0/ports/1/state": "4: ACTIVE", "rxe0/ports/1/link_layer": "Ethernet",
		"mlx4_0/node_type": "1: CA", "mlx4_0/ports/1/state": "1: DOWN", "mlx4_0/ports/1/link_layer": "InfiniBand",
		"siw0/node_type": "4: RNIC", "siw0/ports/1/state": "4: ACTIVE", "siw0/ports/1/link_layer": "Ethernet",
	})
	all, err := Devices()
	require.NoError(t, err)
	require.Len(t, all, 3)
	for i, want := range []Info{
		{Name: "mlx4_0", Transport: verbs.IB, NodeType: "CA", State: "DOWN"},
		{Name: "rxe0", Transport: verbs.RoCE, NodeType: "CA", State: "ACTIVE"},
		{Name: "siw0", Transport: verbs.IWARP, NodeType: "RNIC", State: "ACTIVE"},
	} {
		require.Equal(t, want, all[i])
	}
	i, err := find("siw0")
	require.NoError(t, err)
	require.Equal(t, "siw0", i.Name)
	_, err = find("eth7")
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.ErrorContains(t, err, "rxe0")
}

func TestNoDevices(t *testing.T) {
	fakeSysfs(t, nil)
	all, err := Devices()
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = find("rxe0")
	require.ErrorContains(t, err, "rdma link add")
}

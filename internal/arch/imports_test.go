package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "example.org/nfsrdma/"

// allowed says what of the module each package may import, tests aside; a name
// with a slash at its end stands for all below. The first rule that fits a package counts.
var allowed = []struct {
	pkg  string
	from []string
}{
	{"internal/sched", nil},
	{"internal/xdr/", []string{"internal/xdr"}}, // its test support
	{"internal/xdr", nil},
	{"internal/rpc", []string{"internal/xdr"}},
	{"internal/rpcrdma", []string{"internal/xdr"}},
	{"internal/nfs3", []string{"internal/xdr"}},
	{"internal/mount3", []string{"internal/xdr", "internal/nfs3", "internal/rpc"}},
	{"internal/link", []string{"internal/sched"}},
	{"internal/tcpsim", []string{"internal/sched"}},
	{"internal/xprt/stream/tcpnet", []string{"internal/sched", "internal/link", "internal/tcpsim", "internal/xprt/stream"}},
	{"internal/xprt/", []string{"verbs", "internal/sched", "internal/rpcrdma", "internal/rpc", "internal/xdr", "internal/nfs3", "internal/xprt/"}},
	{"verbs/softroce", []string{"verbs", "internal/sched", "internal/link"}},
	{"verbs/rdmacore", []string{"verbs"}},
	{"verbs/verbstest", []string{"verbs", "internal/sched"}},
	{"verbs", nil},
	{"nfsserver/vfs", nil},
	{"nfsserver/vfs/", []string{"nfsserver/vfs"}},
	{"nfsserver/memfs", []string{"nfsserver/vfs"}},
	{"nfsserver/sinkfs", []string{"nfsserver/vfs", "nfsserver/memfs"}},
	{"nfsserver/dirfs", []string{"nfsserver/vfs"}},
	{"nfsserver/model", []string{"nfsserver/vfs", "internal/sched"}},
	{"nfsserver", []string{"nfsserver/vfs", "verbs", "internal/"}},
	{"nfsclient", []string{"verbs", "internal/"}},
	{"fabric/chunkfuzz", []string{"nfsclient", "nfsserver", "nfsserver/", "verbs", "verbs/softroce", "internal/"}},
	{"fabric/verbsfuzz", []string{"fabric/chunkfuzz", "verbs", "verbs/softroce", "internal/sched"}},
	{"fabric/packetfuzz", []string{"verbs", "verbs/softroce", "internal/sched", "internal/link"}},
	{"fabric/faults", []string{"verbs", "verbs/softroce", "nfsserver/vfs", "nfsserver/model", "internal/sched"}},
	{"fabric", []string{"fabric/faults", "nfsclient", "nfsserver", "nfsserver/", "verbs", "verbs/softroce", "verbs/rdmacore", "internal/"}},
	{"scenarios", []string{"fabric", "nfsclient", "nfsserver", "nfsserver/", "verbs", "verbs/softroce", "internal/sched", "internal/tcpsim"}},
	{"scenarios/conformance", []string{"nfsclient", "nfsserver", "nfsserver/", "verbs", "verbs/softroce", "internal/"}},
	{"scenarios/", []string{"scenarios", "scenarios/", "fabric", "fabric/chunkfuzz", "fabric/packetfuzz", "fabric/verbsfuzz", "fabric/faults", "nfsclient", "nfsserver", "nfsserver/", "verbs", "verbs/softroce", "verbs/rdmacore", "internal/sched", "internal/metrics"}},
	{"internal/report", nil},
	{"internal/metrics", nil},
	{"internal/arch", nil},
	{"internal/mutants", nil},
	{"internal/guest/perf", []string{"fabric"}},
	{"internal/guest", nil},
}

// stdlibOnly may import nothing outside the standard library.
var stdlibOnly = []string{"internal/sched", "internal/xdr", "internal/rpc", "internal/rpcrdma", "internal/nfs3", "internal/mount3", "verbs",
	"nfsserver/vfs", "nfsserver/memfs"}

func fits(pkg, pattern string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(pkg, pattern)
	}
	return pkg == pattern
}

func TestImportsRunDownward(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, name)
		require.NoError(t, err)
		pkg := path.Dir(filepath.ToSlash(rel))
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		seen++
		for _, i := range f.Imports {
			imp, _ := strconv.Unquote(i.Path.Value)
			checkImport(t, rel, pkg, imp)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, seen, 100)
}

func checkImport(t *testing.T, file, pkg, imp string) {
	own, ours := strings.CutPrefix(imp, module)
	if !ours {
		if strings.Contains(strings.Split(imp, "/")[0], ".") {
			for _, p := range stdlibOnly {
				assert.NotEqual(t, p, pkg, "%s imports %s: only the standard library is allowed", file, imp)
			}
		}
		return
	}
	for _, r := range allowed {
		if !fits(pkg, r.pkg) {
			continue
		}
		for _, a := range r.from {
			if fits(own, a) {
				return
			}
		}
		assert.Fail(t, "import against the direction", "%s imports %s; %s may import %q", file, own, r.pkg, r.from)
		return
	}
	assert.Fail(t, "package without a rule", "%s of %s: add the package to allowed", file, pkg)
}

func TestEveryPackageHasADoc(t *testing.T) {
	root := filepath.Join("..", "..")
	dirs := map[string]bool{}
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, _ error) error {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			dirs[filepath.Dir(name)] = true
		}
		return nil
	})
	for d := range dirs {
		b, err := os.ReadFile(filepath.Join(d, "doc.go"))
		if strings.Contains(d, "cmd") {
			b, err = os.ReadFile(filepath.Join(d, "main.go"))
		}
		if assert.NoError(t, err, "%s has no doc.go", d) {
			assert.Contains(t, string(b), "// ", d)
		}
	}
}

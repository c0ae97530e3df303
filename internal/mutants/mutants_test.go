package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var root = filepath.Join("..", "..")

func mutants(t *testing.T) []Mutant {
	t.Helper()
	b, err := os.ReadFile("testdata/mutants.txt")
	require.NoError(t, err)
	l, err := Parse(string(b))
	require.NoError(t, err)
	return l
}

// TestApply: every edit still fits the code, and changes it.
func TestApply(t *testing.T) {
	stories := map[string]bool{}
	for _, m := range mutants(t) {
		stories[m.ID] = true
		files, err := m.Apply(root)
		if !assert.NoError(t, err) {
			continue
		}
		for name, text := range files {
			was, err := os.ReadFile(filepath.Join(root, name))
			require.NoError(t, err)
			assert.NotEqual(t, string(was), text, "%s: nothing is taken out of %s", m.ID, name)
		}
	}
	for _, id := range strings.Fields("F01 F02 F03 F04 F05 F06 F07 F08 F09 F10 F11 F12 F13 F14 F15 F16 F19 F20 F21 F22 C46") {
		assert.True(t, stories[id], "%s has no mutant", id)
	}
}

// TestMutants runs all of them, or those of $NFSRDMA_MUTANTS, and wants each to be noticed.
func TestMutants(t *testing.T) {
	only := os.Getenv("NFSRDMA_MUTANTS")
	if only == "" {
		t.Skip("make mutants runs them")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	t.Logf("%-4s %-14s %-70s %s", "ID", "VERDICT", "WITHOUT", "TEST: WHAT IT SAID")
	for _, m := range mutants(t) {
		if only != "all" && !strings.Contains(","+only+",", ","+m.ID+",") {
			continue
		}
		v, why, err := m.Run(root, t.TempDir())
		require.NoError(t, err)
		t.Logf("%-4s %-14s %-70s %s: %s", m.ID, v, m.Mend, m.Test, why)
		if !v.Good() {
			t.Errorf("%s: %s", m.ID, v)
		}
	}
}

func TestParse(t *testing.T) {
	l, err := Parse("# comment\nmutant F99 the check\ntest ./x TestY/F99\nfile a.go\n- \told()\n- \ttwo()\n+ \tnew()\nfile b.go\n- x\n")
	require.NoError(t, err)
	assert.Equal(t, []Mutant{{ID: "F99", Mend: "the check", Pkg: "./x", Test: "TestY/F99",
		Edits: []Edit{{"a.go", "\told()\n\ttwo()\n", "\tnew()\n"}, {File: "b.go", Old: "x\n"}}}}, l)
	for _, bad := range []string{"test ./x T", "mutant F1 x\n- y", "mutant F1 x\nwhat is this", "mutant F1 x\ntest ./x T"} {
		_, err := Parse(bad)
		assert.Error(t, err, bad)
	}
}

func TestApplyWantsOnePlace(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("x\ny\nx\n"), 0o644))
	for old, ok := range map[string]bool{"y\n": true, "x\n": false, "z\n": false, "": false} {
		m := Mutant{ID: "F", Edits: []Edit{{"a", old, "new\n"}}}
		files, err := m.Apply(dir)
		assert.Equal(t, ok, err == nil)
		if ok {
			assert.Equal(t, "x\nnew\nx\n", files["a"])
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		out    string
		failed bool
		want   Verdict
	}{
		{"ok", false, NotSeen},
		{"--- FAIL: TestX (0s)\n    --- FAIL: TestX/F01 (0s)\n Error:  data", true, Seen},
		{"    --- FAIL: TestX/F012 (0s)", true, NotSeen},
		{"x.go:1: undefined\nFAIL x [build failed]", true, NoBuild},
		{"panic: test timed out after 3m", true, Hung},
		{"panic: sched: task", true, Panicked},
		{"fatal error: runtime: cannot allocate memory", true, Panicked},
		{"signal: killed\nFAIL x 59.012s", true, NotSeen},
		{"FAIL: leaked goroutine", true, NotSeen},
	} {
		v, _ := judge(c.out, "TestX/F01", c.failed)
		assert.Equal(t, c.want, v, c.out)
	}
}

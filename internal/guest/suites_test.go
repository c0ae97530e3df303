package main

import (
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSuitesAreSound(t *testing.T) {
	word := regexp.MustCompile(`^[a-z0-9-]+$`)
	seen := map[string]bool{}
	for _, s := range suites {
		assert.Regexp(t, word, s.name)
		assert.False(t, seen[s.name], "two suites %s", s.name)
		seen[s.name] = true
		files, err := filepath.Glob(filepath.Join("..", "..", s.pkg, "*_test.go"))
		require.NoError(t, err)
		assert.NotEmpty(t, files, "suite %s: no tests in %s", s.name, s.pkg)
		_, err = regexp.Compile(s.run)
		assert.NoError(t, err)
		for _, d := range s.devices {
			assert.Contains(t, devices, d)
		}
		for _, e := range s.env {
			assert.Regexp(t, `^[A-Z_]+=`, e)
		}
		assert.GreaterOrEqual(t, s.timeout, time.Duration(0))
	}
}

func TestSuiteArguments(t *testing.T) {
	s := suite{name: "x", pkg: "a/b", tags: "t", run: "^TestX$", timeout: time.Minute}
	assert.Equal(t, "a-b-t.test", s.build())
	assert.Equal(t, "rdmacore,t", s.tagList())
	assert.Contains(t, s.args(""), "-test.run=^TestX$")
	assert.Contains(t, s.args(""), "-test.timeout=1m0s")
	assert.Contains(t, s.args("Other"), "-test.run=Other")
	assert.Equal(t, "rdmacore", suite{}.tagList())
	assert.Equal(t, defaultSuiteTimeout, suite{}.limit())
	assert.True(t, suite{}.runsOn("siw"))
	assert.False(t, suite{}.runsOn("none"))
	assert.True(t, suite{devices: []string{"none"}}.runsOn("none"))
}

func TestSelectSuites(t *testing.T) {
	got, err := selectSuites(nil)
	require.NoError(t, err)
	assert.Equal(t, suites, got)
	got, err = selectSuites([]string{"selftest"})
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.Equal(t, "selftest", got[0].name)
	_, err = selectSuites([]string{"nothing"})
	assert.ErrorContains(t, err, "selftest")
}

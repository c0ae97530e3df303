package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// suite is a test package, or a part of one, that runs on real RDMA devices. It is compiled with the tag rdmacore and run
// in its package's directory, with the environment that doc.go names.
type suite struct {
	name    string        // of letters, digits and -
	pkg     string        // directory below the module
	run     string        // -test.run; "" is all
	tags    string        // besides rdmacore, separated by commas
	devices []string      // those of a guest that it is run on; nil is rxe and siw
	env     []string      // NAME=VALUE
	timeout time.Duration // 0 is defaultSuiteTimeout
	goroot  bool          // needs the go command and GOROOT/src
	guest   bool          // needs what only the guest has, such as guest-nfsd: guest direct leaves it out
	// programs are directories of commands that are built too, each to a file of its directory's name in $NFSRDMA_PROGRAMS.
	programs []string
	mem      int // MiB that the guest must have; 0 is defaultMemory
}

// suites run in this order.
var suites = []suite{
	{name: "selftest", pkg: "internal/guest/selftest", guest: true},
	{name: "verbs", pkg: "verbs/rdmacore", timeout: 10 * time.Minute},
	{name: "linuxserver", pkg: "internal/guest/linuxserver", guest: true},
	{name: "conformance", pkg: "scenarios/conformance", run: "^TestKernelServer", guest: true},
	{name: "conformanceclient", pkg: "scenarios/conformance", run: "^TestKernelClient$", guest: true, timeout: 8 * time.Minute},
	{name: "fabric", pkg: "fabric", run: "^TestOnDevice", goroot: true, timeout: 10 * time.Minute},
	{name: "linuxclient", pkg: "internal/guest/linuxclient", guest: true, programs: []string{"scenarios/cmd/nfsrdma"}, timeout: 8 * time.Minute},
}

const defaultSuiteTimeout = 5 * time.Minute

func (s suite) limit() time.Duration {
	if s.timeout > 0 {
		return s.timeout
	}
	return defaultSuiteTimeout
}

func (s suite) runsOn(dev string) bool {
	if s.devices == nil {
		return dev == "rxe" || dev == "siw"
	}
	return slices.Contains(s.devices, dev)
}

// build names the test binary: suites of one package and tags share it.
func (s suite) build() string {
	return strings.NewReplacer("/", "-", ",", "-").Replace(s.pkg+"-"+s.tags) + ".test"
}

func (s suite) tagList() string {
	return strings.TrimSuffix("rdmacore,"+s.tags, ",")
}

// args are the test binary's. run, if not empty, takes the place of the suite's own.
func (s suite) args(run string) []string {
	if run == "" {
		run = s.run
	}
	args := []string{"-test.v=test2json", "-test.count=1", "-test.paniconexit0", "-test.timeout=" + s.limit().String()}
	if run != "" {
		args = append(args, "-test.run="+run)
	}
	return args
}

// selectSuites gives those of the names, all if there are none.
func selectSuites(names []string) ([]suite, error) {
	if len(names) == 0 {
		return suites, nil
	}
	var out []suite
	for _, name := range names {
		i := slices.IndexFunc(suites, func(s suite) bool { return s.name == name })
		if i < 0 {
			var known []string
			for _, s := range suites {
				known = append(known, s.name)
			}
			return nil, fmt.Errorf("no suite %q; there are: %s", name, strings.Join(known, ", "))
		}
		out = append(out, suites[i])
	}
	return out, nil
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// result is what became of one suite on one device.
type result struct {
	device, suite string
	passed        int
	skipped       map[string][]string // names of tests by reason
	failed        []failure
	trouble       []string // what made the suite fail as a whole: no build, no end, a warning of the kernel
	logs          string   // directory of what was kept of a failure
	elapsed       time.Duration
	first         *result // the same suite in an earlier guest, where it failed
}

// what names what failed.
func (r *result) what() string {
	var names []string
	for _, f := range r.failed {
		names = append(names, f.test)
	}
	for _, t := range r.trouble {
		line, _, _ := strings.Cut(t, "\n")
		names = append(names, line)
	}
	return strings.Join(names, ", ")
}

type failure struct {
	test   string
	output string
}

func (r *result) ok() bool { return len(r.failed) == 0 && len(r.trouble) == 0 }

func (r *result) skips() int {
	n := 0
	for _, tests := range r.skipped {
		n += len(tests)
	}
	return n
}

// event is a line of go tool test2json.
type event struct {
	Action string
	Test   string
	Output string
}

// readEvents counts tests that have no subtests; one that has counts only if it failed and none of them did.
func (r *result) readEvents(in io.Reader) error {
	tests := map[string]*testState{}
	var order []string
	dec := json.NewDecoder(in)
	for {
		var e event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("test2json: %w", err)
		}
		if e.Test == "" {
			continue
		}
		t := tests[e.Test]
		if t == nil {
			t = &testState{}
			tests[e.Test] = t
			order = append(order, e.Test)
		}
		switch e.Action {
		case "output":
			t.output.WriteString(e.Output)
		case "pass", "skip", "fail":
			t.action = e.Action
		}
	}
	r.count(tests, order)
	return nil
}

type testState struct {
	action string // "" while it has not ended
	output strings.Builder
}

func (r *result) count(tests map[string]*testState, order []string) {
	parents, failedBelow := map[string]bool{}, map[string]bool{}
	for name, t := range tests {
		for p := parent(name); p != ""; p = parent(p) {
			parents[p] = true
			if t.action == "fail" || t.action == "" {
				failedBelow[p] = true
			}
		}
	}
	for _, name := range order {
		t := tests[name]
		switch {
		case t.action == "fail" && !failedBelow[name]:
			r.failed = append(r.failed, failure{name, t.output.String()})
		case t.action == "" && !failedBelow[name]:
			r.failed = append(r.failed, failure{name, t.output.String() + "did not end\n"})
		case parents[name] || t.action == "fail" || t.action == "":
		case t.action == "skip":
			if r.skipped == nil {
				r.skipped = map[string][]string{}
			}
			reason := withoutName(skipReason(t.output.String()), name)
			r.skipped[reason] = append(r.skipped[reason], name)
		case t.action == "pass":
			r.passed++
		}
	}
}

func parent(name string) string {
	return name[:max(0, strings.LastIndexByte(name, '/'))]
}

var (
	logLine   = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: (.*)$`)
	framework = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- SKIP)`)
)

// skipReason is what a skipped test logged last, without file and line.
func skipReason(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for _, line := range slices.Backward(lines) {
		if framework.MatchString(line) {
			continue
		}
		if m := logLine.FindStringSubmatch(line); m != nil {
			return strings.TrimSpace(m[1])
		}
	}
	return "no reason given"
}

// withoutName takes the test's own name off the front of its reason, so that equal reasons are one.
func withoutName(reason, test string) string {
	first, rest, ok := strings.Cut(reason, " ")
	if ok && strings.HasSuffix("/"+test, "/"+strings.TrimSuffix(first, ":")) {
		return rest
	}
	return reason
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// printResult is a suite's line when it has ended, and what failed in it.
func printResult(w io.Writer, r *result) {
	verdict := "ok  "
	if !r.ok() {
		verdict = "FAIL"
	}
	fmt.Fprintf(w, "%s  %s  %s  %d passed, %d skipped, %d failed  %.1fs\n", verdict, r.device, r.suite, r.passed, r.skips(), len(r.failed), r.elapsed.Seconds())
	for _, t := range r.trouble {
		fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(t, "\n", "\n    "))
	}
	for _, f := range r.failed {
		fmt.Fprintf(w, "    %s\n", f.test)
		for line := range strings.Lines(f.output) {
			fmt.Fprintf(w, "    | %s\n", strings.TrimRight(line, "\r\n"))
		}
	}
	if r.logs != "" {
		fmt.Fprintf(w, "    logs in %s\n", r.logs)
	}
}

// printSummary is the table of a whole run, and why tests were skipped. It reports whether all is well.
func printSummary(w io.Writer, results []*result, total time.Duration) bool {
	ok := true
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DEVICE\tSUITE\tPASSED\tSKIPPED\tFAILED\tTIME\t")
	for _, r := range results {
		note := ""
		if len(r.trouble) > 0 {
			note, _, _ = strings.Cut(r.trouble[0], "\n")
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%.1fs\t%s\n", r.device, r.suite, r.passed, r.skips(), len(r.failed), r.elapsed.Seconds(), note)
		ok = ok && r.ok()
	}
	_ = t.Flush()
	for _, r := range results {
		if r.first != nil {
			fmt.Fprintf(w, "unsteady %s  %s  failed in a first guest: %s\n", r.device, r.suite, r.first.what())
		}
	}
	printSkips(w, results)
	verdict := "ok"
	if !ok {
		verdict = "FAIL"
	}
	fmt.Fprintf(w, "%s  %d suites in %.0fs\n", verdict, len(results), total.Seconds())
	return ok
}

// shownSkips is how many names of tests are printed for a reason.
const shownSkips = 3

func printSkips(w io.Writer, results []*result) {
	for _, r := range results {
		for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
			tests := r.skipped[reason]
			names := strings.Join(tests[:min(len(tests), shownSkips)], " ")
			if len(tests) > shownSkips {
				names += " ..."
			}
			fmt.Fprintf(w, "skipped  %s  %s  %d: %s (%s)\n", r.device, r.suite, len(tests), reason, names)
		}
	}
}

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Verdict is what became of a row.
type Verdict string

// The verdicts.
const (
	Proved  Verdict = "proved"  // all its checks hold
	Differ  Verdict = "differs" // all that its checks found is known of this server, with a reason
	InPart  Verdict = "in part" // all its checks hold, and a part of it has none
	Failed  Verdict = "failed"  // a check found a broken rule
	NotYet  Verdict = "not yet" // it has no check
	NotHere Verdict = "-"       // it has none of the kind that was run
)

// CheckResult is what a check said.
type CheckResult struct {
	Test     string // "C14/WriteChunkComesBackWhole"
	Who      Who
	Findings []string  `json:",omitempty"` // what it found wrong; none if the rule holds
	Differs  []Differs `json:",omitempty"` // what it found that is known of this server
	Skipped  string    `json:",omitempty"` // why all of it could not be made here
}

// RowResult is a row with its verdict.
type RowResult struct {
	ID      string
	RFC     int
	Section string
	Who     Who
	Rule    string
	Verdict Verdict
	NotYet  string `json:",omitempty"` // why there is no check, or what the checks leave out
	Checks  []CheckResult
}

// Options say what Run checks.
type Options struct {
	Seed   uint64
	Target *Target       // the server to check; nil: the embedded server, and the embedded client
	Client *ClientTarget // the client to check, instead of both; not together with Target
	Known  *Known        // what is known of Target or Client; nil: nothing
	Deadly bool          // send a Target what ends the machine of a known server, unless Known says so of it
	Only   string        // rows: IDs, with commas between; "" is all
	Faults bool          // the stories of reported faults too
}

// Run runs the checks.
func Run(ctx context.Context, o Options) ([]RowResult, error) {
	var out []RowResult
	only := map[string]bool{}
	for _, id := range strings.FieldsFunc(o.Only, func(c rune) bool { return c == ',' || c == ' ' }) {
		only[strings.ToUpper(id)] = true
	}
	list := rows
	if o.Faults || strings.ContainsAny(o.Only, "fF") {
		list = append([]Row(nil), rows...)
		for i := range faults {
			list = append(list, faults[i].row())
		}
	}
	for i := range list {
		row := &list[i]
		if o.Only != "" && !only[row.ID] {
			continue
		}
		delete(only, row.ID)
		res := RowResult{ID: row.ID, RFC: row.RFC, Section: row.Section, Who: row.Who, Rule: row.Rule, NotYet: row.NotYet, Verdict: NotHere}
		if len(row.checks) == 0 {
			res.Verdict = NotYet
		}
		left := row.NotYet != "" // a part of it has no check here
		for j := range row.checks {
			k := &row.checks[j]
			if o.Target != nil && (k.responder == nil || k.live) || o.Client != nil && k.requester == nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return out, err
			}
			c := CheckResult{Test: row.ID + "/" + k.title(), Who: k.who()}
			if o.Client != nil {
				mountedChecks[k.name].compare(ctx, &o, &c)
			} else {
				k.run(ctx, &o, &c)
			}
			res.Checks = append(res.Checks, c)
			switch {
			case len(c.Findings) > 0:
				res.Verdict = Failed
			case len(c.Differs) > 0 && res.Verdict != Failed:
				res.Verdict = Differ
			case c.Skipped == "" && res.Verdict == NotHere:
				res.Verdict = Proved
			}
			left = left || c.Skipped != ""
		}
		if res.Verdict == Proved && left {
			res.Verdict = InPart
		}
		out = append(out, res)
	}
	for id := range only {
		return out, fmt.Errorf("no row %s", id)
	}
	return out, nil
}

// title names the check among those of its row.
func (k *check) title() string {
	return [...]string{"", "Requester", "Responder"}[k.who()] + k.name
}

// run runs the check and notes what it found wrong, and why it could not be made to its end.
func (k *check) run(ctx context.Context, o *Options, c *CheckResult) {
	if k.requester != nil {
		r := &requesterRun{base: ctx, seed: o.Seed}
		r.guard(func() { k.requester(r) })
		r.guard(r.end)
		c.Findings, c.Skipped = r.findings(), r.skipped
		return
	}
	r := &responderRun{run: run{ctx: ctx}, check: c.Test, known: o.Known, careful: o.Target != nil && !o.Deadly}
	r.guard(func() {
		r.begin(o.Target, o.Seed)
		k.responder(r)
	})
	r.guard(r.end)
	c.Differs, r.fails = o.Known.split(c.Test, r.fails)
	c.Findings, c.Differs, c.Skipped = r.findings(), append(c.Differs, r.spared...), r.skipped
}

// compare runs the check, and notes what it found. What is not as it is known is run again, twice at most: soft devices lose a
// connection now and then, which looks like a finding, or hides one.
func (k *mountedCheck) compare(ctx context.Context, o *Options, c *CheckResult) {
	for tries := 3; tries > 0; tries-- {
		c.Findings, c.Skipped = k.run(ctx, o.Client)
		c.Differs, c.Findings = o.Known.split(c.Test, c.Findings)
		if len(c.Findings) == 0 && len(o.Known.missingOf(c, o.Client.Device.Name())) == 0 || ctx.Err() != nil {
			return
		}
		if tries > 1 {
			delete(o.Client.done, k)
		}
	}
}

// run runs the check once for all rows, and gives what it found wrong.
func (k *mountedCheck) run(ctx context.Context, t *ClientTarget) (findings []string, skipped string) {
	if k.why != "" {
		return nil, k.why
	}
	if t.done == nil {
		t.done = map[*mountedCheck]*CheckResult{}
	}
	c := t.done[k]
	if c == nil {
		r := &requesterRun{base: ctx, client: t}
		r.guard(func() { k.f(r) })
		r.guard(r.end)
		c = &CheckResult{Findings: r.findings(), Skipped: r.skipped}
		t.done[k] = c
	}
	return c.Findings, c.Skipped
}

// Failures counts the rows that failed.
func Failures(l []RowResult) int {
	n := 0
	for i := range l {
		if l[i].Verdict == Failed {
			n++
		}
	}
	return n
}

// WriteText prints a table, a line a row and one a finding.
func WriteText(w io.Writer, l []RowResult) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSECTION\tWHO\tVERDICT\tTEST")
	counts := map[Verdict]int{}
	for i := range l {
		r := &l[i]
		counts[r.Verdict]++
		fmt.Fprintf(t, "%s\t%s\t%v\t%s\t%s\n", r.ID, r.section(), r.Who, r.Verdict, r.tests())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range l {
		for _, c := range l[i].Checks {
			if c.Skipped != "" {
				fmt.Fprintf(w, "%s: left out: %s\n", c.Test, c.Skipped)
			}
			for _, f := range c.Findings {
				fmt.Fprintf(w, "%s: %s\n", c.Test, f)
			}
			for _, d := range c.Differs {
				fmt.Fprintf(w, "%s: known: %s (%s, %s)\n", c.Test, d.Finding, d.Rule, d.Where)
			}
		}
	}
	_, err := fmt.Fprintf(w, "%d rows: %d proved, %d in part, %d differ as is known, %d failed, %d not yet, %d not of this run\n", len(l), counts[Proved], counts[InPart], counts[Differ], counts[Failed], counts[NotYet], counts[NotHere])
	return err
}

func (r *RowResult) section() string {
	if r.RFC == 0 {
		return r.Section
	}
	return fmt.Sprintf("RFC %d %s", r.RFC, r.Section)
}

// tests names the checks, or says why there are none.
func (r *RowResult) tests() string {
	if len(r.Checks) == 0 {
		return r.NotYet
	}
	var l []string
	for _, c := range r.Checks {
		l = append(l, strings.TrimPrefix(c.Test, r.ID+"/"))
	}
	return strings.Join(l, " ")
}

// WriteJSON prints the rows as an array.
func WriteJSON(w io.Writer, l []RowResult) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(l)
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(r io.Reader) (l []RowResult, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	return l, d.Decode(&l)
}

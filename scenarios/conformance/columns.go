package conformance

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Column is what came of a run, to be set beside others.
type Column struct {
	Name string
	Rows []RowResult
}

// Reexplain replaces the reasons of known differences, which a saved run may lack, by those of k.
func (c *Column) Reexplain(k *Known) {
	for i := range c.Rows {
		for j := range c.Rows[i].Checks {
			check := &c.Rows[i].Checks[j]
			for n := range check.Differs {
				if d := k.differs(check.Test, check.Differs[n].Finding); d != nil {
					check.Differs[n] = *d
				}
			}
		}
	}
}

// differs finds a difference as a run notes it.
func (k *Known) differs(check, finding string) *Differs {
	for i := range k.Differences {
		if d := k.Differences[i].differs(); k.Differences[i].Check == check && d.Finding == finding {
			return &d
		}
	}
	return nil
}

// row finds a row by its ID.
func (c *Column) row(id string) *RowResult {
	i := slices.IndexFunc(c.Rows, func(r RowResult) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return &c.Rows[i]
}

// lines gives each row that a column has, in order, with its verdicts. Not every column has every row.
func lines(cols []Column) (rows []*RowResult, verdicts [][]string) {
	seen := map[string]bool{}
	for i := range cols {
		for j := range cols[i].Rows {
			r := &cols[i].Rows[j]
			if seen[r.ID] {
				continue
			}
			seen[r.ID] = true
			var l []string
			for n := range cols {
				v := NotHere
				if o := cols[n].row(r.ID); o != nil {
					v = o.Verdict
				}
				l = append(l, string(v))
			}
			rows, verdicts = append(rows, r), append(verdicts, l)
		}
	}
	return rows, verdicts
}

// WriteColumns prints several runs beside each other, and what they found below.
func WriteColumns(w io.Writer, cols []Column) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ID\tSECTION\tWHO")
	for i := range cols {
		fmt.Fprintf(t, "\t%s", cols[i].Name)
	}
	fmt.Fprintln(t)
	rows, verdicts := lines(cols)
	for i, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%v\t%s\n", r.ID, r.section(), r.Who, strings.Join(verdicts[i], "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range cols {
		for j := range cols[i].Rows {
			for _, c := range cols[i].Rows[j].Checks {
				for _, f := range c.Findings {
					fmt.Fprintf(w, "%s: %s: %s\n", cols[i].Name, c.Test, f)
				}
				if c.Skipped != "" {
					fmt.Fprintf(w, "%s: %s: left out: %s\n", cols[i].Name, c.Test, c.Skipped)
				}
			}
		}
	}
	for _, e := range explained(cols) {
		fmt.Fprintf(w, "\n%s, %s:\n  %s\n", e.Rule, e.Where, e.Why)
		for _, f := range e.found {
			fmt.Fprintf(w, "  %s\n", f)
		}
	}
	return nil
}

// WriteMarkdown prints several runs as a table, and each known difference with its reason.
func WriteMarkdown(w io.Writer, cols []Column) error {
	fmt.Fprint(w, "| ID | Section | Who | Rule |")
	for i := range cols {
		fmt.Fprintf(w, " %s |", cols[i].Name)
	}
	fmt.Fprintf(w, "\n|%s\n", strings.Repeat("---|", 4+len(cols)))
	rows, verdicts := lines(cols)
	for i, r := range rows {
		fmt.Fprintf(w, "| %s | %s | %v | %s | %s |\n", r.ID, r.section(), r.Who, r.Rule, strings.Join(verdicts[i], " | "))
	}
	list := func(title string, of func(CheckResult) []string) {
		var lines []string
		names := map[string][]string{} // of columns
		for i := range cols {
			for j := range cols[i].Rows {
				for _, c := range cols[i].Rows[j].Checks {
					for _, f := range of(c) {
						l := fmt.Sprintf("`%s`: %s", c.Test, f)
						if names[l] == nil {
							lines = append(lines, l)
						}
						names[l] = append(names[l], cols[i].Name)
					}
				}
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(w, "\n## %s\n\n", title)
		}
		for _, l := range lines {
			fmt.Fprintf(w, "- %s: %s\n", strings.Join(names[l], "; "), l)
		}
	}
	if l := explained(cols); len(l) > 0 {
		fmt.Fprint(w, "\n## Differences, explained\n")
		for _, e := range l {
			fmt.Fprintf(w, "\n**%s** (%s). %s\n\n", e.Where, e.Rule, e.Why)
			for _, f := range e.found {
				fmt.Fprintf(w, "- %s\n", f)
			}
		}
	}
	list("Not explained", func(c CheckResult) []string { return c.Findings })
	list("Left out", func(c CheckResult) []string {
		if c.Skipped == "" {
			return nil
		}
		return []string{c.Skipped}
	})
	first := true
	for _, r := range rows {
		if r.NotYet != "" {
			if first {
				fmt.Fprint(w, "\n## Not yet, or in part\n\n")
				first = false
			}
			fmt.Fprintf(w, "- %s: %s\n", r.ID, r.NotYet)
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

// explanation is a reason with all that was found because of it.
type explanation struct {
	Differs
	found []string // "check: finding", with the columns if others do not differ so
}

// explained collects known differences by reason, in the order of the rows.
func explained(cols []Column) (out []*explanation) {
	at := map[[2]string]*explanation{}
	where := map[string][]string{} // columns of a finding
	end := map[string]Who{}        // of a finding
	for i := range cols {
		for j := range cols[i].Rows {
			for _, c := range cols[i].Rows[j].Checks {
				for _, d := range c.Differs {
					key := [2]string{d.Where, d.Why}
					e := at[key]
					if e == nil {
						e = &explanation{Differs: d}
						at[key] = e
						out = append(out, e)
					}
					f := c.Test + ": " + d.Finding
					if where[f] == nil {
						e.found = append(e.found, f)
					}
					where[f], end[f] = append(where[f], cols[i].Name), c.Who
				}
			}
		}
	}
	known := map[Who]map[string]bool{Requester: {}, Responder: {}} // columns of an end of which something is known
	for f, l := range where {
		for _, name := range l {
			known[end[f]][name] = true
		}
	}
	for _, e := range out {
		for i, f := range e.found {
			if len(where[f]) < len(known[end[f]]) {
				e.found[i] += " (" + strings.Join(where[f], ", ") + ")"
			}
		}
	}
	return out
}

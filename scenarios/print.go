package scenarios

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteJSON prints the result as one indented object. Equal results give equal bytes.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText prints the result as a table of reported against measured.
func (r *Result) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "NAME\tPARAMETERS\tREPORTED\tMEASURED\tUNIT\tERROR\tVERDICT\tNOTE\n")
	for _, row := range r.Rows {
		rep, e := "-", "-"
		if row.Reported != nil {
			rep = fmt.Sprintf("%.4g", *row.Reported)
		}
		if row.Error != nil {
			e = fmt.Sprintf("%+.1f %%", *row.Error*100)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.4g\t%s\t%s\t%s\t%s\n", row.Name, params(row.Params), rep, row.Measured, row.Unit, e, row.Verdict, row.Note)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	n := map[Verdict]int{}
	for _, row := range r.Rows {
		n[row.Verdict]++
	}
	_, err := fmt.Fprintf(w, "\n%s, seed %d: %d rows: %d ok, %d miss, %d known-miss, %d info\n",
		r.Scenario, r.Seed, len(r.Rows), n[OK], n[Miss], n[KnownMiss], n[Info])
	return err
}

func params(m map[string]string) string {
	var l []string
	for k, v := range m {
		l = append(l, k+"="+v)
	}
	slices.Sort(l)
	return strings.Join(l, " ")
}

// WriteExplanation prints what the scenario is about, and its constants.
func (s *Scenario) WriteExplanation(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n\n%s\n\n", s.Name, s.Title, s.Explain)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "CONSTANT\tVALUE\tUNIT\tSOURCE\n")
	for _, c := range s.Constants {
		fmt.Fprintf(tw, "%s\t%g\t%s\t%s\n", c.Name, c.Value, c.Unit, c.Source)
	}
	return tw.Flush()
}

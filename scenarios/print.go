package scenarios

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteJSON prints the result as one indented object. Equal results give equal bytes.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText prints the result as a table of reported against measured. The bounds
// and reasons stand below it for rows that are not ok, and for all if notes is set.
func (r *Result) WriteText(w io.Writer, notes bool) error {
	if len(r.Usual) > 0 {
		fmt.Fprintf(w, "Unless a row says otherwise: %s.\n\n", params(r.Usual, nil))
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "NAME\tPARAMETERS\tREPORTED\tMEASURED\tUNIT\tERROR\tVERDICT\n")
	n := map[Verdict]int{}
	for i := range r.Rows {
		row := &r.Rows[i]
		n[row.Verdict]++
		rep, e := "-", "-"
		if row.Reported != nil {
			rep = number(*row.Reported)
		}
		if row.Error != nil {
			e = fmt.Sprintf("%+.1f %%", *row.Error*100)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Name, params(row.Params, r.Usual), rep, number(row.Measured), row.Unit, e, row.Verdict)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Note != "" && (notes || row.Verdict == Miss || row.Verdict == KnownMiss) {
			fmt.Fprintf(w, "\n%s: %s, %s: %s", row.Verdict, row.Name, params(row.Params, r.Usual), row.Note)
		}
	}
	_, err := fmt.Fprintf(w, "\n\n%s, seed %d: %d rows: %d ok, %d miss, %d known-miss, %d info\n",
		r.Scenario, r.Seed, len(r.Rows), n[OK], n[Miss], n[KnownMiss], n[Info])
	return err
}

// number prints whole numbers whole, others to four digits, large ones without a fraction.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	if a := math.Abs(v); a >= 1e4 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// params prints m without what is as usual.
func params(m, usual map[string]string) string {
	var l []string
	for k, v := range m {
		if usual[k] != v {
			l = append(l, k+"="+v)
		}
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

// Package report holds the results of sweeps and writes them: JSON lines (which it also reads), JSON, CSV, a text
// table, the benchmark format of Go, and one HTML page with plots.
//
// A Cell is one run of a matrix of knobs. Cells know their sweep, their place and how many there are, so files of
// cells need no header: pieces are joined by Merge, which finds what is missing, double or of another sweep. All
// writers are functions of the cells alone, in the order of their places: the same cells give the same bytes.
package report

// Package mutants shows that checks can fail: each of its mutants takes one mend out of the code, and the test
// that is named beside it has to fail then.
//
// A mutant is a block of testdata/mutants.txt: the ID of the story or rule, what is taken out, the test, and one or more
// edits, each of which replaces a text that occurs exactly once in its file. The files of the module are not touched: go test
// gets the altered ones by -overlay. That every edit applies is an ordinary test; make mutants runs all of them and prints a table.
package mutants

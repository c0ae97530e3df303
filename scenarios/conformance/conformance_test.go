package conformance

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance has a subtest for each check of each row.
func TestConformance(t *testing.T) { eachCheck(t, rows) }

// TestFieldFaults likewise, of each story.
func TestFieldFaults(t *testing.T) {
	var l []Row
	for i := range faults {
		l = append(l, faults[i].row())
	}
	eachCheck(t, l)
}

func eachCheck(t *testing.T, rows []Row) {
	for i := range rows {
		row := &rows[i]
		t.Run(row.ID, func(t *testing.T) {
			if len(row.checks) == 0 {
				t.Skip("not yet: " + row.NotYet)
			}
			for j := range row.checks {
				k := &row.checks[j]
				t.Run(k.title(), func(t *testing.T) {
					c := CheckResult{Test: row.ID + "/" + k.title()}
					k.run(context.Background(), &Options{Seed: 1}, &c)
					assert.Empty(t, c.Skipped)
					for _, f := range c.Findings {
						assert.Fail(t, f, row.Rule)
					}
				})
			}
		})
	}
}

package verbstest_test

import (
	"strings"
	"testing"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
	"example.org/nfsrdma/verbs/verbstest"
	"github.com/stretchr/testify/require"
)

// TestStatuses: a device's other status passes a check if the Env has it, and fails it if not.
func TestStatuses(t *testing.T) {
	other := &fault{wc: func(w *verbs.WC) {
		if w.Status == verbs.LocProtErr {
			w.Status = verbs.LocQPOpErr
		}
	}}
	c := find(t, "pd/send-lkey-of-another")
	require.True(t, record(t, c, other).failed)
	r := runWith(t, c, other, func(e *verbstest.Env) {
		e.Statuses = map[verbs.Status]verbs.Status{verbs.LocProtErr: verbs.LocQPOpErr}
	})
	require.False(t, r.failed || r.skipped, "%q", r.log)
	r = runWith(t, c, other, func(e *verbstest.Env) {
		e.Statuses = map[verbs.Status]verbs.Status{verbs.LocProtErr: verbs.LocLenErr}
	})
	require.True(t, r.failed)
}

// TestDeviations: a known deviation skips its check, and no other, with the reason.
func TestDeviations(t *testing.T) {
	known := func(e *verbstest.Env) { e.Deviations = map[string]string{"send/sizes": "it sends backwards"} }
	r := runWith(t, find(t, "send/sizes"), &fault{}, known)
	require.True(t, r.skipped)
	require.Contains(t, strings.Join(r.log, "\n"), "it sends backwards")
	r = runWith(t, find(t, "send/no-sge"), &fault{}, known)
	require.False(t, r.failed || r.skipped, "%q", r.log)
}

func runWith(t *testing.T, c verbstest.Check, f *fault, change func(*verbstest.Env)) *recorder {
	t.Helper()
	r := &recorder{}
	t.Run(c.Name, func(t *testing.T) {
		e := newBrokenEnv(t, softroce.RoCE, f)
		change(e)
		defer func() {
			if p := recover(); p != nil && p != (stopped{}) {
				panic(p)
			}
		}()
		verbstest.RunCheck(r, c, e)
	})
	return r
}

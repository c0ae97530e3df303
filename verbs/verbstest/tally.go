package verbstest

import (
	"strings"
	"sync"
)

// optionalThemes are those of which a device may run no check, because it or its transport lacks
// what they are about. Of every other theme at least one check must run.
var optionalThemes = map[string]bool{
	"fastreg": true, "window1": true, "window2": true, "fmr": true, "dma": true, "globalkey": true, "dmakey": true,
	"inline": true, "srq": true, "rnr": true,
	"imm":   true, // iWARP has immediate data by RFC 7306 only
	"retry": true, // iWARP leaves retries to TCP
}

// tally counts the checks of each theme.
type tally struct {
	mu     sync.Mutex // checks may run in parallel
	themes []string   // in the order of the suite
	counts map[string]*count
}

type count struct{ all, started, ran int }

func newTally(checks []Check) *tally {
	y := &tally{counts: map[string]*count{}}
	for _, c := range checks {
		theme := themeOf(c.Name)
		if y.counts[theme] == nil {
			y.counts[theme] = &count{}
			y.themes = append(y.themes, theme)
		}
		y.counts[theme].all++
	}
	return y
}

func themeOf(name string) string {
	theme, _, _ := strings.Cut(name, "/")
	return theme
}

// done counts a check that has ended.
func (y *tally) done(c Check, skipped bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	n := y.counts[themeOf(c.Name)]
	n.started++
	if !skipped {
		n.ran++
	}
}

// judge fails tb where a theme that is not optional ran no check. A theme that go test -run left
// out, in part or whole, is not judged.
func (y *tally) judge(tb TB) {
	tb.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, theme := range y.themes {
		if n := y.counts[theme]; n.started == n.all && n.ran == 0 && !optionalThemes[theme] {
			tb.Errorf("all %d checks of %s were skipped: no device may lack it", n.all, theme)
		}
	}
}

package scenarios

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// runCells runs the cells of a scenario on all cores, each once.
func runCells[C comparable, R any](ctx context.Context, o Options, name string, cells []C, run func(context.Context, C) (R, error)) (map[C]R, error) {
	todo := map[C]bool{}
	var order []C
	for _, c := range cells {
		if !todo[c] {
			todo[c] = true
			order = append(order, c)
		}
	}
	results := make(map[C]R, len(order))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, c := range order {
		g.Go(func() error {
			r, err := run(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			results[c] = r
			if n := len(results); n%20 == 0 || n == len(order) {
				o.progress("%s: %d of %d runs", name, n, len(order))
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return results, nil
}

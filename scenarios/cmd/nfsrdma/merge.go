package main

import (
	"fmt"

	"example.org/nfsrdma/fabric"
)

type mergeCmd struct {
	Files []string `arg:"" type:"existingfile" help:"Results of the shards: .jsonl or .json."`
	outFlags
}

// Run joins the pieces of a sweep.
func (c *mergeCmd) Run(e env) error {
	if err := c.outFlags.prepare(fabric.Shard{}); err != nil {
		return err
	}
	r, err := fabric.MergeSweeps(c.Files...)
	if err != nil {
		return err
	}
	if err := c.outFlags.write(e, r, ""); err != nil {
		return err
	}
	if f := r.Failed(); len(f) > 0 {
		fmt.Fprintf(e.err, "merge: %d of %d cells failed, the first %s: %s\n", len(f), len(r.Cells), f[0].Params, f[0].Error)
	}
	return nil
}

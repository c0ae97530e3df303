package main

import (
	"errors"
	"fmt"

	"example.org/nfsrdma/fabric/packetfuzz"
	"example.org/nfsrdma/fabric/verbsfuzz"
	"example.org/nfsrdma/verbs/softroce"
)

// fuzzDevice fuzzes the embedded device below the transport.
func (c *fuzzCmd) fuzzDevice(e env) error {
	if c.Addr != "" || c.Device != "" || c.Root != "" || c.Known != "" || c.Mountport != 0 {
		return fmt.Errorf("--level %s is of the embedded device: there is no address, device or server to name", c.Level)
	}
	in, err := unhex("input", c.Input)
	if err != nil {
		return err
	}
	n := c.Calls
	if n == 0 && c.Time == 0 {
		n = 20_000
	}
	if c.Level == "packets" {
		return fuzzPackets(e, packetfuzz.Options{Seed: c.Seed, Inputs: n, Time: c.Time, Most: c.Most}, in)
	}
	r, err := verbsfuzz.NewRig(c.Seed, softroce.RoCE)
	if err != nil {
		return err
	}
	rep, err := verbsfuzz.Campaign(e.ctx, r, verbsfuzz.Options{Seed: c.Seed, Programs: n, Time: c.Time, Input: in})
	if in != nil && err == nil {
		fmt.Fprintln(e.out, verbsfuzz.Decode(in))
	}
	if rep.Programs > 0 {
		fmt.Fprintln(e.out, &rep)
	}
	return errors.Join(err, rep.Err(), r.Close())
}

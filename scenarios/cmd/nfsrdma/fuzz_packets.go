package main

import (
	"errors"
	"fmt"

	"example.org/nfsrdma/fabric/packetfuzz"
)

// fuzzPackets plays hostile packets against the embedded device, or the one input that is given.
func fuzzPackets(e env, o packetfuzz.Options, in []byte) (err error) {
	r, err := packetfuzz.NewRig()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if in != nil {
		res, err := r.Try(in)
		if err != nil {
			return err
		}
		fmt.Fprintln(e.out, res)
		return res.Err
	}
	rep, err := r.Campaign(o)
	if err != nil {
		return err
	}
	fmt.Fprintln(e.out, rep)
	if n := len(rep.Failures); n > 0 {
		return fmt.Errorf("%d failures", n)
	}
	return nil
}

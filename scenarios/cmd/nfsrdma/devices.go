package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/Mellanox/rdmamap"

	"example.org/nfsrdma/verbs/softroce"
)

type devicesCmd struct{}

// Run lists what softroce plays and what the machine has.
func (devicesCmd) Run(e env) error {
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "DEVICE\tTRANSPORT\tMTU\tMAX_SGE\tMAX_SGE_RD\tRD_ATOM\tFAST-REG PAGES\n")
	for _, p := range softroce.Personalities() {
		a := &p.Attr
		fmt.Fprintf(w, "softroce:%s\t%v\t%d\t%d\t%d\t%d\t%d\n", p.Name, a.Transport, a.ActiveMTU, a.MaxSGE, a.MaxSGERd, a.MaxQPInitRdAtom, a.MaxFastRegPages)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	list := rdmamap.GetRdmaDeviceList()
	if len(list) == 0 {
		fmt.Fprintln(e.out, "\nThis machine has no RDMA device (/sys/class/infiniband).")
		return nil
	}
	fmt.Fprintf(e.out, "\nRDMA devices of this machine, which this build cannot drive: %s\n", strings.Join(list, " "))
	return nil
}

package main

import (
	"fmt"
	"io"
	"time"

	"example.org/nfsrdma/nfsclient"
)

// probeReport is what a probe found; its JSON is the output of --format json.
type probeReport struct {
	Target     string               `json:"target"`
	MountBy    string               `json:"mount_by"`
	Negotiated probeNegotiated      `json:"negotiated"`
	FSInfo     probeFSInfo          `json:"fsinfo"`
	PathConf   probePathConf        `json:"pathconf"`
	FSStat     probeFSStat          `json:"fsstat"`
	RoundTrip  map[string]probeTime `json:"round_trip"`
	Checks     []probeCheck         `json:"checks"`
	Counters   map[string]uint64    `json:"counters"`
	MountStats string               `json:"mountstats,omitempty"`
	Error      string               `json:"error,omitempty"`
}

type probeNegotiated struct {
	Transport          string `json:"transport"`
	LocalAddr          string `json:"local_addr"`
	Credits            int    `json:"credits"`
	InlineSend         int    `json:"inline_send,omitempty"`
	InlineRecv         int    `json:"inline_recv,omitempty"`
	RemoteInvalidation bool   `json:"remote_invalidation"`
	PrivateData        bool   `json:"private_data"`
	IRD                int    `json:"ird,omitempty"`
	ORD                int    `json:"ord,omitempty"`
	RSize              int    `json:"rsize"`
	RSizeLimit         string `json:"rsize_limit"`
	WSize              int    `json:"wsize"`
	WSizeLimit         string `json:"wsize_limit"`
}

type probeFSInfo struct {
	RtMax       uint32 `json:"rtmax"`
	RtPref      uint32 `json:"rtpref"`
	WtMax       uint32 `json:"wtmax"`
	WtPref      uint32 `json:"wtpref"`
	DtPref      uint32 `json:"dtpref"`
	MaxFileSize uint64 `json:"maxfilesize"`
	Properties  uint32 `json:"properties"`
}

type probePathConf struct {
	LinkMax         uint32 `json:"linkmax"`
	NameMax         uint32 `json:"name_max"`
	NoTrunc         bool   `json:"no_trunc"`
	ChownRestricted bool   `json:"chown_restricted"`
	CaseInsensitive bool   `json:"case_insensitive"`
	CasePreserving  bool   `json:"case_preserving"`
}

type probeFSStat struct {
	TotalBytes uint64 `json:"tbytes"`
	FreeBytes  uint64 `json:"fbytes"`
	TotalFiles uint64 `json:"tfiles"`
}

// probeTime is of some calls, one after the other, in microseconds.
type probeTime struct {
	Calls  int     `json:"calls"`
	Min    float64 `json:"min_us"`
	Median float64 `json:"median_us"`
	Max    float64 `json:"max_us"`
}

// probeCheck is a check of data.
type probeCheck struct {
	Name  string  `json:"name"`
	Size  int     `json:"size,omitempty"` // of a call, bytes
	Bytes int64   `json:"bytes"`
	MBps  float64 `json:"mbps"`
	Error string  `json:"error,omitempty"`
}

func (r *probeReport) negotiated(n nfsclient.Negotiated) {
	r.Negotiated = probeNegotiated{
		Transport: n.Proto.String(), LocalAddr: n.LocalAddr, Credits: n.Credits, InlineSend: n.InlineSend, InlineRecv: n.InlineRecv,
		RemoteInvalidation: n.RemoteInvalidation, PrivateData: n.PrivateData, IRD: n.IRD, ORD: n.ORD,
		RSize: n.RSize, RSizeLimit: n.RSizeLimit, WSize: n.WSize, WSizeLimit: n.WSizeLimit,
	}
}

// check adds a check that took d.
func (r *probeReport) check(name string, size int, bytes int64, d time.Duration, err error) error {
	c := probeCheck{Name: name, Size: size, Bytes: bytes, MBps: float64(bytes) / 1e6 / max(d.Seconds(), 1e-9)}
	if err != nil {
		c.Error = err.Error()
		err = fmt.Errorf("%s: %w", name, err)
	}
	r.Checks = append(r.Checks, c)
	return err
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// print is the text of the report.
func (r *probeReport) print(w io.Writer) {
	n := &r.Negotiated
	fmt.Fprintf(w, "%s from %s, MOUNT over %s\n", r.Target, n.LocalAddr, r.MountBy)
	if n.Transport == nfsclient.RDMA.String() {
		fmt.Fprintf(w, "credits      %d\n", n.Credits)
		fmt.Fprintf(w, "inline       %d out, %d in; private data %s\n", n.InlineSend, n.InlineRecv, yes(n.PrivateData))
		fmt.Fprintf(w, "invalidation %s\n", map[bool]string{true: "remote", false: "local"}[n.RemoteInvalidation])
		fmt.Fprintf(w, "IRD, ORD     %d, %d\n", n.IRD, n.ORD)
	} else {
		fmt.Fprintf(w, "slots        %d\n", n.Credits)
	}
	fmt.Fprintf(w, "rsize        %d, limited by %s\n", n.RSize, n.RSizeLimit)
	fmt.Fprintf(w, "wsize        %d, limited by %s\n", n.WSize, n.WSizeLimit)
	i, p := &r.FSInfo, &r.PathConf
	fmt.Fprintf(w, "FSINFO       rtmax %d rtpref %d wtmax %d wtpref %d dtpref %d maxfilesize %d properties 0x%x\n",
		i.RtMax, i.RtPref, i.WtMax, i.WtPref, i.DtPref, i.MaxFileSize, i.Properties)
	fmt.Fprintf(w, "PATHCONF     linkmax %d name_max %d no_trunc %s chown_restricted %s case_insensitive %s case_preserving %s\n",
		p.LinkMax, p.NameMax, yes(p.NoTrunc), yes(p.ChownRestricted), yes(p.CaseInsensitive), yes(p.CasePreserving))
	fmt.Fprintf(w, "FSSTAT       %.1f MB of %.1f MB free, %d files\n", float64(r.FSStat.FreeBytes)/1e6, float64(r.FSStat.TotalBytes)/1e6, r.FSStat.TotalFiles)
	for _, name := range []string{"NULL", "GETATTR"} {
		if t, ok := r.RoundTrip[name]; ok {
			fmt.Fprintf(w, "%-12s min %.1f median %.1f max %.1f us, %d calls\n", name, t.Min, t.Median, t.Max, t.Calls)
		}
	}
	for _, c := range r.Checks {
		verdict := "ok"
		if c.Error != "" {
			verdict = "FAILED: " + c.Error
		}
		size := ""
		if c.Size > 0 {
			size = fmt.Sprintf(" in calls of %d", c.Size)
		}
		fmt.Fprintf(w, "%-12s %d bytes%s, %.1f MB/s: %s\n", c.Name, c.Bytes, size, c.MBps, verdict)
	}
}

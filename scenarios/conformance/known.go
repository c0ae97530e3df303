package conformance

import "strings"

// Known is what is known of a server or a client besides the rules: where it differs, and why.
type Known struct {
	Name        string // such as "linux-6.1"
	Server      string // in words
	Differences []Difference
}

// Difference is a finding that is known of a server.
type Difference struct {
	Check   string // such as "C42/ResponderLongCallsWithData"
	Finding string // as the check words it; of Crash, the case, which is not made
	Device  string // on devices of this driver alone, such as "siw"; "" is any
	Crash   bool   // the case ends the server's machine: it is not made
	Reason  *Reason
}

// Reason explains differences.
type Reason struct {
	Rule  string // the section of an RFC that is not kept, or leaves it open
	Where string // the function that does it
	Why   string
}

// Servers are the known ones.
var Servers = []*Known{&Linux61}

// ServerNamed gives a known server, nil if there is none of the name.
func ServerNamed(name string) *Known {
	for _, k := range Servers {
		if strings.EqualFold(k.Name, name) {
			return k
		}
	}
	return nil
}

// of gives the difference that a finding of a check is; nil if it is not known.
func (k *Known) of(check, finding string) *Difference {
	if k == nil {
		return nil
	}
	for i := range k.Differences {
		if d := &k.Differences[i]; d.Check == check && !d.Crash && d.Finding == finding {
			return d
		}
	}
	return nil
}

// crash gives the difference by which a case is not made; nil if it is made.
func (k *Known) crash(check, what string) *Difference {
	if k == nil {
		return nil
	}
	for i := range k.Differences {
		if d := &k.Differences[i]; d.Crash && d.Check == check && d.Finding == what {
			return d
		}
	}
	return nil
}

// crashOfAny is crash of all known servers.
func crashOfAny(check, what string) *Difference {
	for _, k := range Servers {
		if d := k.crash(check, what); d != nil {
			return d
		}
	}
	return nil
}

// split parts findings into those that are known and the others.
func (k *Known) split(check string, findings []string) (known []Differs, others []string) {
	for _, f := range findings {
		if d := k.of(check, f); d != nil {
			known = append(known, d.differs())
		} else {
			others = append(others, f)
		}
	}
	return known, others
}

// Differs is a known difference that a check found.
type Differs struct {
	Finding string
	Rule    string `json:",omitempty"`
	Where   string `json:",omitempty"`
	Why     string `json:",omitempty"`
}

func (d *Difference) differs() Differs {
	f := d.Finding
	if d.Crash {
		f += ": not sent, since it ends the server's machine"
	}
	return Differs{f, d.Reason.Rule, d.Reason.Where, d.Reason.Why}
}

// missingOf is Missing of one check.
func (k *Known) missingOf(c *CheckResult, device string) []string {
	if k == nil {
		return nil
	}
	return k.Missing([]RowResult{{Checks: []CheckResult{*c}}}, device)
}

// Missing lists what is known of a server on a device, is of a check that was run, and was not found: "Check: finding".
func (k *Known) Missing(l []RowResult, device string) []string {
	found := map[string]bool{}
	ran := map[string]bool{}
	for i := range l {
		for _, c := range l[i].Checks {
			ran[c.Test] = true
			for _, d := range c.Differs {
				found[c.Test+": "+d.Finding] = true
			}
		}
	}
	var out []string
	for i := range k.Differences {
		d := &k.Differences[i]
		name := d.Check + ": " + d.differs().Finding
		if ran[d.Check] && !found[name] && (d.Device == "" || strings.HasPrefix(device, d.Device)) {
			out = append(out, name)
		}
	}
	return out
}

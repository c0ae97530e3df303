package fabric

import (
	"fmt"
	"strconv"
	"strings"

	"example.org/nfsrdma/verbs"
)

// Counters is a list of named counts, under the kernel's names where it has them
// (mountstats "xprt: rdma", svc_rdma rdma_stat_*, rxe hw_counters).
type Counters []verbs.Counter

// Get is the value of a name; false if there is no such counter.
func (c Counters) Get(name string) (uint64, bool) {
	for i := range c {
		if c[i].Name == name {
			return c[i].Value, true
		}
	}
	return 0, false
}

// Sub is what was counted since before. A counter that before lacks counts from 0, and one that has
// fallen, such as conn_open, gives 0.
func (c Counters) Sub(before Counters) Counters {
	out := make(Counters, len(c))
	for i, x := range c {
		old, _ := before.Get(x.Name)
		out[i] = verbs.Counter{Name: x.Name, Value: x.Value - min(old, x.Value)}
	}
	return out
}

// add sums two lists by name, in the order of c.
func (c Counters) add(o Counters) Counters {
	out := append(Counters(nil), c...)
next:
	for _, x := range o {
		for i := range out {
			if out[i].Name == x.Name {
				out[i].Value += x.Value
				continue next
			}
		}
		out = append(out, x)
	}
	return out
}

// String is "name=value ..." of all that are not zero.
func (c Counters) String() string {
	var b strings.Builder
	for _, x := range c {
		if x.Value == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d", x.Name, x.Value)
	}
	return b.String()
}

// Check compares with expectations such as "read_chunk_count=1024 recvs>=3
// nomsg_call_count=0"; the operators are = != < <= > >=. The error names each
// that does not hold, and the names that exist when one is unknown.
func (c Counters) Check(want string) error {
	var bad []string
	unknown := false
	for _, f := range strings.Fields(want) {
		i := strings.IndexAny(f, "=!<>")
		if i <= 0 {
			return fmt.Errorf("fabric: expectation %q is not name, operator, number, such as recvs>=3", f)
		}
		name, rest := f[:i], f[i:]
		j := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune("=!<>", r) })
		if j < 0 {
			return fmt.Errorf("fabric: expectation %q has no number", f)
		}
		op, num := rest[:j], rest[j:]
		n, err := strconv.ParseUint(num, 10, 64)
		if err != nil {
			return fmt.Errorf("fabric: expectation %q: %q is not a count", f, num)
		}
		v, ok := c.Get(name)
		if !ok {
			bad = append(bad, fmt.Sprintf("no counter %q", name))
			unknown = true
			continue
		}
		var holds bool
		switch op {
		case "=", "==":
			holds = v == n
		case "!=":
			holds = v != n
		case "<":
			holds = v < n
		case "<=":
			holds = v <= n
		case ">":
			holds = v > n
		case ">=":
			holds = v >= n
		default:
			return fmt.Errorf("fabric: expectation %q: unknown operator %q", f, op)
		}
		if !holds {
			bad = append(bad, fmt.Sprintf("%s is %d, want %s%d", name, v, op, n))
		}
	}
	if unknown {
		return fmt.Errorf("fabric: counters: %s\n\tthere are: %s", strings.Join(bad, "; "), c.names())
	}
	if bad != nil {
		return fmt.Errorf("fabric: counters: %s\n\tall: %s", strings.Join(bad, "; "), c)
	}
	return nil
}

func (c Counters) names() string {
	var n []string
	for _, x := range c {
		n = append(n, x.Name)
	}
	return strings.Join(n, " ")
}

// Want fails the test unless Check holds.
func (c Counters) Want(t TB, want string) {
	t.Helper()
	if err := c.Check(want); err != nil {
		t.Errorf("%v", err)
	}
}

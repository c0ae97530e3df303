package xprtrdma

import (
	"fmt"
	"strconv"
	"strings"
)

// RegMode is a way to let the peer reach memory (rdma_memreg_strategy).
type RegMode uint8

// The modes by the kernel's names. What a device lacks gives verbs.ErrUnsupported.
const (
	Auto           RegMode = iota // the best that the device has: FastReg, MemWindow with type 2B, Register, AllPhysical, Bounce
	FastReg                       // REG_MR work requests, one segment a page list (FRWR)
	AllPhysical                   // one global key, one segment a page; nothing is fenced
	Bounce                        // no chunks: data is copied through the inline buffers
	Register                      // registered and deregistered by verb for each call
	MemWindow                     // a window bound for each call; the unbind is awaited
	MemWindowAsync                // likewise, not awaited
	FMR                           // fast memory regions, mapped and unmapped by verb
)

// RegModes lists the modes.
func RegModes() []RegMode {
	return []RegMode{Auto, FastReg, AllPhysical, Bounce, Register, MemWindow, MemWindowAsync, FMR}
}

var modeNames = [...]string{"auto", "fastreg", "all-physical", "bounce", "register", "mw", "mw-async", "fmr"}

// modeAliases are other names in use.
var modeAliases = map[string]RegMode{
	"frmr": FastReg, "frwr": FastReg, "allphysical": AllPhysical, "bouncebuffers": Bounce,
	"memwindows": MemWindow, "memwindows-async": MemWindowAsync, "mthcafmr": FMR,
}

func (m RegMode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("RegMode(%d)", uint8(m))
}

// MarshalText gives the name of the mode.
func (m RegMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is ParseRegMode.
func (m *RegMode) UnmarshalText(b []byte) (err error) {
	*m, err = ParseRegMode(string(b))
	return err
}

// ParseRegMode takes the name of a mode, or a number of rdma_memreg_strategy with the kernel that it is
// of: "5@2.6.24". A number alone says nothing: 5 and 6 have changed their meaning.
func ParseRegMode(s string) (RegMode, error) {
	for i, n := range modeNames {
		if n == s {
			return RegMode(i), nil
		}
	}
	if m, ok := modeAliases[strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(s), "rpcrdma_"), "_", "-")]; ok {
		return m, nil
	}
	num, kernel, era := strings.Cut(s, "@")
	n, err := strconv.Atoi(num)
	switch {
	case err != nil:
		return 0, fmt.Errorf("registration mode %q: want one of %q, or NUMBER@KERNEL such as 5@2.6.24", s, modeNames)
	case !era:
		return 0, fmt.Errorf("registration mode %q: the era of the strategy number is missing: want %s@2.6.24, %s@2.6.27-rc or %s@2.6.28", s, s, s, s)
	}
	return StrategyMode(n, kernel)
}

// StrategyMode is the mode of a number of rdma_memreg_strategy in a kernel version from 2.6.24 on.
//
//	0 to 4          bounce, register, mw, mw-async, fmr
//	to 2.6.27       5 is all-physical
//	2.6.27-rc       5 is all-physical, 6 fastreg: patches of that time, and reports that used them
//	2.6.28 and on   5 is fastreg, 6 all-physical
func StrategyMode(n int, kernel string) (RegMode, error) {
	var v [3]int
	base, rc, isRC := strings.Cut(kernel, "-")
	parts := strings.Split(base, ".")
	for i, p := range parts {
		k, err := strconv.Atoi(strings.TrimSuffix(p, "x"))
		if p == "x" && i > 0 {
			k, err = 0, nil
		}
		if i > 3 || err != nil || k < 0 {
			return 0, fmt.Errorf("kernel %q of strategy %d: want a version such as 2.6.24", kernel, n)
		}
		if i < 3 {
			v[i] = k
		}
	}
	patch := isRC && strings.HasPrefix(rc, "rc") && v == [3]int{2, 6, 27}
	sub := v[2]
	if v[0] > 2 || v[0] == 2 && v[1] > 6 {
		sub = 28
	}
	if v[0] < 2 || v[0] == 2 && v[1] < 6 || sub < 24 {
		return 0, fmt.Errorf("kernel %q of strategy %d: NFS/RDMA has been in Linux since 2.6.24", kernel, n)
	}
	list := []RegMode{Bounce, Register, MemWindow, MemWindowAsync, FMR}
	switch {
	case patch:
		list = append(list, AllPhysical, FastReg)
	case sub < 28:
		list = append(list, AllPhysical)
	default:
		list = append(list, FastReg, AllPhysical)
	}
	if n < 0 || n >= len(list) {
		return 0, fmt.Errorf("strategy %d of kernel %s: want 0 to %d", n, kernel, len(list)-1)
	}
	return list[n], nil
}

// fallbacks is a mode, and what Linux takes in its place where the device lacks it: windows fall back to
// REGISTER, fast registration to FMR, and that to ALLPHYSICAL, whose key is replaced by REGISTER.
func fallbacks(m RegMode) []RegMode {
	switch m {
	case MemWindow, MemWindowAsync:
		return []RegMode{m, Register}
	case FastReg:
		return []RegMode{FastReg, FMR, AllPhysical, Register}
	case FMR:
		return []RegMode{FMR, AllPhysical, Register}
	case AllPhysical:
		return []RegMode{AllPhysical, Register}
	}
	return []RegMode{m}
}

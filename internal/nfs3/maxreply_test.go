package nfs3

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// inflate makes every optional part present and every handle as long as can be.
func inflate(v reflect.Value) {
	if f, ok := v.Addr().Interface().(*FH); ok {
		*f = fh(strings.Repeat("h", MaxFHLen))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			inflate(v.Field(i))
		}
	case reflect.Bool:
		v.SetBool(true)
	}
}

// TestMaxReplyLen wants MaxReplyLen to be the length of the longest result, not above and not below (C26).
func TestMaxReplyLen(t *testing.T) {
	for p := range Proc(NumProcs) {
		m := newRes(p)
		inflate(reflect.ValueOf(m).Elem())
		longest := len(m.append(nil))
		if status := reflect.ValueOf(m).Elem().FieldByName("Status"); status.IsValid() {
			status.SetUint(uint64(NFS3ERR_IO))
			longest = max(longest, len(m.append(nil)))
		}
		switch p {
		case READDIR, READDIRPLUS:
			assert.GreaterOrEqual(t, MaxReplyLen(p, 0), 4+PostOpAttrMax, "a failure has attributes")
			assert.Equal(t, 4+PostOpAttrMax+VerfLen+8192, MaxReplyLen(p, 8192), "as Linux counts")
		default:
			assert.Equal(t, longest, MaxReplyLen(p, 8192), p.String())
		}
	}
	assert.Zero(t, MaxReplyLen(22, 0))
}

func TestEligible(t *testing.T) {
	for p := range Proc(NumProcs) {
		_, args := newArgs(p).(reducible)
		_, res := newRes(p).(reducible)
		assert.Equal(t, args, p.ArgsEligible(), "C39, %v", p)
		assert.Equal(t, res, p.ResEligible(), "C39, %v", p)
	}
}

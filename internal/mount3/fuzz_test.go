package mount3_test

import (
	"fmt"
	"testing"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/xdr/xdrtest"
)

func fuzz[T any, P interface {
	*T
	fmt.Stringer
}](f *testing.F, consume func([]byte, *T) (int, error), add func([]byte, *T) []byte) {
	for _, c := range cases() {
		f.Add(c.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := P(new(T))
		n, err := consume(b, v)
		_ = v.String()
		if err == nil {
			xdrtest.WantRecode(t, b, n, add(nil, v))
		}
	})
}

func FuzzConsumePathArgs(f *testing.F) { fuzz(f, mount3.ConsumePathArgs, mount3.AppendPathArgs) }
func FuzzConsumeMntRes(f *testing.F)   { fuzz(f, mount3.ConsumeMntRes, mount3.AppendMntRes) }
func FuzzConsumeDumpRes(f *testing.F)  { fuzz(f, mount3.ConsumeDumpRes, mount3.AppendDumpRes) }
func FuzzConsumeExportRes(f *testing.F) {
	fuzz(f, mount3.ConsumeExportRes, mount3.AppendExportRes)
}

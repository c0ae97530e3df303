package link

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"example.org/nfsrdma/internal/sched"
)

func TestValidate(t *testing.T) {
	cases := []struct {
		cfg  Config
		want string // "" is valid
	}{
		{Config{}, ""},
		{Config{BitsPerSecond: 8e12, Delay: time.Hour, MTU: 1 << 20, Overhead: 1 << 16, Queue: 1 << 24,
			Loss: 1, Duplicate: 1, Reorder: 1, ReorderDelay: time.Hour}, ""},
		{Config{Name: "x", BitsPerSecond: -1}, `link "x": BitsPerSecond is -1, want 0 to 8000000000000`},
		{Config{BitsPerSecond: 8e12 + 1}, `link "": BitsPerSecond is 8000000000001, want 0 to 8000000000000`},
		{Config{Delay: -1}, `link "": Delay is -1ns, want 0 to 1h0m0s`},
		{Config{Delay: time.Hour + 1}, `link "": Delay is 1h0m0.000000001s, want 0 to 1h0m0s`},
		{Config{MTU: -1}, `link "": MTU is -1, want 0 to 1048576`},
		{Config{MTU: 1<<20 + 1}, `link "": MTU is 1048577, want 0 to 1048576`},
		{Config{Overhead: -1}, `link "": Overhead is -1, want 0 to 65536`},
		{Config{Overhead: 1<<16 + 1}, `link "": Overhead is 65537, want 0 to 65536`},
		{Config{Queue: -1}, `link "": Queue is -1, want 0 to 16777216`},
		{Config{Queue: 1<<24 + 1}, `link "": Queue is 16777217, want 0 to 16777216`},
		{Config{Loss: -0.1}, `link "": Loss is -0.1, want 0 to 1`},
		{Config{Loss: math.NaN()}, `link "": Loss is NaN, want 0 to 1`},
		{Config{Duplicate: 1.5}, `link "": Duplicate is 1.5, want 0 to 1`},
		{Config{Duplicate: math.NaN()}, `link "": Duplicate is NaN, want 0 to 1`},
		{Config{Reorder: math.Inf(1)}, `link "": Reorder is +Inf, want 0 to 1`},
		{Config{Reorder: math.NaN()}, `link "": Reorder is NaN, want 0 to 1`},
		{Config{ReorderDelay: -time.Second}, `link "": ReorderDelay is -1s, want 0 to 1h0m0s`},
	}
	for _, c := range cases {
		err := c.cfg.Validate()
		if c.want == "" {
			assert.NoError(t, err, "%+v", c.cfg)
			continue
		}
		assert.EqualError(t, err, c.want)
		assert.PanicsWithError(t, c.want, func() {
			s := sched.NewVirtual(1)
			defer s.Close()
			NewPipe(s, c.cfg, "bad")
		})
	}
}

func TestPayloadRate(t *testing.T) {
	assert.Equal(t, math.Inf(1), Config{}.PayloadRate())
	assert.Equal(t, 1e9, Config{BitsPerSecond: 8e9}.PayloadRate())
	assert.Equal(t, 0.5e9, Config{BitsPerSecond: 8e9, MTU: 100, Overhead: 100}.PayloadRate())
	assert.Equal(t, 0.8e9, Config{BitsPerSecond: 8e9, Overhead: 1024}.PayloadRate(), "4096 bytes if the device decides")
}

func TestWith(t *testing.T) {
	c := IBSDR.WithDelay(time.Second).WithLoss(0.5)
	assert.Equal(t, time.Second, c.Delay)
	assert.Equal(t, 0.5, c.Loss)
	assert.Equal(t, IBSDR.MTU, c.MTU)
	assert.Zero(t, IBSDR.Loss, "it is a copy")
}

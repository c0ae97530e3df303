//go:build race

package softroce

// In virtual time there is one goroutine: no race to be found, and ten times the time.
const chaosSeeds = 20

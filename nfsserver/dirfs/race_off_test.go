//go:build !race

package dirfs

const raceEnabled = false

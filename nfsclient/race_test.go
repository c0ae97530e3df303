//go:build race

package nfsclient_test

// raceEnabled says that the race detector is on: it allocates.
const raceEnabled = true

//go:build !race

package nfsclient_test

const raceEnabled = false

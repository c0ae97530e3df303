//go:build !race

package nfsserver_test

const raceEnabled = false

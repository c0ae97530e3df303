//go:build !race

package softroce

const chaosSeeds = 200

// Package arch has a test that holds the directions of the module's imports.
package arch

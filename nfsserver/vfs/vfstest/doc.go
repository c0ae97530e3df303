// Package vfstest says whether a file system does what package vfs asks for.
//
//	func TestConformance(t *testing.T) {
//		vfstest.Run(t, func(t *testing.T) vfs.FS { return memfs.New(memfs.Options{}) })
//	}
//
// Tests that look at data are named data/..., for a file system that keeps none
// to skip.
package vfstest

// Package xdrtest checks a codec against a file of golden cases, for tests.
//
// A case is a value, its print and its bytes. The file shows the bytes word by word with offset and
// field name, which come from the errors that the truncations of the case give:
//
//	LookupArgs
//	LOOKUP what=0102/"a"
//	  0  00000002 01020000  what
//	  8  00000001 61000000  what
package xdrtest

// Package model decorates a file system with what decides its speed in virtual
// time: locks that are held while data is copied, and the time that takes.
//
// A decorator delays calls and changes no result. It lends pages if the file system below does,
// so data still lands where it belongs and can be checked.
package model

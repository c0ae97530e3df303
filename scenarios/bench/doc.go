// Package bench measures the fabric live, on this machine, beside two bounds taken
// in the same run: a plain copy of memory, and the device alone. Only the ratios mean anything
// on another machine.
package bench

package nfs3

import "example.org/nfsrdma/internal/xdr"

// NullArgs are the arguments of NULL, none (RFC 1813 section 3.3.0).
type NullArgs struct{}

// AppendNullArgs encodes the arguments of NULL, zero bytes.
func AppendNullArgs(b []byte, _ *NullArgs) []byte { return b }

// ConsumeNullArgs decodes the arguments of NULL, zero bytes.
func ConsumeNullArgs([]byte, *NullArgs) (n int, err error) { return 0, nil }

func (*NullArgs) append(b []byte) []byte { return b }
func (*NullArgs) consume(*xdr.Reader)    {}
func (*NullArgs) String() string         { return "NULL" }

// NullRes is the result of NULL, none.
type NullRes struct{}

// AppendNullRes encodes the result of NULL, zero bytes.
func AppendNullRes(b []byte, _ *NullRes) []byte { return b }

// ConsumeNullRes decodes the result of NULL, zero bytes.
func ConsumeNullRes([]byte, *NullRes) (n int, err error) { return 0, nil }

func (*NullRes) append(b []byte) []byte { return b }
func (*NullRes) consume(*xdr.Reader)    {}
func (*NullRes) String() string         { return "NULL" }

package chunkfuzz

import "strings"

// Known is something that a server is known to do otherwise.
type Known struct {
	Name string // what it does
	Why  string // the rule, and the function that does it
	is   func(r *Result, t *traits) bool
}

// Deadly says whether a message ends a machine whose server is that of Linux (6.1 to 2026): a Read segment of length 0 is a BUG()
// there, in sg_alloc_table_chained.
func Deadly(msg []byte) bool { return traitsOf(msg).emptyRead }

// traits are what the differences of servers go by.
type traits struct {
	emptyRead  bool // a Read segment of no bytes
	emptyChunk bool // a Write or Reply chunk without segments
	emptySeg   bool // a Write or Reply segment of no bytes
	write      bool // a Write list
	reply      bool // a Reply chunk
	long       bool // a position-zero Read chunk
	read       bool // another Read chunk
	inHeader   bool // a Read chunk that begins within the RPC header
	flag       bool // a list's or chunk's flag that is neither 0 nor 1
	wraps      bool // a Write or Reply chunk whose length does not fit into 32 bits
	nomsg      bool
	proc       uint32
}

// traitsOf reads a message as far as it goes; a flag that is not 0 is a yes to it.
func traitsOf(msg []byte) (t traits) {
	r := words{b: msg}
	r.u32()
	vers := r.u32()
	r.u32()
	if t.proc = r.u32(); vers != 1 || t.proc > 1 {
		return traits{proc: t.proc}
	}
	t.nomsg = t.proc == 1
	next := func() bool {
		v := r.u32()
		t.flag = t.flag || !r.bad && v > 1
		return !r.bad && v != 0
	}
	for next() {
		p, s := r.u32(), r.seg()
		if r.bad {
			return t
		}
		t.emptyRead = t.emptyRead || s.Length == 0
		t.long, t.read = t.long || p == 0, t.read || p != 0
		t.inHeader = t.inHeader || p > 0 && p < headerLen
	}
	chunk := func() {
		n := r.u32()
		t.emptyChunk = t.emptyChunk || !r.bad && n == 0
		sum := uint64(0)
		for i := uint32(0); i < n && !r.bad; i++ {
			s := r.seg()
			t.emptySeg = t.emptySeg || !r.bad && s.Length == 0
			sum += uint64(s.Length)
		}
		t.wraps = t.wraps || sum > 1<<32-1
	}
	for next() {
		t.write = true
		chunk()
	}
	if next() {
		t.reply = true
		chunk()
	}
	return t
}

// headerLen is the length in bytes of the RPC header of a session's calls.
const headerLen = 24 + 8 + 24 + 8

// Linux61 is what the server of Linux 6.1 does otherwise, for Options.Known. The package conformance has it at length.
var Linux61 = []Known{
	{
		Name: "a long call with a Read chunk besides is read without one of them",
		Why:  "RFC 8267 6.4.2; pcl_alloc_call and pcl_alloc_read look at too few entries",
		is: func(r *Result, t *traits) bool {
			return t.long && t.read && (r.Got.Kind == Reply && r.Got.RPC != Success || strings.Contains(r.Got.Why, "RPC XID") || strings.HasPrefix(r.Got.Why, "an RPC message of ") || r.Got.Kind == ErrChunk || r.Got.Kind == Disconnect || r.Got.Kind == Drop || endsEarly(r))
		},
	},
	{
		Name: "a result in a Write chunk counts in the length of the Reply chunk, which may then be too short",
		Why:  "RFC 8166 4.3.3; svc_rdma_send_reply_chunk gives the length of the whole reply; if it is too long then, the connection ends",
		is: func(r *Result, t *traits) bool {
			return t.write && t.reply && r.Want.reduce && (strings.HasPrefix(r.Got.Why, "an RPC message of ") || strings.HasPrefix(r.Got.Why, "RPC XID 0x0 ") ||
				r.Got.Kind == ErrChunk || r.Got.Kind == Disconnect)
		},
	},
	{
		Name: "a Reply chunk that is too short is not left for a reply that fits inline",
		Why:  "RFC 8166 4.3.3; svc_rdma_send_reply_chunk",
		is: func(r *Result, t *traits) bool {
			return t.reply && r.Want.Kind == Reply && !r.Want.Long && (r.Got.Kind == ErrChunk || r.Got.Kind == Disconnect)
		},
	},
	{
		Name: "the length of a chunk is added up in 32 bits",
		Why:  "RFC 8166 4.5.2; pcl_alloc_write",
		is:   func(r *Result, t *traits) bool { return t.wraps },
	},
	{
		Name: "a Read chunk within the RPC header takes its place there, and what is behind it is not the header",
		Why:  "RFC 8166 3.4.5, 4.5.2; svc_rdma_read_data_item",
		is: func(r *Result, t *traits) bool {
			return t.inHeader && (r.Got.Kind == Reply && r.Got.RPC != Success || endsEarly(r))
		},
	},
	{
		Name: "of a call with two Read chunks, what is inline behind the first goes over the beginning of the message",
		Why:  "RFC 8267 6.4.2; svc_rdma_copy_inline_range adds the number of the page where the place in it is meant",
		is: func(r *Result, t *traits) bool {
			return !t.long && strings.HasPrefix(r.Want.Why, "there is one Read chunk besides")
		},
	},
	{
		Name: "the last item of a call needs no pad",
		Why:  "RFC 4506 4.10, RFC 8166 3.5.3; xdr_stream_subsegment of net/sunrpc",
		is: func(r *Result, t *traits) bool {
			return r.Want.Kind == Reply && r.Want.RPC == GarbageArgs && r.Got.Kind == Reply && r.Got.RPC == Success
		},
	},
	{
		Name: "a chunk without segments is refused",
		Why:  "RFC 8166 4.3.2.3, 3.4.6; xdr_check_write_chunk",
		is:   func(r *Result, t *traits) bool { return t.emptyChunk && r.Got.Kind == ErrChunk },
	},
	{
		Name: "a Write or Reply chunk ends at a segment of no bytes",
		Why:  "RFC 8166 3.4.6; svc_rdma_build_writes",
		is: func(r *Result, t *traits) bool {
			return t.emptySeg && (r.Got.Kind == ErrChunk || r.Got.Kind == Disconnect)
		},
	},
	{
		Name: "a message shorter than a header is answered, with the XID of whatever the buffer held",
		Why:  "RFC 8166 4.5; svc_rdma_xdr_decode_req (out_short)",
		is: func(r *Result, t *traits) bool {
			return len(r.Msg) < 28 && (r.Got.Kind == ErrChunk || r.Got.Kind == ErrVers || strings.HasPrefix(r.Got.Why, "XID ") || strings.HasPrefix(r.Got.Why, "version "))
		},
	},
	{
		Name: "a flag that is neither 0 nor 1 counts as 1",
		Why:  "RFC 4506 4.4, RFC 8166 4.5.2; xdr_item_is_present",
		is:   func(r *Result, t *traits) bool { return t.flag && r.Want.Kind == ErrChunk },
	},
	{
		Name: "the XIDs of header and message differ, and a reply has both",
		Why:  "RFC 8166 4.2.1; svc_rdma_sendto",
		is: func(r *Result, t *traits) bool {
			return strings.HasPrefix(r.Got.Why, "RPC XID ") && strings.Contains(r.Want.Why, "XIDs")
		},
	},
	{
		Name: "RDMA_MSG with a position-zero chunk: the message is taken from there",
		Why:  "RFC 8166 3.5.3; svc_rdma_read_special",
		is:   func(r *Result, t *traits) bool { return !t.nomsg && t.long && r.Want.Kind != Reply },
	},
	{
		Name: "RDMA_NOMSG without a position-zero chunk is taken for RDMA_MSG",
		Why:  "RFC 8166 4.2.4; svc_rdma_process_read_list",
		is:   func(r *Result, t *traits) bool { return t.nomsg && !t.long && r.Want.Kind == ErrChunk },
	},
	{
		Name: "an RPC message that ends within its first words is read past its end",
		Why:  "RFC 8166 4.5.2; svc_recv and svc_process of net/sunrpc do not look at its length",
		is: func(r *Result, t *traits) bool {
			return strings.HasPrefix(r.Want.Why, "the RPC message does not parse")
		},
	},
	{
		Name: "GARBAGE_ARGS without a verifier, for a credential that is not all there",
		Why:  "RFC 5531 9; svc_process_common (err_garbage)",
		is:   func(r *Result, t *traits) bool { return endsEarly(r) },
	},
	{
		Name: "AUTH_ERROR for a credential that is not all there, where GARBAGE_ARGS is as right",
		Why:  "RFC 5531 9; svcauth_unix_accept",
		is: func(r *Result, t *traits) bool {
			return r.Got.Kind == Reply && r.Got.RPC == AuthError && r.Want.Kind == Reply && r.Want.RPC == GarbageArgs
		},
	},
}

// endsEarly says whether a reply ended before its verifier, and said GARBAGE_ARGS.
func endsEarly(r *Result) bool {
	return strings.HasPrefix(r.Got.Why, "an RPC reply that ends too early: ") && strings.HasSuffix(r.Got.Why, "000000010000000000000004")
}

// known gives the first of list that a result is; nil if there is none.
func known(list []Known, r *Result) *Known {
	t := traitsOf(r.Msg)
	for i := range list {
		if list[i].is(r, &t) {
			return &list[i]
		}
	}
	return nil
}

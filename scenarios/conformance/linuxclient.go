package conformance

import "fmt"

// Linux61Client is the NFS client of Linux 6.1 (Debian 12: 6.1.192), mounted with version 3.
var Linux61Client = Known{Name: "linux-6.1-client", Server: "NFS client of Linux 6.1", Differences: linux61Client()}

// Reasons for what the client of Linux 6.1 does otherwise. Functions are of net/sunrpc/xprtrdma, or of net/sunrpc where said.
var (
	linuxSixteen = Reason{
		Rule: "RFC 8166 4.5", Where: "rpcrdma_reply_handler, rpcrdma_decode_msg",
		Why: "Only what is shorter than the four fixed words is dropped. From there on the XID counts: the call that it belongs to is completed, " +
			"and ends with EIO as the lists do not parse. The RFC draws the line at 28 bytes.",
	}
	linuxLengthsAlone = Reason{
		Rule: "RFC 8166 3.4.6, 4.5", Where: "decode_rdma_segment, decode_write_chunk",
		Why: "Of a segment that comes back the length alone is read, and the sum serves counters and the length of the reply. Handle, offset and a length beyond what was offered are not " +
			"compared with the call's chunk. NFS takes the number of bytes from the READ result, so data is right if the server wrote what it says there.",
	}
	linuxSkipsXID = Reason{
		Rule: "RFC 8166 4.2.1", Where: "rpc_decode_header (net/sunrpc/clnt.c)",
		Why: "The call is found by the XID of the transport header; that of the RPC message is skipped.",
	}
	linuxErrorEnds = Reason{
		Rule: "RFC 8166 4.5", Where: "rpcrdma_decode_error, rpcrdma_complete_rqst",
		Why: "An RDMA_ERROR whose code is missing or unknown is an error like ERR_CHUNK: the call with its XID ends with EIO. The RFC has it dropped.",
	}
	linuxDoneEnds = Reason{
		Rule: "RFC 8166 4.6.2", Where: "rpcrdma_complete_rqst",
		Why: "RDMA_DONE is to the client an rdma_proc like any that it does not know: the call with its XID ends with EIO. One that has the XID of no call is dropped.",
	}
	linuxGarbage = Reason{
		Rule: "RFC 8267 6.4.2", Where: "rpc_decode_header (net/sunrpc/clnt.c)",
		Why: "GARBAGE_ARGS may come of memory that went bad, so a call is encoded and sent again up to twice (tk_garb_retry), over any transport. After ERR_CHUNK it is not.",
	}
	linuxNoBackchannel = Reason{
		Rule: "RFC 8167 5.1", Where: "rpcrdma_is_bcall, rpc_decode_header (net/sunrpc/clnt.c), xprt_rdma_send_request",
		Why: "A mount of version 3 has no callback service, and the message type is not looked at then: the call is taken for the reply with its XID, which does not parse and is " +
			"treated as garbage. The client's call is sent again, and since a second sending on one connection would upset the credits, on a new one.",
	}
)

func linux61Client() (out []Difference) {
	list := func(why *Reason, check string, findings ...string) {
		for _, f := range findings {
			out = append(out, Difference{Check: check, Finding: f, Reason: why})
		}
	}
	for _, n := range []int{16, 20, 24, 27} {
		list(&linuxSixteen, "C29/RequesterDropsShort", fmt.Sprintf("a message of %d bytes ends the call: input/output error", n))
	}
	for _, check := range []string{"C31/RequesterBadReplyEndsCall", "F04/RequesterBadReplies"} {
		for _, what := range []string{"another handle", "another offset", "a longer segment"} {
			list(&linuxLengthsAlone, check, fmt.Sprintf("a reply with %s is taken: READ gives 9000 bytes, right: true", what))
		}
		list(&linuxSkipsXID, check, "a reply with another XID in the RPC reply (C18) is taken: READ gives 9000 bytes, right: true")
	}
	for _, n := range []int{16, 18, 20, 28} {
		list(&linuxErrorEnds, "C32/RequesterBadErrorDropped", fmt.Sprintf("an RDMA_ERROR of %d bytes with code 99 ends the call: input/output error", n))
	}
	for _, n := range []int{0, 12} {
		list(&linuxDoneEnds, "C38/RequesterDropsDone", fmt.Sprintf("RDMA_DONE with %d bytes behind it ends the call: input/output error", n))
	}
	for _, check := range []string{"C43/RequesterNoRetransmission", "F09/RequesterNoRetransmission"} {
		list(&linuxGarbage, check, "after GARBAGE_ARGS 2 calls were sent")
	}
	for _, row := range []string{"C50", "C51"} {
		list(&linuxNoBackchannel, row+"/RequesterCallFromServer",
			"a call of the other direction: the call is sent again", "a call of the other direction ends the connection")
	}
	return out
}

package conformance

import "fmt"

// Linux61 is the NFS server of Linux 6.1 (Debian 12: 6.1.192), which has the mends of 2026 to chunk lists.
var Linux61 = Known{Name: "linux-6.1", Server: "NFS server of Linux 6.1", Differences: linux61()}

// Reasons for what the server of Linux 6.1 does otherwise. Where not said, the functions are of net/sunrpc/xprtrdma.
var (
	linuxInline = Reason{
		Rule: "RFC 8166 3.3.2, RFC 8797 4.2", Where: "svc_rdma_parse_connect_private, svc_rdma_check_pull_up",
		Why: "What the client can receive is read for a debug message alone, and a reply that needs few SGEs is sent inline whatever its length, 4096 bytes of its own included. " +
			"A client that offers a chunk for every reply that may be long (C26) does not see it.",
	}
	linuxCloses = Reason{
		Rule: "RFC 8166 4.5.3", Where: "svc_rdma_recvfrom (out_readfail)",
		Why: "ERR_CHUNK is sent as it should be, and then the connection is ended, whatever else was outstanding on it. The RFC asks for the answer so that the connection need not be.",
	}
	linuxXID = Reason{
		Rule: "RFC 8166 4.2.1", Where: "svc_rdma_sendto",
		Why: "The header takes its XID from the call's header, the RPC reply from the call's RPC message; nothing compares them. The RFC wants them equal and does not say what a responder does with others.",
	}
	linuxNomsg = Reason{
		Rule: "RFC 8166 4.2.4", Where: "svc_rdma_process_read_list",
		Why: "RDMA_NOMSG and RDMA_MSG are taken alike: a call without a position-zero chunk is what is behind the header. With a Reply chunk the answer goes there, as for RDMA_MSG.",
	}
	linuxPositionFour = Reason{
		Rule: "RFC 8166 4.2.4, RFC 5531 9", Where: "svc_rdma_read_data_item; svc_getnl and svcauth_unix_accept of net/sunrpc",
		Why: "The head of the call has 4 bytes, up to the chunk, and the RPC header is read from behind them without a look at the length, which wraps; AUTH_SYS then finds a " +
			"negative one. The answer is GARBAGE_ARGS without a verifier, 8 bytes short of a reply.",
	}
	linuxMsgPZRC = Reason{
		Rule: "RFC 8166 3.5.3, 4.2.4", Where: "svc_rdma_read_special",
		Why: "The message is taken from the position-zero chunk, and what is behind the header dropped. The chunk here has zeros: the XID is 0, and so is rpcvers.",
	}
	linuxNoBytes = Reason{
		Rule: "RFC 8166 4.5.2", Where: "svc_rdma_build_read_segment",
		Why: "A Read segment of length 0 asks for a scatterlist of no entries, and sg_alloc_table_chained is a BUG() then: one message of any client ends an nfsd thread and, with " +
			"panic_on_oops, the machine. Neither xdr_count_read_segments nor anything behind it looks for it.",
	}
	linuxEmpty = Reason{
		Rule: "RFC 8166 4.3.2.3, 3.4.6", Where: "xdr_check_write_chunk",
		Why: "A chunk without segments is refused since F01 was mended. nfsserver.Config.RejectEmptyWriteChunk does likewise.",
	}
	linuxShort = Reason{
		Rule: "RFC 8166 4.5", Where: "svc_rdma_xdr_decode_req (out_short), svc_rdma_send_error_msg",
		Why: "A message that is too short is answered like any bad header. If it has less than 8 bytes the XID and version of the answer are what the receive buffer held before: " +
			"those of an older call, or bytes that were never sent. Receives are posted again (F10).",
	}
	linuxBoth = Reason{
		Rule: "RFC 8267 6.4.2, RFC 8166 3.5.3", Where: "pcl_alloc_call, pcl_alloc_read",
		Why: "Each looks at as many entries of the Read list, from its head, as there are segments of its own kind. Of one position-zero segment and one other only the first is seen: " +
			"the long call is read without its data, and does not parse. No client of Linux sends both. Versions of 2026 do the same.",
	}
	linuxInvalidates = Reason{
		Rule: "RFC 8797 4.1", Where: "svc_rdma_accept, svc_rdma_get_inv_rkey",
		Why: "The private data with which the server accepts has the flag clear, and the server goes by the client's alone. The key is one of this call. A client that sets the flag must be ready for it.",
	}
)

func linux61() (out []Difference) {
	list := func(why *Reason, check string, findings ...string) {
		for _, f := range findings {
			out = append(out, Difference{Check: check, Finding: f, Reason: why})
		}
	}
	longer := func(check, what string, n int) {
		list(&linuxInline, check, fmt.Sprintf("%sa reply of %d bytes, 4 longer than the threshold: want ERR_CHUNK, got RDMA_MSG SUCCESS", what, n+4))
	}
	longer("C06/ResponderThreshold1024", "", 1024)
	longer("C46/ResponderPrivateData", "reserved flags and more bytes: ", 2048)
	longer("C46/ResponderPrivateData", "none on the next connection: ", 1024)
	longer("C48/ResponderThresholdIsTheLesser", "receives of 1024 bytes: ", 1024)
	longer("C48/ResponderThresholdIsTheLesser", "receives of 2048 bytes: ", 2048)
	longer("C48/ResponderThresholdIsTheLesser", "receives of 65536 bytes: ", 4096)
	longer("C49/ResponderInvalidPrivateData", "another version: ", 1024)
	longer("C49/ResponderInvalidPrivateData", "another magic: ", 1024)
	longer("C49/ResponderInvalidPrivateData", "6 bytes: ", 1024)

	for _, row := range []string{"C11", "F02"} {
		for _, what := range []string{"position behind the message", "position 4 below the top", "position 2^31", "two chunks that overlap", "two chunks, the second first"} {
			list(&linuxCloses, row+"/ResponderBadPositions", what+": the connection ends behind the answer")
		}
	}
	list(&linuxXID, "C18/ResponderXIDsAgree",
		"C18: the XIDs of header and RPC message differ",
		"a call whose XIDs differ is answered with RDMA_MSG SUCCESS")
	const nomsg = "C19/ResponderNomsgNeedsPayload"
	list(&linuxNomsg, nomsg,
		"RDMA_NOMSG without a chunk: want ERR_CHUNK, got RDMA_MSG SUCCESS",
		"RDMA_NOMSG with a Reply chunk alone: want ERR_CHUNK, got RDMA_NOMSG")
	list(&linuxPositionFour, nomsg, "RDMA_NOMSG with a Read chunk that is not at zero: the RPC reply does not parse: xdr: verf at byte 16: input too short")
	list(&linuxMsgPZRC, nomsg,
		"RDMA_MSG with a position-zero chunk: C18: the XIDs of header and RPC message differ",
		"RDMA_MSG with a position-zero chunk: want ERR_CHUNK, got RDMA_MSG RPC_MISMATCH")
	out = append(out, Difference{Check: nomsg, Finding: "a position-zero chunk without bytes", Crash: true, Reason: &linuxNoBytes})
	list(&linuxEmpty, "C25/ResponderEmptyWriteChunk", "the answer is RDMA_ERROR ERR_CHUNK")
	list(&linuxEmpty, "F01/ResponderEmptyWriteChunk", "the answer is RDMA_ERROR ERR_CHUNK")
	for _, n := range shortLengths {
		list(&linuxShort, "C29/ResponderDropsShort", fmt.Sprintf("%d bytes: answered with RDMA_ERROR ERR_CHUNK", n))
	}
	list(&linuxShort, "F10/ResponderFlood", "200 of 300 messages are answered, with RDMA_ERROR ERR_CHUNK")
	for _, n := range []int{100000, 100001} {
		list(&linuxBoth, "C42/ResponderLongCallsWithData", fmt.Sprintf("a long WRITE with %d bytes in a Read chunk: RDMA_MSG GARBAGE_ARGS", n))
	}
	for _, what := range []string{"one key", "one key in three segments"} {
		out = append(out, Difference{Check: "C47/ResponderSendWithInvalidate", Device: "rxe", Reason: &linuxInvalidates,
			Finding: what + ": a key of the call was invalidated, though the responder's own flag is clear"})
	}
	return out
}

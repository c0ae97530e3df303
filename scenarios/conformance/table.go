package conformance

// Row is a rule with its checks.
type Row struct {
	ID      string // C01 to C52
	RFC     int
	Section string
	Who     Who
	Rule    string
	NotYet  string // why the rule, or the part of it that is left, has no check
	checks  []check
}

// Rows is the checklist, in the order of IDs.
func Rows() []Row { return rows }

func resp(name string, f func(*responderRun)) check { return check{name: name, responder: f} }
func reqr(name string, f func(*requesterRun)) check { return check{name: name, requester: f} }

// ours is a check of a server that looks at more than a requester can see.
func ours(name string, f func(*responderRun)) check {
	return check{name: name, responder: f, live: true}
}

const (
	onlyV4      = "NFS version 4 only"
	backchannel = "there is no backchannel, which NFS version 3 has no use for"
)

var rows = []Row{
	{"C01", 8166, "3.3.1", Requester, "has no more calls outstanding than it has credits", "", []check{reqr("CallsWithinCredits", callsWithinCredits)}},
	{"C02", 8166, "3.3.1", Responder, "grants at least one credit in every reply", "", []check{resp("GrantsCredits", grantsCredits)}},
	{"C03", 8166, "3.3.1", Responder, "has receives posted for what it grants, before the grant is sent", "", []check{resp("ReceivesForAllCredits", receivesForAllCredits)}},
	{"C04", 8166, "3.3.1", Requester, "has a receive posted for every reply that is due", "", []check{reqr("ReceivesForAllReplies", receivesForAllReplies)}},
	{"C05", 8166, "3.3.3", Requester, "makes one call on a new connection, and more once a reply has granted credits", "", []check{reqr("OneCreditAtFirst", oneCreditAtFirst)}},
	{"C06", 8166, "3.3.3", Both, "takes and sends inline messages of 1024 bytes, and no longer ones, if nothing was negotiated", "", []check{
		resp("Threshold1024", threshold1024), reqr("Threshold1024", requester1024)}},
	{"C07", 8166, "3.4.2", Both, "puts nothing but DDP-eligible items into chunks", "", []check{
		resp("OthersNotReduced", othersNotReduced), reqr("OnlyEligibleReduced", onlyEligibleReduced)}},
	{"C08", 8166, "3.4.4.1", Both, "keeps a reduced item's length word inline", "", []check{
		resp("CountStaysInline", countStaysInline), reqr("CountStaysInline", requesterCountInline)}},
	{"C09", 8166, "3.4.4.3", Responder, "reduces by a union's arm, never the union", "", []check{resp("UnionArm", unionArm)}},
	{"C10", 8166, "3.4.4.4", Both, "has one item in a chunk, and neither item nor pad in the inline stream", "", []check{
		resp("RoundupRemoved", roundupRemoved), reqr("RoundupRemoved", requesterRoundup)}},
	{"C11", 8166, "3.4.5", Both, "counts a Read chunk's position in the unreduced stream, in whole words; a position that cannot be is refused", "", []check{
		resp("BadPositions", badReadChunks), reqr("Positions", positions)}},
	{"C12", 8166, "3.4.5.2", Both, "leaves the pad out of a Read chunk, and takes one with or without", "", []check{
		resp("PadOrNot", padOrNot), reqr("NoPadInReadChunk", noPadInReadChunk)}},
	{"C13", 8166, "3.4.6", Requester, "makes a Write chunk large enough for the largest result", "", []check{reqr("WriteChunkSize", writeChunkSize)}},
	{"C14", 8166, "3.4.6", Responder, "returns every segment of a Write chunk, with the length that was written", "", []check{resp("WriteChunkComesBackWhole", writeChunkComesBackWhole)}},
	{"C15", 8166, "3.4.6.2", Responder, "writes no pad to a Write chunk", "", []check{resp("NoPadWritten", noPadWritten)}},
	{"C16", 8166, "3.5.3", Both, "sends a long call in a Read chunk whose segments are all at position zero, pads included", "", []check{
		resp("LongCalls", longCalls), reqr("LongCall", requesterLongCall)}},
	{"C17", 8166, "3.5.3", Responder, "sends a reply that is too long for inline through the Reply chunk", "", []check{resp("ReplyChunk", replyChunk)}},
	{"C18", 8166, "4.2.1", Both, "has the same XID in header and RPC message, and version 1", "", []check{
		resp("XIDsAgree", xidsMustAgree), reqr("XIDsAgree", requesterXIDs)}},
	{"C19", 8166, "4.2.4", Both, "has the message of an RDMA_NOMSG in a chunk, all of it", "", []check{
		resp("NomsgNeedsPayload", nomsgNeedsPayload), reqr("NomsgHasPayload", requesterLongCall)}},
	{"C20", 8166, "4.2.4", Both, "a requester sends no RDMA_ERROR, a responder does not answer one", "", []check{
		resp("DropsRDMAError", dropsRDMAError), reqr("Procs", onlyMsgAndNomsg)}},
	{"C21", 8166, "4.3.1", Responder, "sends no Read list", "", []check{resp("NoReadList", writeChunkComesBackWhole)}},
	{"C22", 8166, "4.3.2", Responder, "puts eligible results into the Write list when there is one", "", []check{resp("UsesWriteList", usesWriteList)}},
	{"C23", 8166, "4.3.2.2", Responder, "fills Write chunks in order, and returns the others unused", "", []check{resp("UnconsumedChunks", unconsumedChunks)}},
	{"C24", 8166, "4.3.2.2", Requester, "does not rely on memory that the result did not use", "", []check{reqr("UnusedMemoryMayChange", unusedMemory)}},
	{"C25", 8166, "4.3.2.3", Responder, "sends a result inline whose Write chunk has no segments, and returns that", "", []check{resp("EmptyWriteChunk", emptyWriteChunk)}},
	{"C26", 8166, "4.3.3", Requester, "offers a Reply chunk if the largest reply exceeds inline", "", []check{reqr("ReplyChunkOffered", replyChunkOffered)}},
	{"C27", 8166, "4.3.3", Responder, "returns the Reply chunk with the lengths written", "", []check{resp("ReplyChunkComesBack", replyChunk)}},
	{"C28", 8166, "4.4.1", Requester, "takes a call's memory back before its caller goes on, even if the call was given up", "", []check{
		reqr("FencedAfterReply", fencedAfterReply), reqr("FencedAfterCancel", fencedAfterCancel)}},
	{"C29", 8166, "4.5", Both, "drops messages shorter than a header, and goes on receiving", "", []check{
		resp("DropsShort", dropsShort), reqr("DropsShort", requesterDropsShort)}},
	{"C30", 8166, "4.5", Responder, "answers a bad header with the call's XID and version", "", []check{resp("ErrorsCarryXIDAndVersion", errorsCarryXIDAndVersion)}},
	{"C31", 8166, "4.5", Requester, "drops a reply with a bad header, or as Linux does ends the call with EIO; it does not take it", "", []check{
		reqr("BadReplyEndsCall", badReplyEndsCall), reqr("BadReplyDropped", badReplyDropped)}},
	{"C32", 8166, "4.5", Requester, "drops an RDMA_ERROR that does not parse", "", []check{reqr("BadErrorDropped", badErrorDropped)}},
	{"C33", 8166, "4.5.1", Responder, "says in ERR_VERS which versions it has", "", []check{resp("ErrVersRange", errVersRange)}},
	{"C34", 8166, "4.5.2", Responder, "answers a bad header with ERR_CHUNK, bad arguments with GARBAGE_ARGS", "", []check{
		resp("HeaderErrors", headerErrors), resp("GarbageArgs", garbageArgs)}},
	{"C35", 8166, "4.5.3", Responder, "answers a call that cannot succeed with ERR_CHUNK, and keeps the connection", "", []check{resp("ReplyFitsNowhere", replyFitsNowhere)}},
	{"C36", 8166, "4.5.4", Both, "closes the connection if it cannot reply, or cannot take memory back", "", []check{
		ours("CannotReplyCloses", cannotReplyCloses), reqr("CannotFenceCloses", cannotFenceCloses)}},
	{"C37", 8166, "4.6.1", Both, "sends no RDMA_MSGP; a responder refuses it, a requester does not take it", "", []check{
		resp("MSGPRefused", msgpRefused), reqr("Procs", onlyMsgAndNomsg)}},
	{"C38", 8166, "4.6.2", Both, "sends no RDMA_DONE, and drops it", "", []check{resp("DropsDone", dropsDone), reqr("DropsDone", requesterDropsDone)}},
	{"C39", 8267, "4", Both, "treats WRITE data, SYMLINK path, READ data and READLINK path as eligible, of version 3", "", []check{
		resp("EligibleItems", eligibleItems), reqr("OnlyEligibleReduced", onlyEligibleReduced)}},
	{"C40", 8267, "6.3", Responder, "listens on port 20049 unless told otherwise", "", []check{ours("DefaultPort", defaultPort)}},
	{"C41", 8267, "6.4.1", Responder, "gives the first Write chunk to the first READ of a COMPOUND, and sends others inline", onlyV4, nil},
	{"C42", 8267, "6.4.2", Both, "sends at most a position-zero and one other Read chunk, one Write chunk and 16 segments in a call of version 3, and takes as much", "", []check{
		resp("LargestLegalCalls", largestLegalCalls), resp("LongCallsWithData", longCallsWithData), reqr("ChunkCounts", chunkCounts)}},
	{"C43", 8267, "6.4.2", Requester, "does not send a call again after ERR_CHUNK or GARBAGE_ARGS", "", []check{reqr("NoRetransmission", noRetransmission)}},
	{"C44", 8267, "6.6", Requester, "sends a call again, a few times at most and under a new XID, whose Reply chunk was too short", "a call of version 3 knows its longest reply (C26); sessions: " + onlyV4, nil},
	{"C45", 8267, "6.5.2", Both, "sends short messages only on the backchannel", backchannel, nil},
	{"C46", 8797, "4", Both, "sends private data as laid out, ignores what is reserved, and reads the peer's on each connection", "", []check{
		resp("PrivateData", privateData), ours("ReservedFlags", reservedFlags), reqr("PrivateData", requesterPrivate)}},
	{"C47", 8797, "4.1", Both, "invalidates a key of that call alone, if both sides agreed", "", []check{
		resp("SendWithInvalidate", sendWithInvalidate), resp("EmptyChunks", emptyChunksAndInvalidation), reqr("Flag", invalidationFlag)}},
	{"C48", 8797, "4.2", Both, "takes the lesser of own send size and the peer's receive size as threshold", "", []check{
		resp("ThresholdIsTheLesser", thresholdIsTheLesser), reqr("ThresholdIsTheLesser", requesterLesser)}},
	{"C49", 8797, "5.1", Both, "takes 1024 bytes and no remote invalidation of a peer without valid private data", "", []check{
		resp("InvalidPrivateData", invalidPrivateData), reqr("InvalidPrivateData", requesterInvalidPrivate)}},
	{"C50", 8167, "4.1", Both, "keeps credits of the two directions apart: those of a message of the other direction change nothing", "", []check{
		resp("RepliesChangeNoCredits", repliesChangeNoCredits), reqr("CallFromServer", callFromServer)}},
	{"C51", 8167, "5.1", Both, "tells the direction of a message by version, XID and message type: one of the other direction is not taken for its own", "", []check{
		resp("DropsReplies", dropsReplies), reqr("CallFromServer", callFromServer)}},
	{"C52", 8167, "5.3", Both, "answers chunks of the other direction that it does not support with ERR_CHUNK", backchannel, nil},
}

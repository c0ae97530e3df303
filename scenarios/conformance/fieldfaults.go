package conformance

// Fault is a story: a fault that was reported of some NFS over RDMA stack, and what is right.
type Fault struct {
	ID       string
	Reported string // what set it off, and what went wrong there
	Right    string // what the checks want of ours; they have the fault's relatives too
	Mend     string // what has to be taken out of ours for the checks to fail
	NotYet   string // why it cannot be shown
	checks   []check
}

// Faults are the stories, in the order of IDs.
func Faults() []Fault { return faults }

// row makes a row of a story, so that both run alike.
func (f *Fault) row() Row {
	return Row{ID: f.ID, Section: "reported", Who: f.who(), Rule: f.Right, NotYet: f.NotYet, checks: f.checks}
}

func (f *Fault) who() (w Who) {
	for i := range f.checks {
		w |= f.checks[i].who()
	}
	return w
}

var faults = []Fault{
	{
		ID:       "F01",
		Reported: "A Write or Reply chunk without segments, while the server may invalidate keys: a loop over its segments ran from a wrapped bound.",
		Right:    "the result inline with the empty chunk back, or ERR_CHUNK; nothing is invalidated",
		Mend:     "the server's search for a key takes a chunk's first segment without a look at the number of segments: a panic",
		checks:   []check{resp("EmptyChunks", emptyChunksAndInvalidation), resp("EmptyWriteChunk", emptyWriteChunk)},
	},
	{
		ID:       "F02",
		Reported: "A Read chunk that begins behind the message or in another chunk: a difference wrapped, and other memory came back in the reply.",
		Right:    "ERR_CHUNK, and nothing is written",
		Mend:     "both checks of a position, the transport's and the server's; or the refusal of a second chunk",
		checks:   []check{resp("BadPositions", badReadChunks), ours("SecondDataChunk", secondDataChunk)},
	},
	{
		ID:       "F03",
		Reported: "A Read segment of nearly 4 GiB: memory for all of it was asked for, and the context of the call was lost.",
		Right:    "ERR_CHUNK before anything is allocated, for one segment and for a sum that wraps",
		Mend:     "the server's bound of a long call's length, or both bounds of a data item's: the transport's and that of WRITE",
		checks:   []check{resp("HugeLengths", hugeLengths)},
	},
	{
		ID:       "F04",
		Reported: "A count of 2^28 segments: its product with their size wrapped to nothing.",
		Right:    "ERR_CHUNK from a server, EIO from a client, before any arithmetic",
		Mend:     "the decoder's comparison of a count with the bytes that are left",
		checks:   []check{resp("HugeCounts", hugeCounts), reqr("BadReplies", badReplyEndsCall)},
	},
	{
		ID:       "F05",
		Reported: "A READ whose data had no chunk to go to, on a device of few SGEs: the copy into one buffer ran over its end.",
		Right:    "ERR_CHUNK for what is too long; all that fits is exact on a device of 2 SGEs",
		Mend:     "the server's comparison of a reply with the inline threshold",
		checks:   []check{resp("ReplyFitsNowhere", replyFitsNowhere), reqr("FewSGEs", fewSGEs)},
	},
	{
		ID:       "F06",
		Reported: "A reply of several pages that began within a page was copied together with page and offset standing still.",
		Right:    "exact data at every alignment",
		Mend:     "the advance within the buffer when the server copies pieces together",
		checks:   []check{resp("UnalignedData", unalignedData), reqr("FewSGEs", fewSGEs)},
	},
	{
		ID:       "F07",
		Reported: "READ data that did not begin on a page went to the wrong place of the chunk.",
		Right:    "the chunk holds the data, from its first byte",
		Mend:     "the server's offset in the first piece of a file's data",
		checks:   []check{resp("UnalignedData", unalignedData)},
	},
	{
		ID:       "F08",
		Reported: "A reply that was expected in pages came inline, and the client read from pages that it did not have.",
		Right:    "data that comes inline although a Write chunk was offered reaches the caller's buffer",
		Mend:     "the client's copy of inline data into the buffer that its chunk was to fill",
		NotYet:   "the procedure of the report: " + onlyV4,
		checks:   []check{reqr("DataComesInline", dataComesInline)},
	},
	{
		ID:       "F09",
		Reported: "An ERR_CHUNK reply reached the RPC layer as a message of negative length.",
		Right:    "the call ends with an error, is not sent again, and the next works",
		Mend:     "the client takes an RDMA_ERROR for a reply of no bytes",
		checks:   []check{reqr("NoRetransmission", noRetransmission), reqr("ErrorsEndCalls", errorsEndCalls)},
	},
	{
		ID:       "F10",
		Reported: "A stream of messages that were dropped: their receives were not posted again, and in the end none was left.",
		Right:    "each receive is posted again, at both ends",
		Mend:     "the post of the receive of a message that is dropped",
		checks:   []check{resp("Flood", shortFlood), reqr("Flood", uselessFlood)},
	},
	{
		ID:       "F11",
		Reported: "After a reconnect calls were let go before receives were posted; a reply found none, and the new connection broke.",
		Right:    "on every connection receives are posted for all calls that are out",
		Mend:     "posting receives before the connection is made: 2 ms later; then no mount succeeds, so the reconnect is not reached",
		checks:   []check{reqr("ReconnectsUnderLoad", receivesBeforeCalls)},
	},
	{
		ID:       "F12",
		Reported: "A connection ended with memory registered, and the registrations were used again while they were still in place.",
		Right:    "each call after a reconnect registers anew; nothing fails, and data is exact",
		Mend:     "the client takes the regions of a lost connection for free ones",
		checks:   []check{reqr("DisconnectsUnderLoad", disconnectsUnderLoad)},
	},
	{
		ID:       "F13",
		Reported: "An event of an address change before the connection was established dropped a reference a second time.",
		Right:    "the attempt ends once, the next works, and everything is released once",
		Mend:     "the client ignores events; a second release was not seen to fail, since nothing is counted",
		checks:   []check{reqr("EventBeforeEstablished", eventBeforeEstablished)},
	},
	{
		ID:       "F14",
		Reported: "A connection ended while posting of receives had stopped early; its end waited for receives that were never posted.",
		Right:    "the connection is replaced, and every call ends",
		Mend:     "the client keeps a connection on which a receive could not be posted",
		checks:   []check{reqr("PostingReceivesFails", postingReceivesFails)},
	},
	{
		ID:       "F15",
		Reported: "Send contexts ran out just as a completion returned one: nobody was woken.",
		Right:    "calls wait for entries of the send queue, and each is woken",
		Mend:     "the client's release of entries by the completion that frees them",
		checks:   []check{reqr("SmallSendQueue", smallSendQueue)},
	},
	{
		ID:       "F16",
		Reported: "A burst of large WRITEs used up the regions; most calls were sent again and again.",
		Right:    "calls wait for regions; none is sent twice, and the connection stays",
		Mend:     "the client's wait for regions: calls are sent again at once, which the limit of an instant ends",
		checks:   []check{reqr("FewRegions", fewRegions)},
	},
	{ID: "F17", Reported: "A callback was lost when the idle backchannel timed out, and its caller waited for ever.", Right: "the channel is repaired and the callback driven again", NotYet: backchannel},
	{ID: "F18", Reported: "The replay of a SEQUENCE was taken for a record mark.", Right: "the cached reply", NotYet: onlyV4},
	{
		ID:       "F19",
		Reported: "Inline WRITEs below 8 KiB stored bytes from behind the data.",
		Right:    "exact data for every length and every place of the buffer, inline or not",
		Mend:     "the client's length when it copies data behind the call",
		checks:   []check{reqr("InlineWrites", exactWrites), resp("UnalignedData", unalignedData)},
	},
	{
		ID:       "F20",
		Reported: "The number of RDMA READs that a peer serves changed while READs ran, and what they used was freed.",
		Right:    "READs of the old connection are over before the new one's begin; data is exact",
		Mend:     "the server's wait for the READs of a call; that it frees their memory too early at the end of a connection was not seen to fail",
		checks:   []check{reqr("IRDChanges", irdChanges)},
	},
	{
		ID:       "F21",
		Reported: "A transmit was dropped after the pieces of its message had been walked through; what was sent again was other bytes.",
		Right:    "what is sent again is exact: by the device, and by the RPC client after a lost reply",
		Mend:     "the client's restore of the message before it is sent again",
		checks:   []check{reqr("LossyLink", lossyLink), reqr("ExactResend", exactResend)},
	},
	{
		ID:       "F22",
		Reported: "The connection is dropped, by either side, at any message.",
		Right:    "every call ends, and the data is right after the reconnect",
		Mend:     "the client does not send calls of a lost connection again",
		checks:   []check{reqr("DropAtAnyMessage", dropAtAnyMessage)},
	},
}

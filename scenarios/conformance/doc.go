// Package conformance is a checklist of what the RFCs ask of the two ends of NFS version 3 over RDMA, with checks that
// run: [Rows] has the rules, [Run] runs the checks and gives each rule's verdict.
//
// A check of a responder is a requester made by hand that sends legal messages, and illegal ones, and looks at what comes back. It needs
// a device and an address only, so it runs against any server ([Target]). A check of a requester lets the embedded client work with
// the embedded server and looks at, or alters, what passes between them. Without a Target all checks run in virtual time over soft-RoCE,
// each in a fabric of its own.
//
// Another client ([ClientTarget]) is mounted on the embedded server and used through files, and its calls are seen where the server
// receives them. What has to be set, or to fail, within the client is left out then. kernel.md has Linux's server and client beside ours.
//
// What a server or client does otherwise, and why, is a [Known]; [Linux61] is the kernel's server. A run with it says "differs" where all that was
// found is known. [WriteColumns] and [WriteMarkdown] set runs beside each other: kernel.md is such a table.
package conformance

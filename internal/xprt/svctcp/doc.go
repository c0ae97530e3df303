// Package svctcp is the responder of RPC over TCP (RFC 5531 section 11).
//
// A [Transport] listens at one or several addresses and holds the connections. Calls go to the threads of its
// svc.Pool. A connection has three tasks:
//
//	reader   takes records apart, one at a time, each into a free request
//	writer   sends the replies that are queued, several in one system call
//	run      waits for the end and takes the connection down
//
// A connection has a fixed number of requests; when all are being served, or their replies wait to be sent, it does not
// read. So a client that does not take its replies costs no thread, and no more memory.
//
// The data of a long WRITE stays in the socket until the thread that looked at the head of the call says where it
// belongs, and is then read to there:
//
//	reader: head -> pool -> thread: Pull -> reader: data -> pool -> thread: Send -> writer
//
// Who owns a request aborts it when the connection ends: the reader while it pulls, a thread, or the writer.
package svctcp

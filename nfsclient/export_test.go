package nfsclient

// LocalName lets tests see what CopyOut accepts from a server.
var LocalName = localName

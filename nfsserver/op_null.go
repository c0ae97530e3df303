package nfsserver

func (t *thread) null(_, b []byte) ([]byte, bool) { return b, true }

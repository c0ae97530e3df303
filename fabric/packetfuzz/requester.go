package packetfuzz

func (r *Rig) requester(in []byte, res *Result) error { return r.responder(in, res) }

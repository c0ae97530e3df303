package rdmacore

// nextTag counts the tag byte of a key up (ibv_inc_rkey).
func nextTag(key uint32) uint32 { return key&^0xff | (key+1)&0xff }

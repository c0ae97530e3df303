package chunkfuzz

// Shrink makes an input of Gen as ordinary as it can be while fails still says true of it, with at most tries calls.
func Shrink(in []byte, tries int, fails func([]byte) bool) []byte {
	best := append([]byte(nil), in...)
	for n := len(best) / 2; n > 0 && tries > 0; { // shorter
		if n > len(best) {
			n = len(best)
		}
		tries--
		if n == 0 || !fails(best[:len(best)-n]) {
			n /= 2
			continue
		}
		best = best[:len(best)-n]
	}
	for width := max(len(best)/2, 1); width > 0 && tries > 0; width /= 2 { // zero, that is ordinary
		for at := 0; at < len(best) && tries > 0; at += width {
			try := append([]byte(nil), best...)
			clear(try[at:min(at+width, len(try))])
			if string(try) == string(best) {
				continue
			}
			if tries--; fails(try) {
				best = try
			}
		}
	}
	return best
}

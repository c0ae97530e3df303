// Package verbsfuzz makes hostile work requests and judges what a verbs device does with them.
//
// A program is a list of verbs that two ends of a reliable connection call: sends, RDMA READs and WRITEs, receives, fast
// registrations, windows and invalidations, most of them right, some with rights that are missing, bounds that are
// passed, keys of yesterday or of another domain, too many SGEs or RDMA READs. [Decode] makes one of any bytes: no
// bytes are an empty one, and a byte below 0x80 is an ordinary choice.
//
// What has to come of it follows from the InfiniBand specification, volume 1: chapter 9 for what a responder answers,
// 10 for keys, rights, windows and fast registration, 11 for completions. The model here is written from that and knows
// nothing of the device. Where the rules leave the outcome open it goes on from what the device did; everything else,
// each completion, each state and each byte of memory, must be as it says. [Campaign] tries programs at random in
// virtual time, and makes the ones that fail small.
package verbsfuzz

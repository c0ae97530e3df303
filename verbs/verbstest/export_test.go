package verbstest

// Tally lets the tests judge a run of their own.
type Tally = tally

var NewTally = newTally

func (y *tally) Done(c Check, skipped bool) { y.done(c, skipped) }
func (y *tally) Judge(tb TB)                { y.judge(tb) }

// SPDX-License-Identifier: Apache-2.0

package history

// Recorder records the calls of one thread of control, which has at most one under way. One goroutine uses it.
type Recorder struct {
	Client string // its name in the history
	Append func(Op) error
	Now    func() int64
	// Ahead says that the history is a file that outlives its client, so unlocks are written before the call too: see Writer.
	Ahead bool
	// Failure is what a call that returned this error came to, and the history's word for the error.
	Failure func(kind Kind, err error) (Outcome, string)

	err error // the first record that could not be written
}

// Do makes a call and records it. op says what the call is of, and call adds what came of it if it returns nil. Do returns what call returned.
func (r *Recorder) Do(op *Op, call func() error) error {
	op.Client, op.Call = r.Client, r.Now()
	if r.Ahead && op.Kind == KindUnlock {
		before := *op
		before.Return, before.Outcome = Never, Unknown
		r.Add(before)
	}
	err := call()
	if op.Outcome = OK; err != nil {
		op.Outcome, op.Error = r.Failure(op.Kind, err)
	}
	op.Return = r.Now()
	r.Add(*op)
	return err
}

// Add records an operation.
func (r *Recorder) Add(op Op) {
	if r.err == nil {
		r.err = r.Append(op)
	}
}

// Fail has Err return err: what should be on record could not be done.
func (r *Recorder) Fail(err error) { r.err = err }

// Err returns why an operation could not be recorded. The record is then incomplete.
func (r *Recorder) Err() error { return r.err }

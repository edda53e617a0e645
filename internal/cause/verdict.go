// SPDX-License-Identifier: Apache-2.0

package cause

import "strings"

// The words of what status says of all masters together, where it depends on how many vote.
const (
	LocksWork      = "locks work"
	LocksWait      = "locks wait"
	NoWrites       = "no writes"
	NoQuorum       = "no quorum"
	BadRecord      = "bad record"
	OneMasterTwice = "one master twice"
)

const mastersHere = "{masters}"

var verdicts = []Cause{
	{LocksWork, "a quorum votes, so locks work; {masters}", "what each of them needs"},
	{LocksWait, "fewer than a quorum vote, so nothing can be locked yet; {masters}", "what each of them needs"},
	{NoWrites, "no quorum takes writes, so nothing can be locked; {masters}", "what each of them needs"},
	{NoQuorum, "too few masters can be used, so nothing can be locked; {masters}", "what each of them needs"},
	{BadRecord, "{masters}", "what the line about the record says"},
	{OneMasterTwice, "{masters}", "name it once"},
}

// Verdict is what the word says. masters is what each master that does not vote is, and its remedy.
func Verdict(word, masters string) string {
	for _, v := range verdicts {
		if v.Word == word {
			return strings.Replace(v.Text, mastersHere, masters, 1)
		}
	}
	return masters
}

// Verdicts are all of them, for the table of the docs.
func Verdicts() []Cause { return verdicts }

// SPDX-License-Identifier: Apache-2.0

// Package history is the record of one chaos run: what every client asked for, when, and what it was told.
//
// A run writes one file per client process, one JSON object a line: first a header, then operations ([Op]), faults
// ([Fault]), probes of the masters ([Vote], [Key]) and their counters ([Counter]), in the order in which they ended.
// [ReadFiles] puts the files of one run together and orders the records by the time of the call.
//
// Guarantee: a record that [Writer.Append] accepted survives the death of the client (kill -9), though not of the host,
// and is read back unchanged or reported; nothing is skipped silently.
//
// All instants are nanoseconds of CLOCK_MONOTONIC ([Now]). Every process and container of one host reads the same clock,
// so instants of different clients compare exactly; instants of two hosts must never be put into one history.
package history

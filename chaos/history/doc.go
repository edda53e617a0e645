// SPDX-License-Identifier: Apache-2.0

// Package history writes and reads the history of a chaos run: every operation of every client, with its times and its outcome, and every
// fault.
//
// Each client process writes one file, and the harness another one. A file has one JSON object a line: first a [Header], then operations
// ([Op]), faults ([Fault]), observations of the masters ([Vote], [Key]) and of their counters ([Counter]), signs of the processes ([Pulse],
// [Signal]), and what the harness itself found wrong ([Finding]), in the order in which they ended. [Open] merges the files of one run, and
// gives the records in batches, in the order of the calls: a history may be too long for the memory. [ReadFiles] reads a history into
// memory.
//
// A record that [Writer.Append] accepted survives kill -9 of its process, but not a crash of the host. The reader returns it unchanged, or
// an error. It skips no record silently.
//
// All times are nanoseconds of CLOCK_MONOTONIC ([Now]). Every process and container of one host reads the same clock, so times of different
// clients compare exactly. Records of two hosts must not be in one history.
package history

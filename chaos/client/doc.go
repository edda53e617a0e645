// SPDX-License-Identifier: Apache-2.0

// Package client is one side of the contract between the chaos harness and a client process: a program that takes locks and records in a
// history what it was told. docs/history.md describes the contract, so that a program in any language can be a client. This package is for
// programs in Go. The harness's own clients (package workload) use it too.
//
// A client calls [Main]. It gets a [Session] with its [Task], connects, calls [Session.Ready], and takes the locks of the task until its
// context ends. A [Thread] records each lock, extend and unlock.
//
// The harness freezes and kills the process at any time. A record that a Thread wrote survives that.
package client

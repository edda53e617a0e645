// SPDX-License-Identifier: Apache-2.0

//go:build !race

package redlock_test

const raceEnabled = false

// SPDX-License-Identifier: Apache-2.0

// Package docs is the documentation of this module. It has no code: its tests hold what the pages
// say against the code.
package docs

// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import "github.com/redlock-go/redlock/internal/model/explore"

// The explorer's words for these models.
type (
	move = explore.Move[clockState, Step]
	// ViolationError is a counter-example.
	ViolationError = explore.ViolationError[Trace]
	// ImpossibleError says that a model does not allow a step of a trace where it stands.
	ImpossibleError = explore.ImpossibleError[Step]
)

// Trace is a run of a model, or the beginning of one.
type Trace struct{ Steps []Step }

// String tells the trace as a story, one line a step.
func (t Trace) String() string { return explore.Told(t.Steps) }

// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// UnmarshalJSON reads what --json wrote, with each cell as the type that it was.
func (r *Result) UnmarshalJSON(text []byte) error {
	type plain Result // without this method
	var raw struct {
		plain
		Cells []json.RawMessage `json:"cells"`
	}
	if err := unmarshal(text, &raw); err != nil {
		return err
	}
	*r = Result(raw.plain)
	r.Cells = nil
	for i, c := range raw.Cells {
		var kind struct{ Callers, Waiters, Phase any }
		if err := unmarshal(c, &kind); err != nil {
			return fmt.Errorf("cell %d: %w", i, err)
		}
		var cell any
		switch {
		case kind.Phase != nil:
			cell = &PhaseCell{}
		case kind.Waiters != nil:
			cell = &ContentionCell{}
		case kind.Callers != nil:
			cell = &LatencyCell{}
		default:
			return fmt.Errorf("cell %d has no callers, waiters or phase", i)
		}
		if err := unmarshal(c, cell); err != nil {
			return fmt.Errorf("cell %d: %w", i, err)
		}
		r.Cells = append(r.Cells, cell)
	}
	return nil
}

// unmarshal is json.Unmarshal, and its errors name no types of Go.
func unmarshal(text []byte, v any) error {
	err := json.Unmarshal(text, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return err
	case wrong.Field == "":
		return fmt.Errorf("no result but a JSON %s: want what redlock-bench --json wrote", wrong.Value)
	}
	return fmt.Errorf("no result: %s is a JSON %s: want what redlock-bench --json wrote", strings.TrimPrefix(wrong.Field, "plain."), wrong.Value)
}

// Read reads the results of any number of runs, one after the other. It leaves out those that ended before anything was measured.
func Read(in io.Reader) (all []*Result, err error) {
	for d := json.NewDecoder(in); ; {
		r := &Result{}
		err := d.Decode(r)
		switch {
		case errors.Is(err, io.EOF) && len(all) > 0:
			return all, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("no result in it")
		case err != nil:
			return nil, fmt.Errorf("result %d: %w", len(all)+1, err)
		case len(r.Cells) == 0 && (r.Interrupted || r.Broke != ""): // it ended before the first
			continue
		case r.Command == "" || len(r.Cells) == 0:
			return nil, fmt.Errorf("result %d: no cells: want what redlock-bench --json wrote", len(all)+1)
		}
		all = append(all, r)
	}
}

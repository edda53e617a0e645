// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"github.com/redlock-go/redlock/metrics/dashboard/internal/recording"
)

// run is a recorded run, as its file has it.
type run struct {
	Masters string   `json:"masters"` // how many of which server
	Clients string   `json:"clients"`
	Every   float64  `json:"every"`   // seconds between two scrapes
	Scrapes []int64  `json:"scrapes"` // when, in milliseconds from the beginning of the picture; the first are before it
	Events  []happen `json:"events"`
	Series  []column `json:"series"`
}

// happen is what was done to the masters or by the callers.
type happen struct {
	From  float64 `json:"from"`            // seconds from the beginning
	Until float64 `json:"until,omitempty"` // 0: it took no time
	Word  string  `json:"word"`            // for a mark in a panel
	Text  string  `json:"text"`
}

// column is a series with a value for each scrape; nil where it was not there.
type column struct {
	Labels map[string]string `json:"labels"`
	Values []*float64        `json:"values"`
}

// keep puts the samples of rec into the run. names has other words for values of labels that differ
// from one recording to the next: addresses.
func (r *run) keep(rec *recording.Recording, start time.Time, names map[string]string) {
	at := make(map[int64]int, len(r.Scrapes))
	for i, ms := range r.Scrapes {
		at[start.UnixMilli()+ms] = i
	}
	for _, l := range rec.Sorted() {
		c := column{Labels: l.Labels.Map(), Values: make([]*float64, len(r.Scrapes))}
		for name, v := range c.Labels {
			c.Labels[name] = cmp.Or(names[v], v)
		}
		for _, p := range l.Points {
			if v := p.F(); !value.IsStaleNaN(v) {
				c.Values[at[p.T()]] = &v
			}
		}
		r.Series = append(r.Series, c)
	}
}

// recording is what Prometheus has of the run. Its time begins at 0.
func (r *run) recording() *recording.Recording {
	rec := recording.New("")
	for _, c := range r.Series {
		set, there := labels.FromMap(c.Labels), false
		for i, v := range c.Values {
			switch {
			case v != nil:
				rec.Add(set, recording.Point{Time: r.Scrapes[i], Value: *v})
			case there:
				rec.Add(set, recording.Stale(r.Scrapes[i]))
			}
			there = v != nil
		}
	}
	return rec
}

// seconds is how long the run was.
func (r *run) seconds() float64 { return float64(r.Scrapes[len(r.Scrapes)-1]) / 1000 }

// write writes the run as compressed JSON.
func (r *run) write(w io.Writer) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(z).Encode(r), z.Close())
}

// readRun reads what write wrote.
func readRun(from io.Reader) (*run, error) {
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("recorded run: %w", err)
	}
	r := new(run)
	if err := json.NewDecoder(z).Decode(r); err != nil {
		return nil, fmt.Errorf("recorded run: %w", err)
	}
	if len(r.Scrapes) < 2 || len(r.Series) == 0 {
		return nil, errors.New("recorded run: it has no samples")
	}
	for _, c := range r.Series {
		if len(c.Values) != len(r.Scrapes) {
			return nil, fmt.Errorf("recorded run: %v has %d values for %d scrapes", c.Labels, len(c.Values), len(r.Scrapes))
		}
	}
	return r, nil
}

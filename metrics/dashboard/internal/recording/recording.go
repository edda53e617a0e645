// SPDX-License-Identifier: Apache-2.0

// Package recording keeps what Prometheus has of some programs that it scrapes, for Prometheus' own engine to evaluate queries over it.
package recording

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Point is one sample. T is in milliseconds.
type Point struct {
	Time  int64
	Value float64
}

func (p Point) T() int64                      { return p.Time }
func (p Point) F() float64                    { return p.Value }
func (p Point) H() *histogram.Histogram       { return nil }
func (p Point) FH() *histogram.FloatHistogram { return nil }
func (p Point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p Point) Copy() chunks.Sample           { return p }

// Line is one series.
type Line struct {
	Labels labels.Labels
	Points []chunks.Sample
}

// Recording is what Prometheus has of the instances of one job. It is a storage.Queryable. It is for one goroutine at a time.
type Recording struct {
	Lines     map[string]*Line // by their labels as text
	job       string
	instances map[string]prometheus.Gatherer
}

// New returns a recording without samples. Prometheus adds the label job to each series.
func New(job string) *Recording {
	return &Recording{Lines: make(map[string]*Line), job: job, instances: make(map[string]prometheus.Gatherer)}
}

// Serve has the metrics of an instance scraped from now on.
func (r *Recording) Serve(instance string, c prometheus.Collector) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	r.instances[instance] = reg
}

// Scrape takes a sample of each series of each instance. A series that has gone gets the marker of a stale one, as Prometheus does it.
func (r *Recording) Scrape(at time.Time) error {
	now, seen := at.UnixMilli(), make(map[string]bool)
	for instance, reg := range r.instances {
		families, err := reg.Gather()
		if err != nil {
			return fmt.Errorf("scrape %s: %w", instance, err)
		}
		for _, f := range families {
			for _, s := range f.Metric {
				addMetric(f.GetName(), s, func(name string, v float64, more ...string) {
					l := map[string]string{labels.MetricName: name, "job": r.job, "instance": instance}
					for _, pair := range s.Label {
						l[pair.GetName()] = pair.GetValue()
					}
					for i := 0; i < len(more); i += 2 {
						l[more[i]] = more[i+1]
					}
					seen[r.Add(labels.FromMap(l), Point{now, v})] = true
				})
			}
		}
	}
	for key, l := range r.Lines {
		if last := l.Points[len(l.Points)-1]; !seen[key] && !value.IsStaleNaN(last.F()) {
			l.Points = append(l.Points, Stale(now))
		}
	}
	return nil
}

// Stale is the marker that Prometheus puts behind the last sample of a series that has gone.
func Stale(at int64) Point { return Point{at, math.Float64frombits(value.StaleNaN)} }

func addMetric(name string, s *dto.Metric, add func(name string, v float64, more ...string)) {
	h := s.Histogram
	switch {
	case s.Counter != nil:
		add(name, s.Counter.GetValue())
	case s.Gauge != nil:
		add(name, s.Gauge.GetValue())
	case h != nil:
		for _, b := range h.Bucket {
			add(name+"_bucket", float64(b.GetCumulativeCount()), "le", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
		}
		add(name+"_bucket", float64(h.GetSampleCount()), "le", "+Inf")
		add(name+"_sum", h.GetSampleSum())
		add(name+"_count", float64(h.GetSampleCount()))
	}
}

// Add appends a sample to the series with these labels, and returns its key in Lines.
func (r *Recording) Add(set labels.Labels, p Point) (key string) {
	key = set.String()
	if r.Lines[key] == nil {
		r.Lines[key] = &Line{Labels: set}
	}
	r.Lines[key].Points = append(r.Lines[key].Points, p)
	return key
}

// Querier implements storage.Queryable.
func (r *Recording) Querier(_, _ int64) (storage.Querier, error) { return querier{r}, nil }

type querier struct{ r *Recording }

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, l := range q.r.Lines {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Labels.Get(m.Name)) }) {
			found = append(found, storage.NewListSeries(l.Labels, l.Points))
		}
	}
	// Always in the same order: a sum of floats depends on it.
	slices.SortFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &seriesSet{found, -1}
}

func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (querier) Close() error { return nil }

type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.all) }
func (s *seriesSet) At() storage.Series                { return s.all[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// Sorted returns the series in the order of their keys.
func (r *Recording) Sorted() (lines []*Line) {
	for _, key := range slices.Sorted(maps.Keys(r.Lines)) {
		lines = append(lines, r.Lines[key])
	}
	return lines
}

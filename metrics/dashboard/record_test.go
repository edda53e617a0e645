// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/redlock-go/redlock/metrics"
)

// every is how often a recording is scraped, and how often its alerts are evaluated.
const every = 15 * time.Second

// point is one sample.
type point struct {
	t int64
	v float64
}

func (p point) T() int64                      { return p.t }
func (p point) F() float64                    { return p.v }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// line is one series of a recording.
type line struct {
	labels labels.Labels
	points []chunks.Sample
}

// recording is what Prometheus has of one or more instances. It is a storage.Queryable.
type recording struct {
	lines     map[string]*line
	instances map[string]prometheus.Gatherer
	first     time.Time
}

func newRecording() *recording {
	return &recording{lines: make(map[string]*line), instances: make(map[string]prometheus.Gatherer)}
}

// serve has the metrics of an instance scraped from now on.
func (r *recording) serve(instance string, m *metrics.Metrics) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	r.instances[instance] = reg
}

// scrape takes a sample of each series of each instance. A series that has gone gets the marker of a stale one, as
// Prometheus does it.
func (r *recording) scrape(t *testing.T) {
	t.Helper()
	now, seen := time.Now().UnixMilli(), make(map[string]bool)
	for instance, reg := range r.instances {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, s := range f.Metric {
				add := func(name string, v float64, more ...string) {
					l := map[string]string{labels.MetricName: name, "job": "orders", "instance": instance}
					for _, pair := range s.Label {
						l[pair.GetName()] = pair.GetValue()
					}
					for i := 0; i < len(more); i += 2 {
						l[more[i]] = more[i+1]
					}
					set := labels.FromMap(l)
					seen[set.String()] = true
					r.add(set, point{now, v})
				}
				addMetric(f.GetName(), s, add)
			}
		}
	}
	for key, l := range r.lines {
		if last := l.points[len(l.points)-1].(point); !seen[key] && !value.IsStaleNaN(last.v) {
			l.points = append(l.points, point{now, math.Float64frombits(value.StaleNaN)})
		}
	}
}

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

func (r *recording) add(set labels.Labels, p point) {
	key := set.String()
	if r.lines[key] == nil {
		r.lines[key] = &line{labels: set}
	}
	r.lines[key].points = append(r.lines[key].points, p)
}

// run scrapes for d, which is in virtual time.
func (r *recording) run(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
		r.scrape(t)
	}
}

// Querier implements storage.Queryable.
func (r *recording) Querier(_, _ int64) (storage.Querier, error) { return querier{r}, nil }

type querier struct{ r *recording }

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, key := range slices.Sorted(maps.Keys(q.r.lines)) {
		l := q.r.lines[key]
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.labels.Get(m.Name)) }) {
			found = append(found, storage.NewListSeries(l.labels, l.points))
		}
	}
	sort.Slice(found, func(i, j int) bool { return labels.Compare(found[i].Labels(), found[j].Labels()) < 0 })
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

// fired evaluates the alerts over the recording by Prometheus' own engine, and returns those that fired at some time.
// The states pending and firing are those of Prometheus' rules.AlertingRule. It is not used itself, because the clients of a dozen clouds
// come with it. Where promtool is, TestAlerts_promtool_fireInTheirScenesAndInNoOther has it judge the same recordings.
func (r *recording) fired(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false)
	if errs != nil {
		t.Fatal(errs)
	}
	engine := promql.NewEngine(promql.EngineOpts{Logger: slog.New(slog.DiscardHandler), MaxSamples: 1e6, Timeout: time.Hour})
	defer engine.Close()
	fired := make(map[string]bool)
	for _, rule := range groups.Groups[0].Rules {
		since := make(map[uint64]time.Time)
		for at := r.first.Add(7 * time.Second); at.Before(time.Now()); at = at.Add(every) {
			active := r.evaluate(t, engine, &rule, at)
			for hash := range since {
				if !active[hash] {
					delete(since, hash)
				}
			}
			for hash := range active {
				if _, known := since[hash]; !known {
					since[hash] = at
				}
				if at.Sub(since[hash]) >= time.Duration(rule.For) {
					fired[rule.Alert] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(fired))
}

func (r *recording) evaluate(t *testing.T, engine *promql.Engine, rule *rulefmt.Rule, at time.Time) map[uint64]bool {
	t.Helper()
	q, err := engine.NewInstantQuery(t.Context(), r, nil, rule.Expr, at)
	if err != nil {
		t.Fatalf("%s: %v", rule.Alert, err)
	}
	defer q.Close()
	vector, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", rule.Alert, err)
	}
	active := make(map[uint64]bool)
	for _, s := range vector {
		active[s.Metric.Hash()] = true
	}
	return active
}

// anchor is how GitHub names a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(strings.NewReplacer(",", "", "`", "", "'", "").Replace(heading)), " ", "-")
}

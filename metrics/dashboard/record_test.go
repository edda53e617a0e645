// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"

	record "github.com/redlock-go/redlock/metrics/dashboard/internal/recording"
)

// every is how often a recording is scraped, and how often its alerts are evaluated.
const every = 15 * time.Second

// recording is what Prometheus has of one or more instances, from the time first on.
type recording struct {
	*record.Recording
	first time.Time
}

func newRecording() *recording { return &recording{Recording: record.New("orders")} }

// run scrapes for d, which is in virtual time.
func (r *recording) run(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
		if err := r.Scrape(time.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

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

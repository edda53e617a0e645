// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/redlock-go/redlock/internal/needs"
)

// ruleTest is a file of promtool test rules. YAML takes it as JSON.
type ruleTest struct {
	RuleFiles []string    `json:"rule_files"`
	Every     string      `json:"evaluation_interval"`
	Tests     []testGroup `json:"tests"`
}

type testGroup struct {
	Name     string        `json:"name"`
	Interval string        `json:"interval"`
	Series   []inputSeries `json:"input_series"`
	Exprs    []exprTest    `json:"promql_expr_test"`
}

type inputSeries struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type exprTest struct {
	Expr    string   `json:"expr"`
	At      string   `json:"eval_time"`
	Samples []sample `json:"exp_samples"`
}

type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// everFiring are the alerts that fired at some time of a recording. promtool keeps the series ALERTS as Prometheus does.
const everFiring = `group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1d]))`

// group is the recording as a test of promtool, which expects that those alerts fire at some time, and no others.
func (r *recording) group(t *testing.T, name string, fire []string) testGroup {
	t.Helper()
	first := int64(math.MaxInt64)
	for _, l := range r.Lines {
		first = min(first, l.Points[0].T())
	}
	second := func(p chunks.Sample) int64 { return (p.T() - first + 500) / 1000 } // a scene may lose some milliseconds between its scrapes
	tick, last := int64(every.Seconds()), int64(0)
	for _, l := range r.Lines {
		for _, p := range l.Points {
			last = max(last, second(p))
			for rest := second(p); rest != 0; tick, rest = rest, tick%rest { // the greatest step that has all scrapes on it
			}
		}
	}
	g := testGroup{Name: name, Interval: fmt.Sprintf("%ds", tick)}
	for _, l := range r.Sorted() {
		values := make([]string, last/tick+1)
		for i := range values {
			values[i] = "_"
		}
		for _, p := range l.Points {
			v := strconv.FormatFloat(p.F(), 'f', -1, 64)
			if value.IsStaleNaN(p.F()) {
				v = "stale"
			}
			values[second(p)/tick] = v
		}
		g.Series = append(g.Series, inputSeries{l.Labels.String(), strings.Join(values, " ")})
	}
	expect := exprTest{everFiring, fmt.Sprintf("%ds", last+int64(every.Seconds())), []sample{}}
	for _, alert := range fire {
		expect.Samples = append(expect.Samples, sample{`{alertname="` + alert + `"}`, 1})
	}
	g.Exprs = []exprTest{expect}
	return g
}

// Prometheus' own rule tester finds in each recorded scene that the alerts fire which the scene names, and no others.
func TestAlerts_promtool_fireInTheirScenesAndInNoOther(t *testing.T) {
	promtool := needs.Promtool(t)
	rules, err := filepath.Abs("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	test := ruleTest{RuleFiles: []string{rules}, Every: every.String()}
	for _, scene := range allScenes() {
		r, _ := play(t, scene.plays)
		test.Tests = append(test.Tests, r.group(t, scene.name, scene.fire))
	}
	text, err := json.MarshalIndent(test, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "scenes.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package dashboard has a Grafana dashboard and Prometheus alerts for redlock. Its tests load both
// as Prometheus does, and hold every name in them against package metrics.
package dashboard

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/redlock-go/redlock/metrics"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// series is every series name with its labels, and the values that each label has.
type series map[string]map[string][]string

// all returns the series of a client to which everything has happened.
func all(t *testing.T) series {
	t.Helper()
	m := metrics.New(metrics.Config{})
	o := m.Observer()
	for vote := event.VoteSilent; vote <= event.VoteNotAsked; vote++ {
		o.Voted(event.Vote{Master: "m1", Answer: vote, Handed: true})
	}
	o.Master(event.Master{Master: "m1", To: event.MasterVotes})
	o.Clock(event.Clock{})
	o.Epoch(event.Epoch{Number: 1})
	o.Waits(t.Context(), event.Wait{First: true})
	for _, err := range []error{nil, redlock.ErrHeld, redlock.ErrUnreachable, redlock.ErrRecovering, redlock.ErrRefused, redlock.ErrLost, redlock.ErrUnconfirmed, os.ErrInvalid} {
		o.Acquired(t.Context(), event.Acquire{Err: err})
		o.Extended(event.Extend{Err: err})
		o.Unlocked(t.Context(), event.Unlock{Err: err})
	}
	o.Ended(event.End{Held: time.Second})
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := make(series)
	for _, f := range families {
		names := []string{f.GetName()}
		if f.Metric[0].Histogram != nil {
			names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
		}
		for _, name := range names {
			known[name] = map[string][]string{"job": nil, "instance": nil} // which Prometheus adds
			if strings.HasSuffix(name, "_bucket") {
				known[name]["le"] = nil
			}
			for _, s := range f.Metric {
				for _, l := range s.Label {
					known[name][l.GetName()] = append(known[name][l.GetName()], l.GetValue())
				}
			}
		}
	}
	return known
}

// check parses query and holds its names against what is known.
func (known series) check(t *testing.T, where, query string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v\n%s", where, err, query)
		return
	}
	var labelsOf map[string][]string // of the last metric; all in a query have the labels that it is grouped by
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if labelsOf, ok = known[s.Name]; !ok {
			t.Errorf("%s: no metric %s", where, s.Name)
			return nil
		}
		for _, m := range s.LabelMatchers {
			values, ok := labelsOf[m.Name]
			if m.Name == model.MetricNameLabel {
				continue
			}
			if !ok {
				t.Errorf("%s: %s has no label %s", where, s.Name, m.Name)
			}
			if m.Name == "class" || len(values) == 0 { // the user's own
				continue
			}
			for _, want := range strings.Split(m.Value, "|") {
				if want != ".*" && !slices.Contains(values, want) {
					t.Errorf("%s: %s has no %s %q, but %q", where, s.Name, m.Name, want, values)
				}
			}
		}
		return nil
	})
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, by := range a.Grouping {
				if _, ok := labelsOf[by]; !ok {
					t.Errorf("%s: by (%s), which the metric does not have", where, by)
				}
			}
		}
		return nil
	})
	if labelsOf == nil {
		t.Errorf("%s: no metric in %s", where, query)
	}
}

func TestAlerts_loadAndNameWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false)
	for _, err := range errs {
		t.Error(err)
	}
	if errs != nil {
		return
	}
	known, n := all(t), 0
	var critical []string
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			n++
			known.check(t, r.Alert, r.Expr)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s: no severity or no summary", r.Alert)
			}
			runbook(t, r.Alert, r.Annotations["runbook_url"])
			if r.Labels["severity"] == "critical" {
				critical = append(critical, r.Alert)
			}
		}
	}
	for _, page := range []string{"operations.md", "for-the-team-lead.md"} {
		wakes(t, page, critical)
	}
	if n < 10 {
		t.Errorf("%d alerts", n)
	}
	if _, errs := rulefmt.Parse([]byte(strings.Replace(string(text), "> 0", "> > 0", 1)), false); errs == nil {
		t.Error("Prometheus takes a rule that is no PromQL")
	}
}

// wakes holds the alerts that should wake somebody, as a page says, against those that are critical.
func wakes(t *testing.T, page string, critical []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(text), "wake somebody")
	if at < 0 {
		t.Fatalf("%s names no alert that should wake somebody", page)
	}
	named := regexp.MustCompile("`(Redlock\\w+)`").FindAllStringSubmatch(string(text[at-200:at+150]), -1)
	var names []string
	for _, name := range named {
		names = append(names, name[1])
	}
	slices.Sort(names)
	slices.Sort(critical)
	if !slices.Equal(names, critical) {
		t.Errorf("%s: %v should wake somebody, and critical are %v", page, names, critical)
	}
}

// runbook holds the heading to which an alert links against the page.
func runbook(t *testing.T, alert, url string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	at, is := strings.CutPrefix(url, "https://github.com/redlock-go/redlock/blob/main/docs/operations.md#")
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(page), -1) {
		if is && anchor(heading[1]) == at {
			return
		}
	}
	t.Errorf("%s: runbook_url %q is no heading of docs/operations.md", alert, url)
}

// Grafana puts values in the place of these.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$class", ".*")

func TestDashboard_namesWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Templating struct {
			List []struct {
				Type  string
				Query any
			}
		}
		Panels []struct {
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	known, shown := all(t), make(map[string]bool)
	for i, p := range board.Panels {
		for _, q := range p.Targets {
			known.check(t, p.Title, variables.Replace(q.Expr))
			for name := range known {
				if strings.Contains(q.Expr, name+"{") {
					shown[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")] = true
				}
			}
		}
		for _, o := range board.Panels[:i] {
			a, b := p.GridPos, o.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies on %q", p.Title, o.Title)
			}
		}
	}
	for name := range known {
		if base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count"); !shown[base] {
			t.Errorf("no panel shows %s", base)
		}
	}
	values := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, v := range board.Templating.List {
		query, ok := v.Query.(map[string]any)
		if !ok {
			continue // a data source
		}
		m := values.FindStringSubmatch(query["query"].(string))
		if m == nil || known[m[1]] == nil {
			t.Errorf("variable %v", query)
		} else if _, ok := known[m[1]][m[2]]; !ok {
			t.Errorf("%s has no label %s", m[1], m[2])
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

// board is what a picture shows of grafana.json.
type board struct {
	Panels []panel
}

type panel struct {
	Type    string // "stat" or "timeseries"
	Title   string
	GridPos grid
	Targets []struct{ Expr, LegendFormat string }

	FieldConfig struct {
		Defaults struct {
			Unit       string
			Thresholds struct{ Steps []threshold }
		}
	}
}

// grid is where a panel stands. The dashboard has 24 columns.
type grid struct{ X, Y, W, H int }

// threshold colours a figure that is Value or more. The first has none.
type threshold struct {
	Color string
	Value *float64
}

// line is one series of a panel.
type line struct {
	name   string
	points []point
}

// point is the value at t, in seconds from the beginning.
type point struct{ t, v float64 }

// readBoard returns the panels in the order in which they are read: row by row.
func readBoard(text []byte) (*board, error) {
	b := new(board)
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	for _, p := range b.Panels {
		switch {
		case p.Type != "stat" && p.Type != "timeseries":
			return nil, fmt.Errorf("dashboard: the picture cannot draw panel %q, a %s", p.Title, p.Type)
		case units[p.unit()] == nil:
			return nil, fmt.Errorf("dashboard: the picture does not know the unit %q of panel %q", p.unit(), p.Title)
		}
	}
	slices.SortStableFunc(b.Panels, func(a, b panel) int { return (a.GridPos.Y-b.GridPos.Y)*100 + a.GridPos.X - b.GridPos.X })
	return b, nil
}

func (p *panel) unit() string { return p.FieldConfig.Defaults.Unit }

// colour is that of a stat's figure: the last threshold that it reaches; "" without any.
func (p *panel) colour(v float64) (c string) {
	for _, s := range p.FieldConfig.Defaults.Thresholds.Steps {
		if s.Value == nil || v >= *s.Value {
			c = s.Color
		}
	}
	return c
}

// rateScrapes is how many scrapes $__rate_interval spans: one more than Grafana takes at least, because a scrape may come a little late.
const rateScrapes = 5

// grafana puts these in the place of a dashboard's variables when all jobs and all classes are chosen.
func grafana(every float64) *strings.Replacer {
	return strings.NewReplacer("$__rate_interval", fmt.Sprintf("%dms", int(every*1000*rateScrapes)), "$job", ".*", "$class", ".*")
}

// lines evaluates the queries of a panel over a run, at each scrape's time, by Prometheus' engine.
func (p *panel) lines(ctx context.Context, engine *promql.Engine, from storage.Queryable, r *run) (lines []line, err error) {
	// Right after a scrape: what happened is then where it happened, and not one step later.
	step, late := asTime(r.Every), asTime(r.Every/10)
	first, last := time.UnixMilli(0).Add(late), time.UnixMilli(0).Add(asTime(r.seconds())+late)
	for _, t := range p.Targets {
		q, err := engine.NewRangeQuery(ctx, from, nil, grafana(r.Every).Replace(t.Expr), first, last, step)
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", p.Title, err)
		}
		matrix, err := q.Exec(ctx).Matrix()
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", p.Title, err)
		}
		for _, s := range matrix {
			l := line{name: legend(t.LegendFormat, s.Metric)}
			for _, f := range s.Floats {
				if !math.IsNaN(f.F) && !math.IsInf(f.F, 0) { // no observation in the window: nothing to draw
					l.points = append(l.points, point{float64(f.T) / 1000, f.F})
				}
			}
			if len(l.points) > 0 {
				lines = append(lines, l)
			}
		}
		q.Close()
	}
	return lines, nil
}

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{Logger: slog.New(slog.DiscardHandler), MaxSamples: 1e7, Timeout: time.Minute})
}

var labelName = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// legend is the name of a series as Grafana makes it of a legendFormat.
func legend(format string, of labels.Labels) string {
	return labelName.ReplaceAllStringFunc(format, func(s string) string { return of.Get(labelName.FindStringSubmatch(s)[1]) })
}

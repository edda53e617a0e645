// SPDX-License-Identifier: Apache-2.0

// Command picture draws docs/dashboard.svg: the panels of grafana.json over a recorded run of real clients on real masters.
//
//	go run -C metrics/dashboard ./picture             # draws the picture from the recorded run
//	go run -C metrics/dashboard ./picture --record    # records a new run first, for 100 s; it needs redis-server
//
// Grafana draws nothing here. The queries, titles, units and places of the panels are those of its file, and Prometheus' engine evaluates the
// queries. The same run makes the same bytes, so a test can compare the picture in docs with its data.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	doRecord := flag.Bool("record", false, "record a new run first")
	board := flag.String("board", "grafana.json", "the dashboard")
	data := flag.String("data", "picture/run.json.gz", "the recorded run")
	out := flag.String("out", "../../docs/dashboard.svg", "the picture")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *doRecord {
		if err := recordTo(ctx, *data); err != nil {
			fail(err)
		}
	}
	svg, err := draw(ctx, *board, *data)
	if err == nil {
		err = os.WriteFile(*out, svg, 0o644)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "picture:", err)
	os.Exit(1)
}

func recordTo(ctx context.Context, file string) error {
	r, err := record(ctx, 1)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := r.write(&b); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// draw returns the picture of a dashboard over a run.
func draw(ctx context.Context, boardFile, runFile string) ([]byte, error) {
	text, err := os.ReadFile(boardFile)
	if err != nil {
		return nil, err
	}
	b, err := readBoard(text)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(runFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := readRun(file)
	if err != nil {
		return nil, err
	}
	engine, from := newEngine(), r.recording()
	defer engine.Close()
	charts := make([]chart, len(b.Panels))
	for i := range b.Panels {
		lines, err := b.Panels[i].lines(ctx, engine, from, r)
		if err != nil {
			return nil, err
		}
		charts[i] = newChart(&b.Panels[i], lines)
	}
	return []byte(picture(r, charts)), nil
}

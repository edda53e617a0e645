// SPDX-License-Identifier: Apache-2.0

package stranger

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/release/proxy"
)

// version is what this checkout is published as.
const version = "v0.1.0"

// A stranger works in an empty folder with a proxy that has this checkout.
type stranger struct {
	t       *testing.T
	env     []string
	scratch string
}

// publish serves the checkout's modules for all parts of a test.
func publish(t *testing.T) *stranger {
	t.Helper()
	needs.CI(t)
	needs.Redis(t)
	needs.Program(t, "git")
	needs.Program(t, "bash")
	checkout, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	dirs, err := proxy.Nested(checkout)
	must(t, err)
	if len(dirs) < 5 {
		t.Fatalf("the checkout has nested modules %v", dirs)
	}
	served := t.TempDir()
	for _, dir := range append(dirs, ".") {
		must(t, proxy.Write(served, checkout, dir, version, time.Now()))
	}
	s := &stranger{t: t, scratch: t.TempDir()}
	s.env, err = proxy.Env(served, s.scratch)
	must(t, err)
	return s
}

// in makes a stranger for a part, in a folder of its own.
func (s *stranger) in(t *testing.T) (*stranger, string) {
	return &stranger{t: t, env: s.env, scratch: s.scratch}, t.TempDir()
}

// command is a command line of bash that is typed in dir.
func (s *stranger) command(dir, script string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", "-e", "-c", script)
	cmd.Dir, cmd.Env = dir, s.env
	return cmd
}

// types runs a script that must end well, and returns what it printed.
func (s *stranger) types(dir, script string) string {
	s.t.Helper()
	out, err := s.command(dir, script).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n$ %s\n%s", err, script, out)
	}
	return string(out)
}

// writes puts a file into dir.
func (s *stranger) writes(dir, name, text string) {
	s.t.Helper()
	must(s.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// page returns the code blocks of a page of this repository between two of its texts: those for a shell have no language.
func page(t *testing.T, file, from, to string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
	must(t, err)
	_, rest, ok := strings.Cut(string(text), from)
	rest, _, found := strings.Cut(rest, to)
	if !ok || !found {
		t.Fatalf("%s has no %q before %q", file, from, to)
	}
	for _, m := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(rest, -1) {
		blocks = append(blocks, block{language: m[1], text: m[2]})
	}
	return blocks
}

type block struct{ language, text string }

// masters fails the test if something is at the ports of README and guide, and stops the masters there when the test ends.
func masters(t *testing.T) {
	t.Helper()
	for port := 7001; port <= 7003; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatalf("README starts masters at 7001, 7002 and 7003: %v", err)
		}
		must(t, l.Close())
	}
	t.Cleanup(func() {
		for port := 7001; port <= 7003; port++ {
			_ = exec.Command("redis-cli", "-p", fmt.Sprint(port), "shutdown", "nosave").Run()
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStranger(t *testing.T) {
	needs.CI(t)
	s := publish(t)
	t.Run("README", s.readme)
	t.Run("guide", s.guide)
	t.Run("command", s.installs)
	t.Run("nested modules", s.nested)
	t.Run("nothing of a consumer moves", s.consumer)
}

// README from its first command to a program that locks: shell blocks are typed, the program is main.go.
func (s *stranger) readme(t *testing.T) {
	masters(t)
	s, dir := s.in(t)
	blocks := page(t, "README.md", "## Install", "`Do` waits for its turn")
	var script strings.Builder
	for _, b := range blocks {
		if b.language == "go" {
			fmt.Fprintf(&script, "cat > main.go <<'END OF FILE'\n%s\nEND OF FILE\n", b.text)
		} else {
			script.WriteString(b.text)
		}
	}
	if out := s.types(dir, script.String()); !strings.Contains(out, "settling invoice 4711 with token ") {
		t.Errorf("the program of README said nothing of its token:\n%s", out)
	}
}

// The guide: two processes, and a master that is killed and comes back while they work.
func (s *stranger) guide(t *testing.T) {
	masters(t)
	s, dir := s.in(t)
	blocks := page(t, "docs/guide.md", "## 1. Three masters", "## What next")
	var shell, programs []string
	for _, b := range blocks {
		switch b.language {
		case "go":
			programs = append(programs, b.text)
		case "":
			shell = append(shell, b.text)
		}
	}
	if len(shell) != 6 || len(programs) != 4 {
		t.Fatalf("the guide has %d shell blocks and %d of Go", len(shell), len(programs))
	}
	s.types(dir, shell[0]+shell[1]+shell[2])
	work := filepath.Join(dir, "invoices")
	s.writes(work, "main.go", programs[0])
	s.types(work, "go build -o /dev/null . # the wait for the compiler is not the guide's")

	token := func(cmd *exec.Cmd, out *strings.Builder) string {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, after, _ := strings.Cut(out.String(), "mine, with token ")
		first, _, _ := strings.Cut(after, "\n")
		return first
	}
	start := func() (*exec.Cmd, *strings.Builder) {
		var out strings.Builder
		cmd := s.command(work, "go run .")
		cmd.Stdout, cmd.Stderr = &out, &out
		must(t, cmd.Start())
		return cmd, &out
	}
	one, oneSaid := start()
	two, twoSaid := start()
	s.types(dir, shell[3])
	time.Sleep(20 * time.Second) // a reader is slower than this test: the programs, of 20 s each, end before the master's wait is over
	// Its exit code says that a master does not vote yet.
	if said, err := s.command(dir, shell[4]).CombinedOutput(); !strings.Contains(string(said), "127.0.0.1:7002  votes") {
		t.Errorf("status: %v\n%s", err, said)
	}
	a, b := token(one, oneSaid), token(two, twoSaid)
	if a == "" || b == "" || a == b {
		t.Errorf("tokens %q and %q", a, b)
	}
	// Both programs have ended. The command sees the master through, and ends well.
	if said := s.types(dir, shell[5]); !strings.Contains(said, "all vote: all 3 masters vote") {
		t.Errorf("status --wait: %s", said)
	}
	// The second block of Go asks without waiting, and the third answers a request, in a program that has a client.
	s.writes(work, "main.go", "package main\n\nimport (\n\t\"context\"\n\t\"errors\"\n\t\"net/http\"\n\t\"time\"\n\n\t\"github.com/redlock-go/redlock/redlock\"\n)\n\n"+
		"func try(ctx context.Context, client *redlock.Client) {\n"+programs[1]+"}\n\n"+
		"func handle(w http.ResponseWriter, r *http.Request, client *redlock.Client, settle func(context.Context, int64) error) {\n"+programs[2]+"}\n\n"+
		"func main() { try(nil, nil); handle(nil, nil, nil, nil) }\n")
	s.types(work, "go vet .")
}

// The command: installed, and run without a module and in one.
func (s *stranger) installs(t *testing.T) {
	s, dir := s.in(t)
	s.env = append(slices.Clone(s.env), "GOBIN="+filepath.Join(dir, "bin"))
	s.types(dir, "go install "+proxy.Root+"/cmd/redlock@"+version)
	want := "redlock " + version + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	if got := s.types(dir, "bin/redlock version"); got != want {
		t.Errorf("redlock version says %q, want %q", got, want)
	}
	run := "go run " + proxy.Root + "/cmd/redlock@latest version"
	if got := s.types(dir, run); got != want {
		t.Errorf("without a module: %q", got)
	}
	if got := s.types(dir, "go mod init example.com/own >/dev/null 2>&1; "+run); got != want {
		t.Errorf("in a module: %q", got)
	}
}

// Nested modules can be got, and bring the root of their version.
func (s *stranger) nested(t *testing.T) {
	s, dir := s.in(t)
	s.writes(dir, "main.go", `package main

import (
	"`+proxy.Root+`/compat/gocron"
	"`+proxy.Root+`/redlockotel"
)

func main() { _, _ = gocronlock.NewLocker, redlockotel.Observer }
`)
	s.types(dir, "go mod init example.com/own && go get "+proxy.Root+"/redlockotel "+proxy.Root+"/compat/gocron && go vet .")
	got := strings.Fields(s.types(dir, "go list -m -f '{{.Version}}' "+proxy.Root+" "+proxy.Root+"/redlockotel "+proxy.Root+"/compat/gocron"))
	if !slices.Equal(got, []string{version, version, version}) {
		t.Errorf("versions %v", got)
	}
}

// consumes is a program that has what many have, at versions of two years ago.
const consumes = `module example.com/own

go 1.25.0

require (
	github.com/prometheus/client_golang v1.20.5
	github.com/redis/go-redis/v9 v9.17.3
	github.com/spf13/cobra v1.8.1
	golang.org/x/sync v0.7.0
	google.golang.org/protobuf v1.34.2
)
`

// A program gets the lock and its metrics, and nothing that it had moves.
func (s *stranger) consumer(t *testing.T) {
	s, dir := s.in(t)
	program := func(more string) string {
		return `package main

import (
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/sync/errgroup"
	_ "google.golang.org/protobuf/proto"
` + more + `)

func main() {}
`
	}
	selected := func() map[string]string {
		all := map[string]string{}
		for line := range strings.Lines(s.types(dir, "go list -m all")) {
			if words := strings.Fields(line); len(words) == 2 {
				all[words[0]] = words[1]
			}
		}
		return all
	}
	s.writes(dir, "go.mod", consumes)
	s.writes(dir, "main.go", program(""))
	s.types(dir, "go mod tidy && go build -o /dev/null .")
	before := selected()
	s.types(dir, "go get "+proxy.Root+"/redlock "+proxy.Root+"/metrics")
	s.writes(dir, "main.go", program("\t_ \""+proxy.Root+"/redlock\"\n\t_ \""+proxy.Root+"/metrics\"\n"))
	s.types(dir, "go mod tidy && go build -o /dev/null .")
	after := selected()
	if len(before) < 10 || after[proxy.Root] != version {
		t.Fatalf("before %v, after %v", before, after)
	}
	for module, was := range before {
		if is := after[module]; is != was {
			t.Errorf("%s was %s, and is %s", module, was, is)
		}
	}
	t.Logf("%d modules were selected before, %d after", len(before), len(after))
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// pagePackages are what the programs of the pages may import, by name.
var pagePackages = map[string]string{
	"atomic": "sync/atomic", "context": "context", "errors": "errors", "log": "log", "sync": "sync", "time": "time",
	"goredis":     "github.com/go-redsync/redsync/v4/redis/goredis/v9",
	"redis":       "github.com/redis/go-redis/v9",
	"redislock":   "github.com/bsm/redislock",
	"redlock":     "github.com/redlock-go/redlock/redlock",
	"redsync":     "github.com/go-redsync/redsync/v4",
	"rueidis":     "github.com/redis/rueidis",
	"rueidislock": "github.com/redis/rueidis/rueidislock",
}

var (
	goBlock   = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	qualified = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
)

// program is the Go of a page as one package: all its blocks, and what the page leaves out. The masters are m1 to m3 there.
func program(t *testing.T, page, name, more string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	body := ""
	for _, m := range goBlock.FindAllStringSubmatch(string(text), -1) {
		body += m[1]
	}
	if body == "" {
		t.Fatalf("%s has no Go", page)
	}
	body += more
	src, seen := "package "+name+"\n\n", []string{}
	for _, m := range qualified.FindAllStringSubmatch(body, -1) {
		if path := pagePackages[m[1]]; path != "" && !slices.Contains(seen, path) {
			seen = append(seen, path)
			src += fmt.Sprintf("import %s %q\n", m[1], path)
		}
	}
	return src + "\n" + body
}

// tool writes a program and has the go command do something with it.
func tool(t *testing.T, src string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.go")
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", append(args, file)...).CombinedOutput()
	if err != nil {
		t.Fatalf("go %v: %v\n%s\n%s", args, err, out, src)
	}
	return string(out)
}

// The Go of docs/migrate-from-*.md compiles as it stands, against this library and the real peers.
func TestPages_goBlocks_compile(t *testing.T) {
	pages, err := filepath.Glob("../../docs/migrate-from-*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("pages %v, %v", pages, err)
	}
	for _, file := range pages {
		page := filepath.Base(file)
		t.Run(page, func(t *testing.T) {
			tool(t, program(t, page, "page", "\nfunc work(context.Context) error { return nil }\n"), "vet")
		})
	}
}

// during says how the programs of a page are called: the peer's alone, those of the change, and ours alone.
var during = map[string]string{
	"migrate-from-redislock.md": `
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "m1:6379"})
	client, err := redlock.Open(ctx, []string{"redis://m1:6379", "redis://m2:6379", "redis://m3:6379"})
	check(err)
	defer client.Close()
	run(func(ctx context.Context) error { return settleBefore(ctx, rdb) }, func(ctx context.Context) error { return settleInChange(ctx, rdb, client) })
	run(func(ctx context.Context) error { return settleInChange(ctx, rdb, client) }, func(ctx context.Context) error { return settle(ctx, client) })
`,
	"migrate-from-rueidislock.md": `
	ctx := context.Background()
	locker, err := openBefore()
	check(err)
	defer locker.Close()
	client, err := open(ctx)
	check(err)
	defer client.Close()
	run(func(ctx context.Context) error { return settleBefore(ctx, locker) }, func(ctx context.Context) error { return settleInChange(ctx, locker, client) })
	run(func(ctx context.Context) error { return settleInChange(ctx, locker, client) }, func(ctx context.Context) error { return settle(ctx, client) })
`,
	"migrate-from-redsync.md": `
	rdb := func(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }
	one, two, three := rdb("m1:6379"), rdb("m2:6379"), rdb("m3:6379")
	old := func(ctx context.Context) error { return settleBefore(ctx, one, two, three) }
	run(old, old)
	run(settle, settle)
`,
}

// driver has two kinds of programs work at the same time, each in two goroutines, until each kind was inside ten times.
const driver = `
var inside atomic.Int32

type turns struct{}

func work(ctx context.Context) error {
	if inside.Add(1) > 1 {
		log.Fatal("two are inside")
	}
	time.Sleep(3 * time.Millisecond)
	inside.Add(-1)
	ctx.Value(turns{}).(*atomic.Int32).Add(1)
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func run(kinds ...func(context.Context) error) {
	var all sync.WaitGroup
	for _, settle := range kinds {
		var had atomic.Int32
		ctx := context.WithValue(context.Background(), turns{}, &had)
		for range 2 {
			all.Go(func() {
				for end := time.Now().Add(20 * time.Second); had.Load() < 10; time.Sleep(time.Millisecond) {
					if err := settle(ctx); time.Now().After(end) { // what is held elsewhere is an error for some
						log.Fatal("had ", had.Load(), " turns: ", err)
					}
				}
			})
		}
	}
	all.Wait()
}

func main() {
`

// The programs of the pages run on real masters, those of before the change, in it and after it side by side: never two are inside.
func TestPages_programs_excludeEachOther(t *testing.T) {
	needs.Test(t)
	for page, calls := range during {
		t.Run(page, func(t *testing.T) {
			servers, _ := quorumtest.Servers(t, 3, localredis.Config{})
			var urls []string
			for _, s := range servers {
				urls = append(urls, s.URL())
			}
			quorumtest.Begin(t, urls)
			src := program(t, page, "main", driver+calls+"\tlog.Print(\"all had their turns\")\n}\n")
			for i, s := range servers {
				src = strings.ReplaceAll(src, fmt.Sprintf("m%d:6379", i+1), s.Addr())
			}
			bin := filepath.Join(t.TempDir(), "page")
			tool(t, src, "build", "-o", bin)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, bin)
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it says where it stands
			if said, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(said), "all had their turns") {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

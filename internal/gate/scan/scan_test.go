// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestScan_whatTestsSayOfThemselves(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go": `package a
import "testing"
func TestPlain(t *testing.T) {}
func TestServer(t *testing.T) { needs.EveryServer(t); for range 3 { needs.NoRace(t, "why") } }
func TestMain(m *testing.M) {}
func helper(t *testing.T) { needs.InSoak(t) }
func FuzzA(f *testing.F) {}
`,
		"a/testdata/seeds":    "TestServer 17\n",
		"a/tagged_test.go":    "//go:build mutants\n\npackage a\n\nimport \"testing\"\n\nfunc TestTagged(t *testing.T) {}\n",
		"a/both_test.go":      "//go:build mutants && unix\n\npackage a\n\nimport \"testing\"\n\nfunc TestBoth(t *testing.T) {}\n",
		"a/posix_test.go":     "//go:build unix\n\npackage a\n\nimport \"testing\"\n\nfunc TestPosix(t *testing.T) {}\n",
		"a/far_plan9_test.go": "//go:build !mutants\n\npackage a\n\nimport \"testing\"\n\nfunc TestFar(t *testing.T) {}\n",
		"b/b.go":              "package b\n\nfunc Start() { needs.Java(nil) }\n",
		"b/b_test.go":         "package b\n\nimport \"testing\"\n\nfunc TestJava(t *testing.T) {}\n",
		"own/go.mod":          "module own\n",
		"own/sub/own_test.go": "package sub\n\nimport \"testing\"\n\nfunc TestOwn(t *testing.T) {}\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Test{}
	for _, f := range tests {
		found[f.Name] = f
	}
	if len(found) != 9 {
		t.Errorf("found %v", tests)
	}
	if f := found["TestServer"]; !f.Calls("EveryServer") || !f.Calls("NoRace") || f.Calls("InSoak") || !f.Seeds || f.Pkg != "./a" || f.Module != "." {
		t.Errorf("TestServer: %+v", f)
	}
	if f := found["TestPlain"]; len(f.Needs) > 0 || f.Seeds || !slices.Contains(f.Around, "InSoak") {
		t.Errorf("TestPlain: %+v", f)
	}
	for name, want := range map[string]string{"TestPlain": "", "TestTagged": "mutants", "TestBoth": "mutants", "TestPosix": "", "TestFar": Elsewhere} {
		if f := found[name]; f.Tags != want {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := found["TestJava"]; !f.Calls("Java") {
		t.Errorf("TestJava: %+v", f)
	}
	if f := found["TestOwn"]; f.Module != "own" || f.Pkg != "./sub" || f.Path() != "./own/sub" || found["TestPlain"].Path() != "./a" {
		t.Errorf("TestOwn: %+v", f)
	}
	if got := Pattern([]Test{found["TestPlain"], found["TestJava"], found["TestPlain"]}); got != "^(TestJava|TestPlain)$" {
		t.Errorf("pattern %s", got)
	}
}

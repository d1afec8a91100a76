// Package docs_test holds the documentation to the code that it names.
package docs_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named is a test as the documents write it: its folder, or the last parts of
// it, and its function, in backticks. A slash and a subtest may follow.
var named = regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)[`/]")

// TestNamedTestsExist keeps the tables of the documents from naming tests that
// were renamed or are gone.
func TestNamedTestsExist(t *testing.T) {
	there := tests(t)
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("adr/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range unknown(text, there) {
			t.Errorf("%s:%s", page, problem)
		}
	}
}

// unknown returns a line for each test that is named in text and not there.
func unknown(text []byte, there map[string][]string) []string {
	var problems []string
	for i, line := range bytes.Split(text, []byte("\n")) {
		for _, m := range named.FindAllSubmatch(line, -1) {
			folder, test := string(m[1]), string(m[2])
			found := slices.ContainsFunc(there[test], func(dir string) bool {
				return dir == folder || strings.HasSuffix(dir, "/"+folder)
			})
			if !found {
				problems = append(problems, fmt.Sprintf("%d: there is no %s.%s", i+1, folder, test))
			}
		}
	}
	return problems
}

// tests returns the folders of each test function of the repository.
func tests(t *testing.T) map[string][]string {
	t.Helper()
	there := make(map[string][]string)
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				there[f.Name.Name] = append(there[f.Name.Name], filepath.ToSlash(filepath.Dir(path)))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// Every case has a row, and every row says what holds it: a test, or why there
// is none.
func TestEveryFieldCaseIsAnswered(t *testing.T) {
	text, err := os.ReadFile("field-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`^\| (\d+\.\d+) \|`)
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if seen[m[1]] {
			t.Errorf("case %s has two rows", m[1])
		}
		seen[m[1]] = true
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 6 {
			t.Errorf("case %s: %d cells, want 5", m[1], len(cells)-1)
			continue
		}
		held := cells[5]
		if !named.MatchString(held) && !strings.Contains(held, "No test:") {
			t.Errorf("case %s names no test, and gives no reason after \"No test:\"", m[1])
		}
	}
	for _, id := range cases {
		if !seen[id] {
			t.Errorf("case %s has no row", id)
		}
		delete(seen, id)
	}
	for id := range seen {
		t.Errorf("there is no case %s", id)
	}
}

// cases are the numbers of the cases; there are gaps.
var cases = []string{
	"1.1", "1.2", "1.3", "1.5", "1.7", "1.8", "1.9", "1.10", "1.12", "1.14", "1.16", "1.17", "1.18", "1.20",
	"2.1", "2.2", "2.4", "2.5", "2.7", "2.8", "2.10", "2.11", "2.13", "2.14", "2.15",
	"3.1", "3.2", "3.4", "3.5", "3.7", "3.10", "3.11", "3.12", "3.13", "3.16", "3.17",
	"4.1", "4.3", "4.5", "4.6", "4.8", "4.9", "4.10",
}

func TestUnknownFindsWhatIsGone(t *testing.T) {
	there := map[string][]string{"TestHere": {"internal/localcloud/pubsub"}}
	for text, want := range map[string]int{
		"`pubsub.TestHere`":              0,
		"`localcloud/pubsub.TestHere`/x": 0,
		"see `pubsub.TestHere/sub`":      0,
		"`sub.TestHere`":                 1,
		"`pubsub.TestGone` `a.TestGone`": 2,
		"TestGone without backticks":     0,
	} {
		if got := unknown([]byte(text), there); len(got) != want {
			t.Errorf("%s: %v, want %d problems", text, got, want)
		}
	}
}

package dataset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestFlags(t *testing.T) {
	parse := func(args ...string) (Options, error) {
		var o Options
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		o.Flags(f)
		err := f.Parse(args)
		if err == nil {
			err = o.Validate()
		}
		return o, err
	}
	defaults := Options{Format: FormatAuto, ID: IDAuto, IDField: "id", OnDuplicate: RefuseDuplicates, Rejects: "rejects.jsonl"}
	got, err := parse()
	if diff := cmp.Diff(defaults, got); diff != "" || err != nil {
		t.Errorf("defaults, error %v (-want +got):\n%s", err, diff)
	}
	got, err = parse("--format", "tsv", "--id", "hash", "--id-field=k", "--columns", "a,b", "--columns", "c", "--delimiter", `\t`,
		"--include", "*.a,b", "--include", "c/**", "--exclude", "d", "--inline-below", "64KiB", "--spill", "gs://b/p", "--on-duplicate", "skip", "--max-bad-rows", "-1", "--rejects", "r")
	want := Options{
		Format: FormatTSV, ID: IDHash, IDField: "k", Columns: []string{"a", "b", "c"}, Delimiter: "\t", Include: []string{"*.a,b", "c/**"}, Exclude: []string{"d"},
		InlineBelow: 64 << 10, Spill: "gs://b/p", OnDuplicate: SkipDuplicates, MaxBadRows: -1, Rejects: "r",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("all flags, error %v (-want +got):\n%s", err, diff)
	}
	for _, test := range []struct{ args, want string }{
		{"--format=xml", "must be one of auto, csv, tsv, jsonl, parquet, lines, objects"},
		{"--id=uuid", "must be one of auto, field, path, hash, row"},
		{"--on-duplicate=merge", "must be one of refuse, skip"},
		{"--inline-below=big", "must be a size such as 500, 64KiB or 1MB"},
		{"--inline-below=-1", "must be a size"},
		{"--spill=/tmp", `--spill: "/tmp": must begin with gs://`},
		{"--spill=gs://", "names no bucket"},
		{"--delimiter=ä", "must be one ASCII character"},
		{"--columns=a,a", `--columns: "a" is named twice`},
		{"--include=[", `pattern "[": syntax error`},
		{"--exclude=", `pattern "": is empty`},
	} {
		if _, err := parse(test.args); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.args, err, test.want)
		}
	}
	for text, want := range map[string]int64{"0": 0, "500": 500, "1.5KiB": 1536, "2MB": 2_000_000, "1GiB": 1 << 30, "7B": 7} {
		if got, err := parse("--inline-below", text); err != nil || got.InlineBelow != want {
			t.Errorf("--inline-below %s: %d, error %v, want %d", text, got.InlineBelow, err, want)
		}
	}
}

// TestShape differs when the items may, and only then.
func TestShape(t *testing.T) {
	plain := Options{}.Shape()
	for name, o := range map[string]Options{
		"format": {Format: FormatCSV}, "id": {ID: IDHash}, "field": {IDField: "k"}, "columns": {Columns: []string{"a"}}, "delimiter": {Delimiter: ";"},
		"include": {Include: []string{"a"}}, "exclude": {Exclude: []string{"a"}}, "inline": {InlineBelow: 1}, "spill": {Spill: "gs://b"}, "duplicates": {OnDuplicate: SkipDuplicates},
	} {
		if o.Shape() == plain {
			t.Errorf("%s does not count", name)
		}
	}
	same := Options{Format: FormatAuto, ID: IDAuto, IDField: "id", OnDuplicate: RefuseDuplicates, MaxBadRows: 7, Rejects: "r", Stdin: strings.NewReader("")}
	if same.Shape() != plain {
		t.Errorf("%s is not %s", same.Shape(), plain)
	}
}

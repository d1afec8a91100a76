package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/google/go-cmp/cmp"

	"github.com/spotbatch/spotbatch/internal/fetch"
	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
)

// cloud is a Cloud Storage of the test, which every client finds.
type cloud struct {
	tb     testing.TB
	client *storage.Client
}

func newCloud(t *testing.T, buckets ...string) cloud {
	t.Helper()
	server := localcloudtest.Start(t)
	t.Setenv("STORAGE_EMULATOR_HOST", "http://"+server.Addr(localcloud.GCS))
	client, err := storage.NewClient(t.Context(), localcloudtest.StorageOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	for _, name := range buckets {
		if err := client.Bucket(name).Create(t.Context(), localcloudtest.Project, nil); err != nil {
			t.Fatal(err)
		}
	}
	return cloud{t, client}
}

// put makes an object gs://bucket/name and returns its generation.
func (c cloud) put(address, content string, meta storage.ObjectAttrs) int64 {
	c.tb.Helper()
	bucket, name, err := splitAddress(address)
	if err != nil {
		c.tb.Fatal(err)
	}
	w := c.client.Bucket(bucket).Object(name).NewWriter(c.tb.Context())
	w.ContentType, w.ContentEncoding = meta.ContentType, meta.ContentEncoding
	if _, err := io.WriteString(w, content); err != nil {
		c.tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		c.tb.Fatal(err)
	}
	return w.Attrs().Generation
}

func (c cloud) names(bucket string) []string {
	c.tb.Helper()
	var names []string
	objects := c.client.Bucket(bucket).Objects(c.tb.Context(), nil)
	for {
		attrs, err := objects.Next()
		if err != nil {
			return names
		}
		names = append(names, attrs.Name)
	}
}

// load reads what a worker gets for the item.
func load(tb testing.TB, e Entry) string {
	tb.Helper()
	if e.URI == "" {
		return string(e.Data)
	}
	f := fetch.New(64 << 20)
	defer func() { _ = f.Close() }()
	data, err := f.Fetch(tb.Context(), e.URI)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// TestObjects points at objects, in the version that was listed, passes over
// folder markers, and carries small ones when asked to.
func TestObjects(t *testing.T) {
	c := newCloud(t, "data")
	a := c.put("gs://data/in/a.png", "old", storage.ObjectAttrs{})
	c.put("gs://data/in/", "", storage.ObjectAttrs{})
	c.put("gs://data/in/sub/", "", storage.ObjectAttrs{})
	c.put("gs://data/in/sub_$folder$", "", storage.ObjectAttrs{})
	empty := c.put("gs://data/in/sub/empty", "", storage.ObjectAttrs{ContentType: "text/x-none; charset=utf-8"})
	packed := c.put("gs://data/in/t.txt", gzipped(t, strings.Repeat("text ", 10)), storage.ObjectAttrs{ContentEncoding: "gzip"})
	hash := c.put("gs://data/in/x#1", "#", storage.ObjectAttrs{ContentType: "image/x"})
	c.put("gs://data/in/.hidden", "h", storage.ObjectAttrs{})
	c.put("gs://data/inside", "not below", storage.ObjectAttrs{})

	look := func(opts Options, source string) []string {
		t.Helper()
		d := mustOpen(t, opts, source)
		if _, err := check(t, d); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range collect(t, d.Items(t.Context())) {
			all = append(all, fmt.Sprintf("%s|%s|%s|%s|%s", e.ItemID, e.ContentType, e.URI, e.Data, load(t, e)))
		}
		return all
	}
	text := strings.Repeat("text ", 10)
	byReference := []string{
		fmt.Sprintf("a.png|image/png|gs://data/in/a.png#%d||old", a),
		fmt.Sprintf("sub/empty|text/x-none|gs://data/in/sub/empty#%d||", empty),
		fmt.Sprintf("t.txt|text/plain|gs://data/in/t.txt#%d||%s", packed, text),
		fmt.Sprintf("x#1|image/x|gs://data/in/x#1#%d||#", hash),
	}
	for _, source := range []string{"gs://data/in", "gs://data/in/"} {
		if diff := cmp.Diff(byReference, look(Options{}, source)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
	}
	inline := []string{"a.png|image/png||old|old", "sub/empty|text/x-none|||", "t.txt|text/plain||" + text + "|" + text, "x#1|image/x||#|#"}
	if diff := cmp.Diff(inline, look(Options{InlineBelow: 1 << 20}, "gs://data/in")); diff != "" {
		t.Errorf("inline (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(byReference[:1], look(Options{}, "gs://data/in/*.png")); diff != "" {
		t.Errorf("pattern (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{byReference[0], byReference[3]}, look(Options{Exclude: []string{"t.*", "sub/**"}}, "gs://data/in")); diff != "" {
		t.Errorf("exclude (-want +got):\n%s", diff)
	}
	one := []string{fmt.Sprintf("a.png|image/png|gs://data/in/a.png#%d||old", a)}
	if diff := cmp.Diff(one, look(Options{Format: FormatObjects}, "gs://data/in/a.png")); diff != "" {
		t.Errorf("one object (-want +got):\n%s", diff)
	}

	// What was listed is what is read, whatever comes after.
	d := mustOpen(t, Options{}, "gs://data/in")
	before, err := check(t, d)
	if err != nil {
		t.Fatal(err)
	}
	c.put("gs://data/in/a.png", "new", storage.ObjectAttrs{})
	after, err := check(t, mustOpen(t, Options{}, "gs://data/in"))
	if err != nil {
		t.Fatal(err)
	}
	if changed := before.Sources[0].Changed(after.Sources[0]); !strings.Contains(changed, "gs://data/in has other content than before") {
		t.Errorf("changed: %q", changed)
	}
}

// TestRowsInBuckets reads rows whatever way they were compressed on the way in,
// and goes on in the middle.
func TestRowsInBuckets(t *testing.T) {
	c := newCloud(t, "data")
	rows := "{\"id\":\"0\"}\n{\"id\":\"1\"}\n{\"id\":\"2\"}\n"
	pq := string(benchRows(t, 3)["rows.parquet"])
	objects := map[string]struct {
		content, encoding string
	}{
		"plain.jsonl": {rows, ""}, "suffix.jsonl.gz": {gzipped(t, rows), ""}, "encoded.jsonl": {gzipped(t, rows), "gzip"},
		"members.jsonl.gz": {gzipped(t, rows[:11], rows[11:]), ""}, "both.jsonl.gz": {gzipped(t, gzipped(t, rows)), "gzip"},
		"wrong.jsonl": {rows, "gzip"}, "z.jsonl.zst": {zstded(t, rows), ""}, "t.parquet": {pq, ""}, "t2.parquet": {gzipped(t, pq), "gzip"},
	}
	for name, o := range objects {
		t.Run(name, func(t *testing.T) {
			generation := c.put("gs://data/"+name, o.content, storage.ObjectAttrs{ContentEncoding: o.encoding})
			d := mustOpen(t, Options{}, "gs://data/"+name)
			if want := (Source{Name: "gs://data/" + name, Size: int64(len(o.content)), Generation: generation}); d.Sources()[0] != want {
				t.Errorf("identity %+v, want %+v", d.Sources()[0], want)
			}
			items := collect(t, d.Items(t.Context()))
			if len(items) != 3 || items[2].ItemID != "2" {
				t.Fatalf("items %v", text(items))
			}
			for i, e := range items {
				if diff := cmp.Diff(text(items[i+1:]), text(collect(t, d.ItemsAfter(t.Context(), e.Position)))); diff != "" {
					t.Errorf("after %s (-want +got):\n%s", e.Position, diff)
				}
			}
			// A new version is another source.
			c.put("gs://data/"+name, o.content, storage.ObjectAttrs{ContentEncoding: o.encoding})
			if changed := d.Sources()[0].Changed(mustOpen(t, Options{}, "gs://data/"+name).Sources()[0]); !strings.Contains(changed, "was generation") {
				t.Errorf("changed: %q", changed)
			}
		})
	}
	c.put("gs://data/cut.jsonl.gz", gzipped(t, rows)[:30], storage.ObjectAttrs{})
	d := mustOpen(t, Options{}, "gs://data/cut.jsonl.gz")
	if _, err := check(t, d); err == nil || !strings.Contains(err.Error(), "gs://data/cut.jsonl.gz: ") || !strings.Contains(err.Error(), "the file is cut") {
		t.Errorf("error %v", err)
	}
	glob := mustOpen(t, Options{}, "gs://data/*.jsonl")
	if items := collect(t, glob.Items(t.Context())); len(items) != 9 {
		t.Errorf("%d items of gs://data/*.jsonl, want 9", len(items))
	}
}

// TestSpill keeps what no message can carry in a bucket, once.
func TestSpill(t *testing.T) {
	c := newCloud(t, "data", "spill")
	big := `{"id":"big","x":"` + strings.Repeat("x", 15_000_000) + `"}`
	picture := strings.Repeat("p", 10_000_001)
	dir := write(t, map[string]string{"a.jsonl": "{\"id\":\"a\"}\n" + big + "\n{\"id\":\"z\"}\n", "in/big.png": picture, "in/small.png": "s"})
	opts := Options{Spill: "gs://spill/run 1/"}
	d := mustOpen(t, opts, filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "in"))
	report, err := check(t, d)
	if err != nil || report.Items != 5 {
		t.Fatalf("%+v, error %v", report.Counts, err)
	}
	if names := c.names("spill"); len(names) > 0 {
		t.Errorf("a check has put %q", names)
	}
	var uris [2][]string
	for pass := range uris {
		for _, e := range collect(t, d.Items(t.Context())) {
			switch e.ItemID {
			case "big":
				if load(t, e) != big || e.ContentType != "application/json" || e.Data != nil {
					t.Errorf("pass %d: %s has %d bytes and %s", pass, e.URI, len(e.Data), e.ContentType)
				}
			case "big.png":
				if load(t, e) != picture || e.ContentType != "image/png" || e.Data != nil {
					t.Errorf("pass %d: %s has %d bytes and %s", pass, e.URI, len(e.Data), e.ContentType)
				}
			default:
				if e.URI != "" || e.Data == nil {
					t.Errorf("%s has URI %q", e.ItemID, e.URI)
				}
				continue
			}
			uris[pass] = append(uris[pass], e.URI)
		}
	}
	if diff := cmp.Diff(uris[0], uris[1]); diff != "" || len(uris[0]) != 2 || !strings.HasPrefix(uris[0][0], "gs://spill/run 1/") {
		t.Errorf("objects %q, then %q", uris[0], uris[1])
	}
	if names := c.names("spill"); len(names) != 2 {
		t.Errorf("objects %q", names)
	}

	opts.Spill = "gs://nowhere"
	for e, err := range mustOpen(t, opts, filepath.Join(dir, "a.jsonl")).Items(t.Context()) {
		if err != nil && !strings.Contains(err.Error(), "a.jsonl:2: put a payload of 15000019 bytes into gs://nowhere (--spill)") {
			t.Errorf("%s: error %v", e.Position, err)
		}
	}
}

// TestSpillOfAFileThatFails leaves no object behind.
func TestSpillOfAFileThatFails(t *testing.T) {
	c := newCloud(t, "spill")
	s := &spiller{bucket: &bucketClient{}, address: "gs://spill"}
	t.Cleanup(func() { _ = s.bucket.close() })
	broken := errors.New("disk broken")
	_, err := s.put(t.Context(), "x", "text/plain", 40<<20, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 6<<20)); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if names := c.names("spill"); len(names) > 0 {
		t.Errorf("left %q", names)
	}
}

func TestBucketsThatAreNotThere(t *testing.T) {
	c := newCloud(t, "data")
	c.put("gs://data/a/b.csv", "id\n1\n", storage.ObjectAttrs{})
	for source, want := range map[string]string{
		"gs://":              "gs:// names no bucket",
		"gs://*/a":           "gs://*/a names no bucket",
		"gs://nowhere/a/":    "gs://nowhere/a/ does not exist, or the account in use may not see it",
		"gs://data/no.csv":   "gs://data/no.csv does not exist",
		"gs://data/no*.csv":  "gs://data/no*.csv: no file matches",
		"gs://data/nothing/": "gs://data/nothing/: dataset has no items",
	} {
		err := func() error {
			d, err := Open(t.Context(), []string{source}, Options{})
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			_, err = d.Check(context.WithoutCancel(t.Context()), func(Counts) {})
			return err
		}()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", source, err, want)
		}
	}
}

// TestTheDoubleEnforcesPreconditions: what the tests of spilled payloads rely
// on, for small uploads and for those in several requests.
func TestTheDoubleEnforcesPreconditions(t *testing.T) {
	c := newCloud(t, "spill")
	for name, size := range map[string]int{"small": 10, "large": 17 << 20} {
		object := c.client.Bucket("spill").Object(name)
		write := func(w io.Writer) error { _, err := w.Write(make([]byte, size)); return err }
		first, err := upload(t.Context(), object, "text/plain", write)
		if err != nil || first.Size != int64(size) {
			t.Fatalf("%s: %+v, error %v", name, first, err)
		}
		// The second one is refused with 412, and finds the first.
		second, err := upload(t.Context(), object, "text/plain", func(w io.Writer) error {
			_, err := w.Write([]byte("another"))
			return err
		})
		if err != nil || second.Generation != first.Generation || second.Size != first.Size {
			t.Errorf("%s: %+v, error %v, want generation %d", name, second, err, first.Generation)
		}
	}
}

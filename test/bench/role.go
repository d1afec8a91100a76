package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spotbatch/spotbatch/internal/config"
)

// role is what this program does when it is started again by itself.
type role func(ctx context.Context, j *job) error

// The names of roles are the hidden first arguments.
const (
	roleWorker   = "worker"
	roleBare     = "bare"
	roleTextbook = "textbook"
	// roleBareStore is roleBare with reads and writes.
	roleBareStore = "bare-store"
)

var roles = map[string]role{
	roleWorker: serveWorker, roleBare: serveBare, roleBareStore: serveBareStore, roleTextbook: serveTextbook,
}

// job is what a role gets: the product's configuration from the environment,
// and what only a benchmark knows from flags.
type job struct {
	cfg config.Config
	// model is how long the stub model takes for a batch.
	model time.Duration
	// noStore puts a store that keeps nothing in the place of Spanner.
	noStore bool
	stdin   io.Reader
	stderr  io.Writer
	*reporter
}

// isReady says so and waits until work may begin, which is when stdin ends.
func (j *job) isReady() {
	j.tell(event{Kind: ready})
	_, _ = io.Copy(io.Discard, j.stdin) // any end will do
}

// args turn a job into the arguments of its role.
type jobArgs struct {
	model   time.Duration
	noStore bool
	batches bool
	marks   []int
	profile string
}

func (a jobArgs) list() []string {
	marks := make([]string, len(a.marks))
	for i, m := range a.marks {
		marks[i] = strconv.Itoa(m)
	}
	return []string{
		"-model", a.model.String(), "-marks", strings.Join(marks, ","), "-profile", a.profile,
		fmt.Sprintf("-no-store=%t", a.noStore), fmt.Sprintf("-batches=%t", a.batches),
	}
}

// runRole is the main function of a process with a role.
func runRole(ctx context.Context, serve role, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("role", flag.ContinueOnError)
	flags.SetOutput(stderr)
	j := &job{stdin: os.Stdin, stderr: stderr, reporter: &reporter{out: json.NewEncoder(stdout)}}
	flags.DurationVar(&j.model, "model", 0, "`time` that the model takes for a batch")
	flags.BoolVar(&j.noStore, "no-store", false, "keep results nowhere")
	flags.BoolVar(&j.batches, "batches", false, "report each batch")
	marks := flags.String("marks", "", "report what was used at these `numbers` of items")
	profile := flags.String("profile", "", "`file` for a CPU profile")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for text := range strings.SplitSeq(*marks, ",") {
		if mark, err := strconv.ParseInt(text, 10, 64); err == nil {
			j.marks = append(j.marks, mark)
		}
	}
	j.nextMark()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, f.Close())
		}()
	}
	if j.cfg, _, err = config.Load("", os.Environ()); err != nil {
		return err
	}
	return serve(ctx, j)
}

// kind says what an event is about.
type kind string

const (
	ready kind = "ready" // the model is loaded
	begun kind = "begun" // a batch enters the model
	ended kind = "ended" // a batch leaves it
	used  kind = "used"  // a mark is reached
	gone  kind = "gone"  // the process has ended, as the one that started it sees
)

// event is what a role tells the process that started it: one line of JSON on
// stdout.
type event struct {
	Kind kind `json:"kind"`
	// At is the time in nanoseconds since 1970.
	At int64 `json:"at"`
	// Items is the size of the batch, or with used the items so far.
	Items int64 `json:"items,omitempty"`
	// CPU is what the process has used so far, Resident its memory now.
	CPU      time.Duration `json:"cpu,omitempty"`
	Resident int64         `json:"resident,omitempty"`
}

// reporter tells events. Its methods are safe for concurrent use.
type reporter struct {
	// batches says that each batch is reported.
	batches bool
	items   atomic.Int64
	// next is the mark that comes next, -1 when none is left.
	next atomic.Int64

	mu    sync.Mutex
	out   *json.Encoder
	marks []int64 // those after next
}

func (r *reporter) tell(e event) {
	e.At = time.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(e) // whoever does not read it has gone
}

// begin notes that so many items enter the model, or are received where there
// is none.
func (r *reporter) begin(items int) {
	if r.batches {
		r.tell(event{Kind: begun, Items: int64(items)})
	}
	now := r.items.Add(int64(items))
	if mark := r.next.Load(); mark >= 0 && now >= mark && now-int64(items) < mark {
		r.tell(event{Kind: used, Items: now, CPU: cpuTime(), Resident: resident()})
		r.nextMark()
	}
}

// end notes that they leave it.
func (r *reporter) end(items int) {
	if r.batches {
		r.tell(event{Kind: ended, Items: int64(items)})
	}
}

func (r *reporter) nextMark() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.marks) == 0 {
		r.next.Store(-1)
		return
	}
	r.next.Store(r.marks[0])
	r.marks = r.marks[1:]
}

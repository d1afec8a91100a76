// Command runner is the model of the chaos tests: it speaks the command
// protocol, and each item says how the model fares with it. It imports no
// package of the project.
//
//	{"id":"i7","n":7}                    {"square":49}
//	{"id":"i7","n":7,"do":"slow","ms":n} the same, n milliseconds later
//	{"id":"i7","do":"flaky"}             the batch fails as transient, the first time in each process
//	{"id":"i7","do":"hang"}              the batch takes a minute, the first time of all
//	{"id":"i7","n":7,"do":"moody"}       an error of the item in every other process, else the same as without
//	{"id":"i7","do":"bad"}               an error of the item
//	{"id":"i7","do":"nan"}               NaN, which JSON cannot hold
//	{"id":"i7","do":"spoil"}             the batch fails, and no item is named
//	{"id":"i7","do":"lie"}               an answer for another item
//	{"id":"i7","do":"poison"}            the process dies
//	{"id":"i7","n":7,"size":n}           a batch fails as out of memory when its sizes exceed -memory
//
// It writes a line for each item to the file -log before it works on a batch, and
// one for each healthy result once its answer is written.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

type input struct {
	RunID  string `json:"run_id"`
	ItemID string `json:"item_id"`
	Data   struct {
		N    int64  `json:"n"`
		Do   string `json:"do"`
		MS   int    `json:"ms"`
		Size int    `json:"size"`
	} `json:"data"`
}

type request struct {
	Batch string  `json:"batch"`
	Items []input `json:"items"`
}

type failure struct {
	Class   string `json:"class"`
	Message string `json:"message"`
}

type result struct {
	ItemID string          `json:"item_id"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  *failure        `json:"error,omitempty"`
}

type reply struct {
	Batch   string   `json:"batch"`
	Results []result `json:"results,omitempty"`
	Error   *failure `json:"error,omitempty"`
}

func main() {
	m := model{seen: map[string]bool{}}
	flag.DurationVar(&m.sleep, "sleep", 0, "time that a batch takes")
	flag.IntVar(&m.memory, "memory", 0, "sum of the sizes that a batch may have; 0: any")
	log := flag.String("log", "", "file to which a line is appended for each item that the model begins on, or has answered")
	flag.Parse()
	err := m.open(*log)
	if err == nil {
		err = m.serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

type model struct {
	sleep  time.Duration
	memory int
	log    *os.File
	seen   map[string]bool // flaky items
}

func (m *model) open(path string) (err error) {
	m.log, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return err
}

// errPoisoned ends the process.
var errPoisoned = errors.New("segmentation fault (not really)")

func (m *model) serve(in io.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, `{"ready":true,"protocol":1,"model_version":"chaos-1"}`+"\n"); err != nil {
		return err
	}
	decoder := json.NewDecoder(bufio.NewReader(in))
	for {
		var req request
		if err := decoder.Decode(&req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := m.note("start", req.Items, nil); err != nil {
			return err
		}
		r, err := m.answer(req)
		if err != nil {
			return err
		}
		line, err := encode(r)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
		if err := m.note("end", req.Items, &r); err != nil {
			return err
		}
	}
}

func (m *model) answer(req request) (reply, error) {
	time.Sleep(m.sleep)
	r := reply{Batch: req.Batch}
	size := 0
	for _, it := range req.Items {
		size += it.Data.Size
		switch it.Data.Do {
		case "poison":
			return r, errPoisoned
		case "slow":
			time.Sleep(time.Duration(it.Data.MS) * time.Millisecond)
		case "hang":
			if m.firstOfAll(it.ItemID) {
				time.Sleep(time.Minute)
			}
		case "spoil":
			r.Error = &failure{"batch_error", "something in this batch is wrong"}
		case "flaky":
			if !m.seen[it.ItemID] {
				m.seen[it.ItemID] = true
				r.Error = &failure{"transient", "not now"}
			}
		}
		r.Results = append(r.Results, answerOne(it))
	}
	if m.memory > 0 && size > m.memory {
		r.Error = &failure{"out_of_memory", fmt.Sprintf("tried to allocate %d of %d", size, m.memory)}
	}
	if r.Error != nil {
		r.Results = nil
	}
	return r, nil
}

// firstOfAll reports whether no process has asked for that name before.
func (m *model) firstOfAll(name string) bool {
	marker, err := os.OpenFile(m.log.Name()+"."+name, os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false
	}
	_ = marker.Close() // nothing was written
	return true
}

// note tells the auditor, all in one write, so that no line is torn apart: of the
// items that a batch starts with, or of those that r has healthy results for.
func (m *model) note(what string, items []input, r *reply) error {
	var lines []byte
	for i, it := range items {
		if r != nil && !r.healthy(i, it) {
			continue
		}
		lines = fmt.Appendf(lines, "%d %s %s %d %s %s\n", time.Now().UnixNano(), what, os.Getenv("POD_NAME"), os.Getpid(), it.RunID, it.ItemID)
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := m.log.Write(lines)
	return err
}

// healthy reports whether the answer is of use, and has an output for the item.
func (r *reply) healthy(i int, it input) bool {
	for _, result := range r.Results {
		if result.ItemID == liar {
			return false
		}
	}
	return r.Error == nil && r.Results[i].Error == nil && it.Data.Do != "nan"
}

// liar is an item that nobody asked for.
const liar = "somebody else"

func answerOne(it input) result {
	r := result{ItemID: it.ItemID}
	switch it.Data.Do {
	case "bad":
		r.Error = &failure{"item_error", "this item is bad"}
	case "nan":
		r.Output = json.RawMessage(`{"square":"NaN"}`) // encode takes the quotes away
	case "lie":
		r.ItemID = liar
		r.Output = json.RawMessage(`{}`)
	case "moody":
		if os.Getpid()%2 == 0 {
			r.Error = &failure{"item_error", "not in this process"}
			break
		}
		fallthrough
	default:
		r.Output = fmt.Appendf(nil, `{"square":%d}`, it.Data.N*it.Data.N)
	}
	return r
}

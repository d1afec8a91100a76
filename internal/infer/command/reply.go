package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/spotbatch/spotbatch/internal/worker"
)

// reply is a child's answer to a batch.
type reply struct {
	Batch   *string     `json:"batch"`
	Results *[]result   `json:"results"`
	Error   *replyError `json:"error"`
}

type result struct {
	ItemID *string         `json:"item_id"`
	Output json.RawMessage `json:"output"`
	Error  *replyError     `json:"error"`
}

type replyError struct {
	Class   string `json:"class"`
	Message string `json:"message"`
}

// batchClass and itemClass say which classes a child may give; every other one
// is about something that a child cannot know.
func batchClass(class worker.Class) bool {
	switch class {
	case worker.ClassOutOfMemory, worker.ClassTransient, worker.ClassDevice, worker.ClassBatchError:
		return true
	default:
		return false
	}
}

func itemClass(class worker.Class) bool {
	switch class {
	case worker.ClassItemError, worker.ClassInvalidInput, worker.ClassInvalidOutput:
		return true
	default:
		return false
	}
}

// fail makes an error of what the child said. A class that it may not give
// becomes fallback and stays visible in the text.
func (e *replyError) fail(allowed func(worker.Class) bool, fallback worker.Class) error {
	class, text := worker.Class(e.Class), message(e.Message)
	if text == "" {
		text = "the runner gave no message"
	}
	if !allowed(class) {
		if class != "" {
			text = message(e.Class) + ": " + text
		}
		class = fallback
	}
	return worker.Failf(class, "%s", text)
}

// parseReply reads the answer to the batch. inStep says that the line was an
// answer to it, good or bad, so that the child can take the next batch.
//
// Outputs keep the child's bytes. Which items they are for is not judged here.
//
// Python prints NaN and Infinity where JSON has no such numbers, and the line
// as a whole is then no JSON. Such tokens are exchanged for a marker first, so
// that only the outputs that contain one are invalid_output.
func parseReply(line []byte, batch string) (outs []worker.Output, inStep bool, err error) {
	var marker []byte
	if !json.Valid(line) {
		line, marker = markNonNumbers(line)
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, false, worker.Failf(worker.ClassProtocolError, "answer is not the protocol: %s: %w", excerpt(line), err)
	}
	switch {
	case r.Batch == nil:
		return nil, false, worker.Failf(worker.ClassProtocolError, "answer names no batch: %s", excerpt(line))
	case *r.Batch != batch:
		return nil, false, worker.Failf(worker.ClassProtocolError, "answer is for batch %s; %q was asked", excerpt([]byte(*r.Batch)), batch)
	case r.Error != nil:
		return nil, true, r.Error.fail(batchClass, worker.ClassBatchError)
	case r.Results == nil:
		return nil, true, worker.Failf(worker.ClassProtocolError, "answer has neither results nor an error: %s", excerpt(line))
	}
	outs = make([]worker.Output, 0, len(*r.Results))
	for i, res := range *r.Results {
		if res.ItemID == nil {
			return nil, true, worker.Failf(worker.ClassProtocolError, "result %d has no item_id", i)
		}
		outs = append(outs, res.output(marker))
	}
	return outs, true, nil
}

func (res result) output(marker []byte) worker.Output {
	out := worker.Output{ItemID: *res.ItemID}
	switch {
	case res.Error != nil:
		out.Err = res.Error.fail(itemClass, worker.ClassItemError)
	case res.Output == nil:
		out.Err = worker.Failf(worker.ClassInvalidOutput, "result has neither output nor error")
	case marker != nil && bytes.Contains(res.Output, marker):
		out.Err = worker.Failf(worker.ClassInvalidOutput, "output has NaN or Infinity, which JSON cannot hold")
	case !utf8.Valid(res.Output):
		out.Err = worker.Failf(worker.ClassInvalidOutput, "output is not valid UTF-8")
	default:
		out.Value = res.Output
	}
	return out
}

// markNonNumbers returns a copy of line in which a string that occurs nowhere
// in line stands for each NaN and Infinity outside strings, and that string.
func markNonNumbers(line []byte) (marked, marker []byte) {
	for n := 0; ; n++ {
		if marker = fmt.Appendf(nil, `"no number %d"`, n); !bytes.Contains(line, marker) {
			break
		}
	}
	marked = make([]byte, 0, len(line)+len(line)/4)
	inString := false
	for i := 0; i < len(line); {
		c := line[i]
		switch {
		case inString && c == '\\' && i+1 < len(line):
			marked = append(marked, c, line[i+1])
			i += 2
			continue
		case c == '"':
			inString = !inString
		case !inString && (c == '-' || c == 'I' || c == 'N'):
			if n := tokenAt(line[i:]); n > 0 {
				marked = append(marked, marker...)
				i += n
				continue
			}
		}
		marked = append(marked, c)
		i++
	}
	return marked, marker
}

// tokenAt returns the length of the NaN or Infinity that text begins with, or 0.
func tokenAt(text []byte) int {
	for _, token := range []string{"-Infinity", "Infinity", "-NaN", "NaN"} {
		if bytes.HasPrefix(text, []byte(token)) {
			return len(token)
		}
	}
	return 0
}

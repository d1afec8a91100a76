package onnx

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/spotbatch/spotbatch/internal/config"
)

// newEncoder returns the encoder that cfg asks for.
func newEncoder(cfg config.Output, labels []string, out port) (encoder, error) {
	if !slices.Contains(numberElems(), out.elem) {
		return nil, fmt.Errorf("output %s cannot be turned into numbers; only elements of %v", out, numberElems())
	}
	name, err := json.Marshal(out.name)
	if err != nil {
		return nil, fmt.Errorf("encode name of output: %w", err)
	}
	var e encoder
	switch cfg.Codec {
	case codecTopK:
		e = &topKEncoder{name: out.name, k: cfg.K, softmax: cfg.Softmax, labels: labels}
	case codecRaw:
		e = &rawEncoder{port: out.name, name: string(name)}
	default:
		return nil, fmt.Errorf("model.output.codec: %q: must be one of topk, raw", cfg.Codec)
	}
	if len(out.dims) == 0 {
		return e, nil // the model does not say; the warm-up will
	}
	return e, e.check(out.dims[1:])
}

// readLabels returns the labels that cfg names; nil when it names none.
func readLabels(cfg config.Output) ([]string, error) {
	if len(cfg.Labels) > 0 || cfg.LabelsFile == "" || cfg.Codec != codecTopK {
		return cfg.Labels, nil
	}
	data, err := os.ReadFile(cfg.LabelsFile)
	if err != nil {
		return nil, fmt.Errorf("model.output.labels_file: %w", err)
	}
	var labels []string
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	for lines.Scan() {
		if lines.Text() == "" {
			return nil, fmt.Errorf("model.output.labels_file: line %d of %s is empty", len(labels)+1, cfg.LabelsFile)
		}
		labels = append(labels, lines.Text())
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("model.output.labels_file: %s: %w", cfg.LabelsFile, err)
	}
	if len(labels) == 0 {
		return nil, fmt.Errorf("model.output.labels_file: %s has no labels", cfg.LabelsFile)
	}
	return labels, nil
}

// rawEncoder writes all numbers.
type rawEncoder struct {
	port string
	name string // as JSON text
}

func (e *rawEncoder) check([]int64) error { return nil }

func (e *rawEncoder) encode(values numbers, from int, dims []int64) ([]byte, error) {
	b := append([]byte("{"), e.name...)
	b = append(b, ':')
	b, _, err := e.appendArray(b, values, from, dims)
	return append(b, '}'), err
}

func (e *rawEncoder) appendArray(b []byte, values numbers, at int, dims []int64) ([]byte, int, error) {
	if len(dims) == 0 {
		if v := values.float(at); math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, 0, fmt.Errorf("output %q has the value %v, which JSON cannot hold", e.port, v)
		}
		return values.appendTo(b, at), at + 1, nil
	}
	b = append(b, '[')
	var err error
	for i := range dims[0] {
		if i > 0 {
			b = append(b, ',')
		}
		if b, at, err = e.appendArray(b, values, at, dims[1:]); err != nil {
			return nil, 0, err
		}
	}
	return append(b, ']'), at, nil
}

// topKEncoder writes the classes of the highest scores.
type topKEncoder struct {
	name    string
	k       int
	softmax bool
	labels  []string
}

func (e *topKEncoder) check(dims []int64) error {
	classes, long := int64(1), 0
	for _, d := range dims {
		if d != 1 {
			classes, long = d, long+1
		}
	}
	if len(dims) == 0 || long > 1 || classes == 0 {
		return fmt.Errorf("model.output.codec: topk needs a vector of scores for each item, but those of output %q have the dimensions %v", e.name, dims)
	}
	if n := int64(len(e.labels)); n > 0 && classes != dynamic && n != classes {
		return fmt.Errorf("model.output.labels: there are %d labels, but output %q has %d classes", n, e.name, classes)
	}
	return nil
}

type class struct {
	index int
	score float64
}

// ranked is a class in the document.
type ranked struct {
	Label string      `json:"label"`
	Score json.Number `json:"score"`
}

func (e *topKEncoder) encode(values numbers, from int, dims []int64) ([]byte, error) {
	width := 1
	for _, d := range dims {
		width *= int(d)
	}
	classes := make([]class, width)
	for i := range classes {
		classes[i] = class{index: i, score: values.float(from + i)}
		if math.IsNaN(classes[i].score) {
			return nil, fmt.Errorf("output %q has NaN for class %s", e.name, e.label(i))
		}
	}
	if e.softmax {
		softmax(classes)
	}
	// Equal scores keep the order of the classes, so that the answer is one.
	slices.SortStableFunc(classes, func(a, b class) int { return cmp.Compare(b.score, a.score) })
	top := make([]ranked, min(e.k, width))
	for i, c := range classes[:len(top)] {
		if math.IsNaN(c.score) || math.IsInf(c.score, 0) {
			return nil, fmt.Errorf("output %q has the score %v for class %s, which JSON cannot hold", e.name, c.score, e.label(c.index))
		}
		text := values.appendTo(nil, from+c.index)
		if e.softmax {
			text = appendFloat(nil, c.score, 32)
		}
		top[i] = ranked{Label: e.label(c.index), Score: json.Number(text)}
	}
	return json.Marshal(struct {
		ranked
		Top []ranked `json:"top"`
	}{top[0], top})
}

func (e *topKEncoder) label(i int) string {
	if i < len(e.labels) {
		return e.labels[i]
	}
	return strconv.Itoa(i)
}

// softmax turns scores into probabilities. The largest score is taken off first,
// so that no exponential overflows.
func softmax(classes []class) {
	top := math.Inf(-1)
	for _, c := range classes {
		top = max(top, c.score)
	}
	sum := 0.0
	for i := range classes {
		classes[i].score = math.Exp(classes[i].score - top)
		sum += classes[i].score
	}
	for i := range classes {
		classes[i].score /= sum
	}
}

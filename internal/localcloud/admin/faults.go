package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
)

// Fault is a fault.Rule in JSON. ID and Struck are the server's.
type Fault struct {
	ID          int     `json:"id,omitempty"`
	Service     string  `json:"service,omitempty"`
	Method      string  `json:"method,omitempty"`
	When        string  `json:"when,omitempty"` // before (the default) or after
	Code        string  `json:"code,omitempty"` // like UNAVAILABLE
	Message     string  `json:"message,omitempty"`
	Delay       string  `json:"delay,omitempty"` // like 1.5s
	BlackHole   bool    `json:"black_hole,omitempty"`
	Close       bool    `json:"close,omitempty"`
	Count       int     `json:"count,omitempty"`       // calls that are left; 0: no end
	Probability float64 `json:"probability,omitempty"` // 0: every call
	Seed        uint64  `json:"seed,omitempty"`
	Struck      int     `json:"struck"` // calls so far
}

// Methods are the methods by service that a fault can name.
type Methods map[string][]string

func (s *Server) listFaults() []Fault {
	list := []Fault{}
	for _, active := range s.faults.Active() {
		f := describe(active.Rule)
		f.ID, f.Struck = active.ID, active.Struck
		list = append(list, f)
	}
	return list
}

func describe(r fault.Rule) Fault {
	f := Fault{
		Service: r.Service, Method: r.Method, When: "before", Message: r.Message, BlackHole: r.BlackHole, Close: r.Close,
		Count: r.Count, Probability: r.Probability, Seed: r.Seed,
	}
	if r.When == fault.After {
		f.When = "after"
	}
	if r.Code != codes.OK {
		f.Code = code.Code(r.Code).String()
	}
	if r.Delay > 0 {
		f.Delay = r.Delay.String()
	}
	return f
}

// parseRule reads a Fault as a client writes it.
func (m Methods) parseRule(body []byte) (fault.Rule, error) {
	f, err := decodeFault(body)
	if err != nil {
		return fault.Rule{}, err
	}
	rule := fault.Rule{
		Method: f.Method, Message: f.Message, BlackHole: f.BlackHole, Close: f.Close, Count: f.Count, Probability: f.Probability, Seed: f.Seed,
	}
	if rule.Service, err = m.resolve(f.Service, f.Method); err != nil {
		return fault.Rule{}, err
	}
	switch f.When {
	case "", "before":
	case "after":
		rule.When = fault.After
	default:
		return fault.Rule{}, fmt.Errorf("when is %s: it must be before or after", quote(f.When))
	}
	if f.Code != "" {
		number, ok := code.Code_value[f.Code]
		if !ok || number == 0 {
			return fault.Rule{}, fmt.Errorf("code is %s: it must be one of %s", quote(f.Code), strings.Join(codeNames(), ", "))
		}
		rule.Code = codes.Code(number)
	}
	if f.Delay != "" {
		if rule.Delay, err = time.ParseDuration(f.Delay); err != nil {
			return fault.Rule{}, fmt.Errorf("delay is %s: it must be a duration with its unit, like 1.5s or 200ms", quote(f.Delay))
		}
	}
	return rule, rule.Validate()
}

const faultFields = "service, method, when, code, message, delay, black_hole, close, count, probability and seed"

// decodeFault is strict: a misspelt field would make another fault than was meant.
func decodeFault(body []byte) (Fault, error) {
	var sent struct {
		Fault
		ID          *struct{} `json:"id"` // the server's own: the field's type lets nothing through but null
		Struck      *struct{} `json:"struck"`
		Probability *float64  `json:"probability"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&sent)
	if err == nil {
		if _, end := decoder.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("there is something behind the object")
		}
	}
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mismatch.Field != "" {
		return Fault{}, fmt.Errorf("%s cannot be a JSON %s", mismatch.Field, mismatch.Value)
	}
	if err != nil && strings.HasPrefix(err.Error(), "json: unknown field ") {
		return Fault{}, fmt.Errorf("%s; the fields are %s", strings.TrimPrefix(err.Error(), "json: "), faultFields)
	}
	if err != nil {
		return Fault{}, fmt.Errorf("the body must be a JSON object that describes a fault: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if sent.Probability != nil {
		if *sent.Probability <= 0 {
			return Fault{}, errors.New("probability must be greater than 0; leave it out to strike every call")
		}
		sent.Fault.Probability = *sent.Probability
	}
	return sent.Fault, nil
}

// resolve returns the full name of a service, which may be given by its last part, and checks that it has the
// method. A fault that cannot strike is a mistake.
func (m Methods) resolve(service, method string) (string, error) {
	names := slices.Sorted(maps.Keys(m))
	full := ""
	for _, name := range names {
		if service == name || service == name[strings.LastIndex(name, ".")+1:] {
			full = name
		}
	}
	if service != "" && full == "" {
		return "", fmt.Errorf("service is %s: it must be one of %s", quote(service), strings.Join(names, ", "))
	}
	if method == "" {
		return full, nil
	}
	known := []string{}
	for _, name := range names {
		if full == "" || name == full {
			known = append(known, m[name]...)
		}
	}
	if slices.Contains(known, method) {
		return full, nil
	}
	if full == "" {
		return "", fmt.Errorf("method is %s: no service has it; give the service to learn its methods", quote(method))
	}
	slices.Sort(known)
	return "", fmt.Errorf("method is %s: %s has %s", quote(method), full, strings.Join(known, ", "))
}

func codeNames() []string {
	var names []string
	for number := range int32(len(code.Code_name)) {
		if name, ok := code.Code_name[number]; ok && number != 0 {
			names = append(names, name)
		}
	}
	return names
}

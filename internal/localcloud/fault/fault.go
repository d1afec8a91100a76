// Package fault breaks RPCs on demand: an error code, a delay, a reply that is lost after the effect took
// place, a closed stream, or silence. Rules are added from Go and act through gRPC server interceptors.
package fault

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// When says on which side of the effect a fault strikes.
type When int

const (
	// Before keeps the call from having any effect. On a stream it strikes when the stream opens.
	Before When = iota
	// After lets the call do its work and then takes the answer away. On a stream it strikes at the first
	// message that the server sends.
	After
)

// Rule is one fault. The zero value of each field is its mildest meaning; a Rule must have at least one of
// Code, Delay and BlackHole.
type Rule struct {
	// Service is the full name of the gRPC service, like "google.spanner.v1.Spanner"; empty: any.
	Service string
	// Method is the method's name, like "Commit"; empty: any.
	Method string
	// When is the side of the effect.
	When When
	// Code is what the caller gets instead of an answer; OK: the answer itself (after Delay).
	Code codes.Code
	// Message goes with Code; empty: one that names the method.
	Message string
	// Delay is waited before anything else happens; the caller's deadline ends it.
	Delay time.Duration
	// BlackHole never answers: the call hangs until the caller gives up or the server stops.
	BlackHole bool
	// Count is how many calls the rule strikes before it is spent; 0: no end.
	Count int
	// Probability is the share of matching calls that are struck, 0 to 1; 0 means 1, every call.
	Probability float64
	// Seed makes the choice of calls by Probability repeatable.
	Seed uint64
}

func (r Rule) matches(service, method string) bool {
	return (r.Service == "" || r.Service == service) && (r.Method == "" || r.Method == method)
}

// armed is a rule with what is left of it.
type armed struct {
	Rule
	id   int
	left int // negative: no end
	rng  *rand.Rand
}

// Faults is a set of rules. Make one with New. It is safe for concurrent use.
type Faults struct {
	mu    sync.Mutex
	next  int
	rules []*armed
}

// New returns a set without rules: nothing breaks.
func New() *Faults { return &Faults{} }

// Add adds a rule behind those that are there and returns its ID for Remove. The first rule that strikes a
// call is the only one to do so.
func (f *Faults) Add(r Rule) (id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	left := r.Count
	if left == 0 {
		left = -1
	}
	f.rules = append(f.rules, &armed{Rule: r, id: f.next, left: left, rng: rand.New(rand.NewPCG(r.Seed, r.Seed))})
	return f.next
}

// Remove takes a rule away; an ID that is not there is fine. Calls that hang in it go on to hang.
func (f *Faults) Remove(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, rule := range f.rules {
		if rule.id == id {
			f.rules = append(f.rules[:i:i], f.rules[i+1:]...)
			return
		}
	}
}

// Clear takes all rules away.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Rules returns the rules that can still strike, with Count as what is left of it.
func (f *Faults) Rules() []Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	rules := make([]Rule, 0, len(f.rules))
	for _, rule := range f.rules {
		current := rule.Rule
		current.Count = max(rule.left, 0)
		rules = append(rules, current)
	}
	return rules
}

// strike picks the rule for a call, if any, and uses it up.
func (f *Faults) strike(fullMethod string) (Rule, bool) {
	service, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, rule := range f.rules {
		if !rule.matches(service, method) {
			continue
		}
		if rule.Probability > 0 && rule.rng.Float64() >= rule.Probability {
			continue
		}
		if rule.left > 0 {
			if rule.left--; rule.left == 0 {
				f.rules = append(f.rules[:i:i], f.rules[i+1:]...)
			}
		}
		return rule.Rule, true
	}
	return Rule{}, false
}

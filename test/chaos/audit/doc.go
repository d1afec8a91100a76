// Package audit checks the guarantees G1 to G8 against what the servers saw of
// a run: every step of every message, every commit, every start of the model,
// and the signals and faults that the run was disturbed by. It takes nothing on
// trust that a worker says of itself.
//
// The functions are pure: events and facts in, violations out. What a check
// excuses stands in a comment beside it that begins with "Excused:".
package audit

package main

import (
	"slices"
	"time"
)

// agenda is what is to be done, by time.
type agenda []appointment

type appointment struct {
	at time.Time
	do func() error
}

func (a *agenda) add(at time.Time, do func() error) {
	*a = append(*a, appointment{at, do})
	slices.SortStableFunc(*a, func(x, y appointment) int { return x.at.Compare(y.at) })
}

// next returns how long it is to the next appointment, at most most.
func (a agenda) next(most time.Duration) time.Duration {
	if len(a) == 0 {
		return most
	}
	return min(most, max(0, time.Until(a[0].at)))
}

// run keeps the appointments that are due.
func (a *agenda) run() error {
	for len(*a) > 0 && !(*a)[0].at.After(time.Now()) {
		do := (*a)[0].do
		*a = (*a)[1:]
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

package query

import (
	"math"
	"strings"
	"time"

	"cloud.google.com/go/spanner/spansql"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

var oneMoment = []rows.Kind{rows.Timestamp}

func moment(args []any) time.Time { return args[0].(time.Time) }

// momentAfter makes a timestamp of a number of units since 1970, of which there are perSecond in a second.
func momentAfter(perSecond int64) func([]any) (any, error) {
	return func(args []any) (any, error) {
		n := args[0].(int64)
		return momentAt(n/perSecond, n%perSecond*(1e9/perSecond))
	}
}

// The first second of a TIMESTAMP and the one after the last, since 1970.
const (
	firstSecond = -62_135_596_800
	endSecond   = 253_402_300_800
)

// momentAt refuses what is no TIMESTAMP. nanos may be negative and more than a second, if not by much.
func momentAt(seconds, nanos int64) (any, error) {
	if seconds >= firstSecond-2 && seconds <= endSecond+2 {
		if t := time.Unix(seconds, nanos).UTC(); t.Unix() >= firstSecond && t.Unix() < endSecond {
			return t, nil
		}
	}
	return nil, status.Error(codes.OutOfRange, "Timestamp is out of range")
}

// partFunctions take a part of a timestamp among their arguments, and so cannot be compiled as others are.
var partFunctions = map[string]bool{"TIMESTAMP_ADD": true, "TIMESTAMP_SUB": true, "TIMESTAMP_DIFF": true, "TIMESTAMP_TRUNC": true}

var parts = map[string]time.Duration{
	"NANOSECOND": time.Nanosecond, "MICROSECOND": time.Microsecond, "MILLISECOND": time.Millisecond,
	"SECOND": time.Second, "MINUTE": time.Minute, "HOUR": time.Hour, "DAY": 24 * time.Hour,
}

func (c *compiler) partFunction(name string, args []spansql.Expr) (*expr, error) {
	if len(args) < 2 {
		return nil, invalid("%s takes more arguments.", name)
	}
	first, err := c.expr(args[0])
	if err != nil {
		return nil, err
	}
	if first, err = argument(name, first, rows.Timestamp); err != nil {
		return nil, err
	}
	switch name {
	case "TIMESTAMP_DIFF":
		return c.difference(first, args)
	case "TIMESTAMP_TRUNC":
		return c.truncated(first, args)
	default:
		return c.shifted(name, first, args)
	}
}

// argument converts an argument to the kind that the function takes.
func argument(name string, arg *expr, kind rows.Kind) (*expr, error) {
	converted, err := arg.to(kind)
	if err != nil {
		return nil, noSignature(name, []*expr{arg})
	}
	return converted, nil
}

// partOf reads the word that names a part.
func partOf(name string, e spansql.Expr) (time.Duration, error) {
	word, ok := e.(spansql.ID)
	if !ok {
		return 0, invalid("%s expects a part of a timestamp, like SECOND.", name)
	}
	part, ok := parts[strings.ToUpper(string(word))]
	if !ok {
		return 0, unimplemented(name + " by " + string(word))
	}
	return part, nil
}

// shifted compiles TIMESTAMP_ADD and TIMESTAMP_SUB.
func (c *compiler) shifted(name string, first *expr, args []spansql.Expr) (*expr, error) {
	interval, ok := args[1].(spansql.IntervalExpr)
	if !ok || len(args) != 2 {
		return nil, invalid("%s expects a timestamp and an INTERVAL.", name)
	}
	part, err := partOf(name, spansql.ID(interval.DatePart))
	if err != nil {
		return nil, err
	}
	amount, err := c.expr(interval.Expr)
	if err != nil {
		return nil, err
	}
	if amount, err = argument(name, amount, rows.Int64); err != nil {
		return nil, err
	}
	sign := int64(1)
	if name == "TIMESTAMP_SUB" {
		sign = -1
	}
	return signature{result: rows.Timestamp, apply: func(values []any) (any, error) {
		n := values[1].(int64)
		if n == math.MinInt64 {
			return nil, overflow()
		}
		return shift(moment(values), sign*n, part)
	}}.call([]*expr{first, amount}), nil
}

// shift moves a timestamp by n parts, without the bounds of a Duration.
func shift(t time.Time, n int64, part time.Duration) (any, error) {
	if part >= time.Second {
		seconds := int64(part / time.Second)
		if n > math.MaxInt64/seconds/2 || n < math.MinInt64/seconds/2 {
			n = math.MaxInt64 / seconds / 2 // far beyond the range as well
		}
		return momentAt(t.Unix()+n*seconds, int64(t.Nanosecond()))
	}
	perSecond := int64(time.Second / part)
	return momentAt(t.Unix()+n/perSecond, int64(t.Nanosecond())+n%perSecond*int64(part))
}

// difference counts the whole parts from the second timestamp to the first.
func (c *compiler) difference(first *expr, args []spansql.Expr) (*expr, error) {
	if len(args) != 3 {
		return nil, invalid("TIMESTAMP_DIFF expects two timestamps and a part.")
	}
	second, err := c.expr(args[1])
	if err != nil {
		return nil, err
	}
	if second, err = argument("TIMESTAMP_DIFF", second, rows.Timestamp); err != nil {
		return nil, err
	}
	part, err := partOf("TIMESTAMP_DIFF", args[2])
	if err != nil {
		return nil, err
	}
	return signature{result: rows.Int64, apply: func(values []any) (any, error) {
		return partsBetween(values[0].(time.Time), values[1].(time.Time), part)
	}}.call([]*expr{first, second}), nil
}

func partsBetween(a, b time.Time, part time.Duration) (any, error) {
	seconds, nanos := a.Unix()-b.Unix(), int64(a.Nanosecond()-b.Nanosecond())
	if seconds > 0 && nanos < 0 { // both of one sign
		seconds, nanos = seconds-1, nanos+1e9
	} else if seconds < 0 && nanos > 0 {
		seconds, nanos = seconds+1, nanos-1e9
	}
	if part >= time.Second {
		return seconds / int64(part/time.Second), nil
	}
	perSecond := int64(time.Second / part)
	if seconds > math.MaxInt64/perSecond-1 || seconds < math.MinInt64/perSecond+1 {
		return nil, overflow()
	}
	return seconds*perSecond + nanos/int64(part), nil
}

// truncated compiles TIMESTAMP_TRUNC. A day starts at midnight of its zone.
func (c *compiler) truncated(first *expr, args []spansql.Expr) (*expr, error) {
	part, err := partOf("TIMESTAMP_TRUNC", args[1])
	if err != nil {
		return nil, err
	}
	zone := "America/Los_Angeles"
	if len(args) == 3 {
		name, ok := args[2].(spansql.StringLiteral)
		if !ok {
			return nil, unimplemented("TIMESTAMP_TRUNC with a zone that is not a literal")
		}
		zone = string(name)
	} else if len(args) > 3 {
		return nil, invalid("TIMESTAMP_TRUNC expects a timestamp, a part and a zone.")
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" {
		return nil, invalid("Invalid time zone: %s", zone)
	}
	return first.mapped(rows.Timestamp, func(value any) (any, error) {
		t := value.(time.Time).In(location)
		if part == 24*time.Hour {
			return momentAt(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, location).Unix(), 0)
		}
		into := time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
		start := t.Add(-(into % part))
		return momentAt(start.Unix(), int64(start.Nanosecond()))
	}), nil
}

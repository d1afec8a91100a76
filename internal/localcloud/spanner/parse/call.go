package parse

import (
	"strings"
	"time"
	_ "time/tzdata" // the service's default zone must be known on machines without a zone database

	"cloud.google.com/go/spanner/spansql"
)

func (p *parser) argument() (spansql.Expr, error) {
	if p.peekAt(1).is("=>") {
		return nil, Unimplemented("a named argument")
	}
	if !p.eat("INTERVAL") {
		return p.expr()
	}
	amount, err := p.bitOr()
	if err != nil {
		return nil, err
	}
	part, err := p.identifier()
	if err != nil {
		return nil, err
	}
	return spansql.IntervalExpr{Expr: amount, DatePart: strings.ToUpper(string(part))}, nil
}

// call reads a function call. name is in upper case.
func (p *parser) call(name string) (spansql.Expr, error) {
	p.advance()
	call := spansql.Func{Name: name}
	var err error
	switch {
	case p.eat("(", "*", ")"):
		call.Args = []spansql.Expr{spansql.Star}
	case p.peekAt(1).is("DISTINCT"):
		p.eat("(")
		p.eat("DISTINCT")
		call.Distinct = true
		if call.Args, err = p.exprs(); err != nil {
			return nil, err
		}
		if err := p.endOfCall(name); err != nil {
			return nil, err
		}
	default:
		if call.Args, err = p.plainArguments(name); err != nil {
			return nil, err
		}
	}
	if err := p.refuse("OVER", "@{"); err != nil {
		return nil, err
	}
	switch {
	case name == "COALESCE" && len(call.Args) > 0:
		return spansql.Coalesce{ExprList: call.Args}, nil
	case name == "IFNULL" && len(call.Args) == 2:
		return spansql.IfNull{Expr: call.Args[0], NullResult: call.Args[1]}, nil
	case name == "NULLIF" && len(call.Args) == 2:
		return spansql.NullIf{Expr: call.Args[0], ExprToMatch: call.Args[1]}, nil
	}
	return call, nil
}

// plainArguments reads arguments and names the clauses that may follow them in an aggregate.
func (p *parser) plainArguments(name string) ([]spansql.Expr, error) {
	if p.peekAt(1).is("SELECT") {
		return nil, Unimplemented("a subquery")
	}
	if p.eat("(", ")") {
		return nil, nil
	}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var args []spansql.Expr
	for {
		arg, err := p.argument()
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
		if !p.eat(",") {
			return args, p.endOfCall(name)
		}
	}
}

func (p *parser) endOfCall(name string) error {
	for _, clause := range []string{"IGNORE", "RESPECT", "HAVING", "ORDER", "LIMIT", "AT"} {
		if p.peek().is(clause) {
			return Unimplemented(clause + " in " + name)
		}
	}
	return p.expect(")")
}

var castTypes = map[string]spansql.TypeBase{
	"BOOL": spansql.Bool, "INT64": spansql.Int64, "FLOAT64": spansql.Float64,
	"STRING": spansql.String, "BYTES": spansql.Bytes, "TIMESTAMP": spansql.Timestamp,
}

// cast reads CAST(expression AS type).
func (p *parser) cast(name string) (spansql.Expr, error) {
	p.advance()
	p.advance()
	e, err := p.expr()
	if err != nil {
		return nil, err
	}
	if err := p.expect("AS"); err != nil {
		return nil, err
	}
	t := p.advance()
	base, ok := castTypes[strings.ToUpper(t.value)]
	if t.kind != word || !ok {
		return nil, Unimplemented("a cast to " + t.value)
	}
	if err := p.refuse("FORMAT", "(", "AT"); err != nil {
		return nil, err
	}
	return spansql.Func{Name: name, Args: []spansql.Expr{spansql.TypedExpr{Type: spansql.Type{Base: base}, Expr: e}}}, p.expect(")")
}

// timestampLayouts are the forms of a timestamp without its zone. Seconds may have a fraction in each.
var timestampLayouts = []string{"2006-1-2", "2006-1-2 15:4:5", "2006-1-2T15:4:5", "2006-1-2t15:4:5"}

// Timestamp reads a timestamp as GoogleSQL writes it: a date, a time of day that may be left out, and a zone (Z,
// an offset or a name) that may be left out and is Los Angeles then.
func Timestamp(s string) (moment time.Time, ok bool) {
	var zone *time.Location
	switch at := zoneStart(s); {
	case at < 0:
		var err error
		if zone, err = time.LoadLocation("America/Los_Angeles"); err != nil {
			return time.Time{}, false
		}
	default:
		if zone, ok = zoneOf(strings.TrimPrefix(s[at:], " ")); !ok {
			return time.Time{}, false
		}
		s = strings.TrimSuffix(s[:at], " ")
	}
	for _, layout := range timestampLayouts {
		if moment, err := time.ParseInLocation(layout, s, zone); err == nil && moment.Year() >= 1 {
			return moment.UTC(), true
		}
	}
	return time.Time{}, false
}

// zoneStart returns where the zone of a timestamp starts, -1 without one.
func zoneStart(s string) int {
	day := strings.LastIndexByte(s[:min(len(s), len("2006-01-02"))], '-')
	if day < 0 {
		return -1
	}
	for i := day + 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '+' || c == '-' || c == 'Z' || c == 'z':
			return i
		case (c == 'T' || c == 't') && i+1 < len(s) && isDigit(s[i+1]):
			// between the date and the time
		case isLetter(c):
			return i
		}
	}
	return -1
}

// zoneOf reads Z, +h[h][:mm], or a name.
func zoneOf(s string) (*time.Location, bool) {
	if s == "Z" || s == "z" {
		return time.UTC, true
	}
	if s == "" || s == "Local" {
		return nil, false
	}
	if s[0] != '+' && s[0] != '-' {
		zone, err := time.LoadLocation(s)
		return zone, err == nil
	}
	for _, layout := range []string{"15:04", "15"} {
		if t, err := time.Parse(layout, s[1:]); err == nil {
			seconds := t.Hour()*3600 + t.Minute()*60
			if s[0] == '-' {
				seconds = -seconds
			}
			return time.FixedZone(s, seconds), seconds >= -14*3600 && seconds <= 14*3600
		}
	}
	return nil, false
}

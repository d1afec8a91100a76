package query

import (
	"reflect"
	"time"

	"cloud.google.com/go/spanner/spansql"
)

// same reports whether two expressions are the same, whichever way their columns are written.
func (c *compiler) same(a, b spansql.Expr) bool {
	return c.sameValue(reflect.ValueOf(bare(a)), reflect.ValueOf(bare(b)))
}

// bare takes the parentheses off an expression.
func bare(e spansql.Expr) spansql.Expr {
	for {
		paren, ok := e.(spansql.Paren)
		if !ok {
			return e
		}
		e = paren.Expr
	}
}

func (c *compiler) sameValue(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if a.Kind() == reflect.Interface && b.Kind() == reflect.Interface {
		x, isExpr := reflect.TypeAssert[spansql.Expr](a)
		y, isExprToo := reflect.TypeAssert[spansql.Expr](b)
		if isExpr && isExprToo {
			return c.same(x, y)
		}
		return c.sameValue(a.Elem(), b.Elem())
	}
	if x, ok := reflect.TypeAssert[spansql.Expr](a); ok {
		if y, ok := reflect.TypeAssert[spansql.Expr](b); ok {
			i, isColumn := c.columnIndex(x)
			j, isColumnToo := c.columnIndex(y)
			if isColumn || isColumnToo {
				return isColumn && isColumnToo && i == j
			}
		}
	}
	if a.Type() != b.Type() {
		return false
	}
	if x, ok := reflect.TypeAssert[spansql.TimestampLiteral](a); ok {
		return time.Time(x).Equal(time.Time(b.Interface().(spansql.TimestampLiteral)))
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !c.sameValue(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !c.sameValue(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		return a.IsNil() && b.IsNil() // AggregateHaving, which is refused before
	default:
		return a.Interface() == b.Interface()
	}
}

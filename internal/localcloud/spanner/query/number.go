package query

import (
	"math"
	"math/big"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

var (
	oneInt   = []rows.Kind{rows.Int64}
	twoInts  = []rows.Kind{rows.Int64, rows.Int64}
	oneFloat = []rows.Kind{rows.Float64}
)

func floored(args []any) (any, error) { return math.Floor(args[0].(float64)), nil }
func ceiled(args []any) (any, error)  { return math.Ceil(args[0].(float64)), nil }
func cut(args []any) (any, error)     { return math.Trunc(args[0].(float64)), nil }

func absolute(args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		if v == math.MinInt64 {
			return nil, overflow()
		}
		return max(v, -v), nil
	default:
		return math.Abs(v.(float64)), nil
	}
}

func quotient(args []any) (any, error) {
	x, y := args[0].(int64), args[1].(int64)
	switch {
	case y == 0:
		return nil, divisionByZero()
	case x == math.MinInt64 && y == -1:
		return nil, overflow()
	}
	return x / y, nil
}

// remainder has the sign of the first operand.
func remainder(args []any) (any, error) {
	x, y := args[0].(int64), args[1].(int64)
	if y == 0 {
		return nil, divisionByZero()
	}
	return x % y, nil
}

func divisionByZero() error { return status.Error(codes.OutOfRange, "division by zero") }

// safeDivision is NULL where a division fails.
func safeDivision(args []any) (any, error) {
	x, y := args[0].(float64), args[1].(float64)
	quotient := x / y
	if y == 0 || math.IsInf(quotient, 0) && !math.IsInf(x, 0) {
		return nil, nil
	}
	return quotient, nil
}

// exact is enough bits for any FLOAT64 times a power of ten of its range.
const exact = 2300

// rounded rounds half away from zero, to digits behind the point or before it if they are negative. The
// arithmetic is exact: with floats 2.675 would round up to 2.68, though it stands for less than that.
func rounded(args []any) (any, error) {
	x := args[0].(float64)
	if len(args) == 1 || math.IsNaN(x) || math.IsInf(x, 0) {
		return math.Round(x), nil
	}
	digits := args[1].(int64)
	switch {
	case digits > 350:
		return x, nil
	case digits < -350:
		return 0.0, nil
	}
	power := new(big.Float).SetPrec(exact).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(digits, -digits)), nil))
	scaled := new(big.Float).SetPrec(exact).SetFloat64(x)
	if digits < 0 {
		scaled.Quo(scaled, power)
	} else {
		scaled.Mul(scaled, power)
	}
	half := big.NewFloat(math.Copysign(0.5, x))
	whole, _ := scaled.Add(scaled, half).Int(nil) // towards zero
	scaled.SetInt(whole)
	if digits < 0 {
		scaled.Mul(scaled, power)
	} else {
		scaled.Quo(scaled, power)
	}
	result, _ := scaled.Float64()
	if math.IsInf(result, 0) {
		return nil, status.Errorf(codes.OutOfRange, "Floating point error in function: ROUND(%v, %d)", x, digits)
	}
	return result, nil
}

package config

import "strings"

// misplaced is the distance given to a key that is written in the wrong
// section: about as near as two wrong letters.
const misplaced = 2

// hint returns "; did you mean X?" for the nearest of names, or where to look
// when none is near.
func hint(name string, names []string) string {
	best, bestDistance := "", len(name)/3+2
	for _, candidate := range names {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if last(name) == last(candidate) {
			d = min(d, misplaced)
		}
		if d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return "; `worker check-config` lists all keys"
	}
	return "; did you mean " + best + "?"
}

func last(key string) string {
	return key[strings.LastIndexByte(key, '.')+1:]
}

// distance is the Levenshtein distance of a and b, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

package dataset

import (
	"fmt"
	"path"
	"strings"
)

// checkGlob reports what is wrong with a pattern.
func checkGlob(pattern string) error {
	if pattern == "" {
		return fmt.Errorf("pattern %q: is empty", pattern)
	}
	for part := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	return nil
}

// isGlob tells whether a source is a pattern.
func isGlob(name string) bool { return strings.ContainsAny(name, "*?[") }

// splitGlob returns the part of a pattern that has nothing to match, up to and
// with its last slash, and the rest.
func splitGlob(pattern string) (fixed, rest string) {
	meta := strings.IndexAny(pattern, "*?[")
	slash := strings.LastIndexByte(pattern[:meta], '/') + 1
	return pattern[:slash], pattern[slash:]
}

// matchGlob holds a path against a pattern whose ** stands for any number of
// parts. Both must be right already.
func matchGlob(pattern, name string) bool {
	return matchParts(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

func matchParts(pattern, name []string) bool {
	for len(pattern) > 0 && pattern[0] != "**" {
		if len(name) == 0 {
			return false
		}
		if found, err := path.Match(pattern[0], name[0]); err != nil || !found {
			return false
		}
		pattern, name = pattern[1:], name[1:]
	}
	if len(pattern) == 0 {
		return len(name) == 0
	}
	for i := range len(name) + 1 {
		if matchParts(pattern[1:], name[i:]) {
			return true
		}
	}
	return false
}

// pathFilter chooses files by their path below a source.
type pathFilter struct {
	// glob is the rest of a source that is a pattern; empty means none.
	glob             string
	include, exclude []string
}

func (f pathFilter) wants(id string) bool {
	if f.glob != "" && !matchGlob(f.glob, id) {
		return false
	}
	wanted := len(f.include) == 0
	for _, pattern := range f.include {
		wanted = wanted || matchFilter(pattern, id)
	}
	for _, pattern := range f.exclude {
		wanted = wanted && !matchFilter(pattern, id)
	}
	return wanted
}

// matchFilter holds a pattern without a slash against the name of the file,
// and any other against its whole path.
func matchFilter(pattern, id string) bool {
	if !strings.Contains(pattern, "/") {
		id = path.Base(id)
	}
	return matchGlob(pattern, id)
}

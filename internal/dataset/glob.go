package dataset

import (
	"fmt"
	"path"
)

// checkGlob reports what is wrong with a pattern.
func checkGlob(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return nil
}

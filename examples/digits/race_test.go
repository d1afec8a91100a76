//go:build race

package digits

// sparse says that each fifth batch of the test images is used: the race detector
// makes PNG slow.
const sparse = 5

//go:build !race

package digits

// sparse says that all test images are used.
const sparse = 1

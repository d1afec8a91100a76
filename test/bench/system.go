package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// What Linux tells in /proc. Elsewhere the texts say "unknown" and the figures
// are 0.

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // absent: not Linux
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg") // absent: not Linux
	if load, _, found := strings.Cut(string(text), " "); found {
		return load
	}
	return "unknown"
}

// idle is how long the machine's CPUs have been idle, all together, and how
// long they have been there. The share of one in the other says whether a
// measurement ran out of CPU.
type idle struct{ idle, all float64 }

func readIdle() idle {
	text, _ := os.ReadFile("/proc/stat") // absent: not Linux
	line, _, _ := strings.Cut(string(text), "\n")
	var i idle
	for n, field := range strings.Fields(line) {
		var ticks float64
		if n == 0 {
			continue
		}
		_, _ = fmt.Sscan(field, &ticks) // the kernel writes numbers
		if n == 4 || n == 5 {           // idle and waiting for a disk
			i.idle += ticks
		}
		if n <= 8 { // guests are counted as users already
			i.all += ticks
		}
	}
	return i
}

// since is the share of CPU time, in %, that nobody used since then.
func (i idle) since(then idle) float64 {
	if i.all == then.all {
		return 0
	}
	return 100 * (i.idle - then.idle) / (i.all - then.all)
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// resident is the memory that this process has now, in bytes.
func resident() int64 {
	text, _ := os.ReadFile("/proc/self/statm") // absent: not Linux
	var size, pages int64
	_, _ = fmt.Sscan(string(text), &size, &pages) // the kernel writes numbers
	return pages * int64(os.Getpagesize())
}

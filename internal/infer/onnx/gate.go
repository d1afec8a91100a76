package onnx

import (
	"sync"
	"time"
)

// gate counts who uses the session, so that it is freed by the last one to
// leave and never before.
type gate struct {
	// free is called once, when the gate is shut and nobody is inside.
	free func()
	// gone is closed after free has returned.
	gone chan struct{}

	mu     sync.Mutex
	inside int
	shut   bool
}

func newGate(free func()) *gate { return &gate{free: free, gone: make(chan struct{})} }

// enter reports whether the caller may use the session; it must leave then.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	g.inside--
	last := g.shut && g.inside == 0
	g.mu.Unlock()
	if last {
		g.free()
		close(g.gone)
	}
}

// close lets nobody in any more and reports whether all have left, and the
// session was freed, within limit. It may be called again.
func (g *gate) close(limit time.Duration) bool {
	g.mu.Lock()
	first := !g.shut
	g.shut = true
	empty := g.inside == 0
	g.mu.Unlock()
	if first && empty {
		g.free()
		close(g.gone)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-g.gone:
		return true
	case <-timer.C:
		return false
	}
}

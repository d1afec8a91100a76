package command

import (
	"bufio"
	"io"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

// Limits of what a child's standard error adds to the log: enough for a
// traceback, too little for a progress bar to drown everything else.
const (
	maxStderrLine = 4 << 10 // bytes
	stderrRate    = 20      // lines a second
	stderrBurst   = 200     // lines
)

// stderrLog writes the lines of a child's standard error to the log.
type stderrLog struct {
	log     *slog.Logger
	limit   *rate.Limiter
	dropped int // by copy's goroutine

	mu   sync.Mutex
	line string // the latest that is not blank
}

func newStderrLog(log *slog.Logger) *stderrLog {
	return &stderrLog{log: log, limit: rate.NewLimiter(stderrRate, stderrBurst)}
}

// copy reads r to its end. It never waits for anything but r, so that the
// child never waits for us. A carriage return ends a line too: that is how
// progress bars redraw.
func (s *stderrLog) copy(r io.Reader) {
	in := bufio.NewReaderSize(r, maxStderrLine)
	line := make([]byte, 0, maxStderrLine)
	for {
		c, err := in.ReadByte()
		switch {
		case err != nil:
			s.write(line)
			return
		case c == '\n' || c == '\r':
			s.write(line)
			line = line[:0]
		case len(line) < maxStderrLine:
			line = append(line, c) // what is longer is cut
		}
	}
}

func (s *stderrLog) write(line []byte) {
	text := strings.TrimRight(message(string(line)), " ")
	if text == "" {
		return
	}
	s.mu.Lock()
	s.line = text
	s.mu.Unlock()
	if !s.limit.Allow() {
		s.dropped++
		return
	}
	if s.dropped > 0 {
		s.log.Info("runner stderr lines dropped", "lines", s.dropped)
		s.dropped = 0
	}
	s.log.Info("runner stderr", "line", text)
}

// last returns the latest line: of a traceback, the exception.
func (s *stderrLog) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line
}

package main

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// proxy is a TCP proxy that hands on every byte after a delay, in each
// direction, as a longer wire would: it does not limit how much is on its way.
type proxy struct {
	listener net.Listener
	to       string
	delay    time.Duration
	pipes    sync.WaitGroup
	done     context.Context
	stop     context.CancelFunc
}

// onTheWay is how many pieces of up to pieceSize bytes may be under way in one
// direction of one connection.
const (
	onTheWay  = 4096
	pieceSize = 32 << 10
)

// startProxy listens on a free port and connects to the address to. The caller
// closes it.
func startProxy(ctx context.Context, to string, delay time.Duration) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, to: to, delay: delay}
	p.done, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.pipes.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// close cuts all connections and waits until nothing is under way.
func (p *proxy) close() {
	p.stop()
	_ = p.listener.Close() // only ever read
	p.pipes.Wait()
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		far, err := (&net.Dialer{}).DialContext(p.done, "tcp", p.to)
		if err != nil {
			_ = near.Close() // the client sees a server that is not there
			continue
		}
		// The end of either side is the end of both, once it has arrived.
		cut := func() { _ = near.Close(); _ = far.Close() }
		context.AfterFunc(p.done, cut)
		p.pipes.Go(func() { p.pipe(near, far); cut() })
		p.pipes.Go(func() { p.pipe(far, near); cut() })
	}
}

// piece is some bytes, and when they arrive.
type piece struct {
	bytes []byte
	due   time.Time
}

// pipe carries bytes in one direction.
func (p *proxy) pipe(from io.Reader, to io.Writer) {
	pieces := make(chan piece, onTheWay)
	p.pipes.Go(func() {
		defer close(pieces)
		for {
			buffer := make([]byte, pieceSize)
			n, err := from.Read(buffer)
			if n > 0 {
				select {
				case pieces <- piece{buffer[:n:n], time.Now().Add(p.delay)}:
				case <-p.done.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	for {
		select {
		case next, more := <-pieces:
			if !more || wait(p.done, time.Until(next.due)) != nil {
				return
			}
			if _, err := to.Write(next.bytes); err != nil {
				return
			}
		case <-p.done.Done():
			return
		}
	}
}

// wait waits for d, or returns the cause of ctx's end.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

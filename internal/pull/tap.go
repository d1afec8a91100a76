package pull

import (
	"context"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
)

// tapLimit is how long the service may take to end a stream that was closed
// from this side, before the stream is cut. Settlements wait for it.
const tapLimit = 250 * time.Millisecond

// tap closes the stream of deliveries at the moment of the stop, before
// anything is given back.
//
// The client keeps its stream open until its last nack has been sent. Left
// alone, the service hands the nacked messages, and others in the room that
// acks make, to that very stream; nobody reads them any more, and they stay
// leased to a process that has ended. TestStopSendsEverySettlement showed it
// with pubsub/v2 v2.9.0: with flow control saturated, as many messages as were
// acked.
//
// So the tap ends the stream itself, gives back what still came out of it, and
// makes it look silent to the client, whose acks and nacks are calls of their
// own and go out as before.
type tap struct {
	// nack gives deliveries back by their ack IDs.
	nack func(ackIDs []string)

	mu sync.Mutex
	// flow is the current Receive.
	flow *flow
}

// flow is the time between open and shut of a tap.
type flow struct {
	shut    chan struct{} // closed at the stop
	streams sync.WaitGroup
}

func newTap() *tap {
	f := &flow{shut: make(chan struct{})}
	close(f.shut)
	return &tap{flow: f}
}

// open lets streams flow until shut is called. wait then returns when no more
// deliveries can come out of them.
func (t *tap) open() (shut, wait func()) {
	f := &flow{shut: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flow = f
	return sync.OnceFunc(func() { close(f.shut) }), f.streams.Wait
}

// streamingPull is the end of the method's full name.
const streamingPull = "/StreamingPull"

// intercept is a grpc.StreamClientInterceptor.
func (t *tap) intercept(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if !strings.HasSuffix(method, streamingPull) {
		return streamer(ctx, desc, conn, method, opts...)
	}
	t.mu.Lock()
	f := t.flow
	f.streams.Add(1)
	t.mu.Unlock()
	streamCtx, cut := context.WithCancel(ctx)
	stream, err := streamer(streamCtx, desc, conn, method, opts...)
	if err != nil {
		cut()
		f.streams.Done()
		return nil, err
	}
	s := &tapped{ClientStream: stream, ctx: ctx, shut: f.shut, ended: make(chan struct{})}
	go func() {
		defer f.streams.Done()
		defer cut()
		select {
		case <-s.ended:
		case <-ctx.Done():
		case <-f.shut:
			if left := s.empty(cut); len(left) > 0 {
				t.nack(left)
			}
		}
	}()
	return s, nil
}

// tapped is one stream behind the tap.
type tapped struct {
	grpc.ClientStream
	// ctx is the client's; it ends when the client has sent everything.
	ctx  context.Context
	shut <-chan struct{}

	// ended is closed when the stream has ended by itself.
	ended chan struct{}
	once  sync.Once

	sending sync.Mutex

	receiving sync.Mutex
	// left are the ack IDs of what came after the stop. Guarded by receiving.
	left []string
}

func (s *tapped) isShut() bool {
	select {
	case <-s.shut:
		return true
	default:
		return false
	}
}

// empty ends the stream and returns what still came out of it.
func (s *tapped) empty(cut func()) []string {
	limit := time.AfterFunc(tapLimit, cut)
	defer limit.Stop()
	if err := s.CloseSend(); err != nil {
		cut()
	}
	s.receiving.Lock()
	defer s.receiving.Unlock()
	for {
		var m pubsubpb.StreamingPullResponse
		if s.ClientStream.RecvMsg(&m) != nil {
			return s.left
		}
		s.keep(&m)
	}
}

func (s *tapped) keep(m any) {
	response, ok := m.(*pubsubpb.StreamingPullResponse)
	if !ok {
		return
	}
	for _, r := range response.GetReceivedMessages() {
		s.left = append(s.left, r.GetAckId())
	}
}

// RecvMsg implements grpc.ClientStream. After the stop it keeps what comes and
// is silent.
func (s *tapped) RecvMsg(m any) error {
	silent, err := s.receive(m)
	if silent {
		<-s.ctx.Done()
		return s.ctx.Err()
	}
	if err != nil {
		s.once.Do(func() { close(s.ended) })
	}
	return err
}

func (s *tapped) receive(m any) (silent bool, err error) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	if s.isShut() {
		return true, nil
	}
	err = s.ClientStream.RecvMsg(m)
	if !s.isShut() {
		return false, err
	}
	if err == nil {
		s.keep(m)
	}
	return true, nil
}

// SendMsg implements grpc.ClientStream. Nothing is asked of a stream after the
// stop.
func (s *tapped) SendMsg(m any) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.isShut() {
		return nil
	}
	return s.ClientStream.SendMsg(m)
}

// CloseSend implements grpc.ClientStream.
func (s *tapped) CloseSend() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.ClientStream.CloseSend()
}

package pull

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	gax "github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc"
)

const (
	// pingEvery keeps an idle stream alive through proxies.
	pingEvery = 30 * time.Second
	// closeLimit is how long the service may take to end a stream that we have
	// closed, before it is cut.
	closeLimit = 250 * time.Millisecond
	// maxResponse is the largest response that is taken: several messages of
	// up to 10 MB come in one.
	maxResponse = 64 << 20
	// streamHealthy is how long a stream that brings nothing must have lived
	// for the pauses between streams to start anew.
	streamHealthy = 10 * time.Second
)

// stream is one streaming pull.
type stream struct {
	pubsubpb.Subscriber_StreamingPullClient
	// sending guards Send and CloseSend, which may not overlap.
	sending sync.Mutex
}

// pullAll keeps a stream open until ctx is done, and hands each response to
// take. It returns nil when ctx is done, or the error that no new stream would
// cure. When it returns, no more deliveries can come.
func (s *Subscription) pullAll(ctx context.Context, take func([]*pubsubpb.ReceivedMessage)) error {
	var tries pause
	for ctx.Err() == nil {
		start, brought := time.Now(), false
		healthy := time.AfterFunc(streamHealthy, func() { s.line.works(ctx) })
		err := s.pullOne(ctx, func(messages []*pubsubpb.ReceivedMessage) {
			brought = true
			s.line.works(ctx)
			take(messages)
		})
		healthy.Stop()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !retryable(err):
			return permanent(fmt.Errorf("pull from %s: %w", s.path, err))
		}
		if brought || time.Since(start) > streamHealthy {
			tries = pause{}
		}
		s.line.failed(ctx, err)
		// The service ends streams now and then; only failures are worth a line.
		s.log.DebugContext(ctx, "stream of deliveries ended; opening another", "error", err)
		tries.wait(ctx)
	}
	return nil
}

// pullOne is the life of one stream.
func (s *Subscription) pullOne(ctx context.Context, take func([]*pubsubpb.ReceivedMessage)) error {
	// At the stop the stream is closed, not cut: what is on its way is read
	// and given back, instead of staying leased to nobody.
	streamCtx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	// Also while the stream is being opened, which may hang.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeLimit, cut) })()
	st, err := s.open(streamCtx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		if st.close() != nil {
			cut()
		}
	})()
	pinged := make(chan struct{})
	go func() {
		defer close(pinged)
		st.ping(streamCtx)
	}()
	defer func() {
		cut()
		<-pinged
	}()
	for {
		response, err := st.Recv()
		if err != nil {
			return err
		}
		take(response.GetReceivedMessages())
	}
}

// open asks for deliveries.
func (s *Subscription) open(ctx context.Context) (*stream, error) {
	ctx = gax.InsertMetadataIntoOutgoingContext(ctx, "x-goog-request-params", "subscription="+url.QueryEscape(s.path))
	client, err := s.client.SubscriptionAdminClient.StreamingPull(ctx, ownRetries, gax.WithGRPCOptions(grpc.MaxCallRecvMsgSize(maxResponse)))
	if err != nil {
		return nil, err
	}
	err = client.Send(&pubsubpb.StreamingPullRequest{
		Subscription:             s.path,
		ClientId:                 s.clientID,
		StreamAckDeadlineSeconds: int32(s.cfg.Lease / time.Second),
		// The service keeps to these, and so spreads a small backlog over all
		// workers.
		MaxOutstandingMessages: int64(s.cfg.MaxOutstanding),
		MaxOutstandingBytes:    int64(s.cfg.MaxOutstandingBytes),
	})
	if err != nil {
		// The reason is in what the service answers.
		if _, reason := client.Recv(); reason != nil {
			return nil, reason
		}
		return nil, err
	}
	return &stream{Subscriber_StreamingPullClient: client}, nil
}

func (st *stream) close() error {
	st.sending.Lock()
	defer st.sending.Unlock()
	return st.CloseSend()
}

// ping sends empty requests until ctx is done or the stream is closed.
func (st *stream) ping(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			st.sending.Lock()
			err := st.Send(&pubsubpb.StreamingPullRequest{})
			st.sending.Unlock()
			if err != nil {
				return // Recv says why.
			}
		case <-ctx.Done():
			return
		}
	}
}

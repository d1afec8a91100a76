package spanner

import (
	"context"
	"maps"
	"slices"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// maxSessionsPerCall is the service's bound for BatchCreateSessions; more are never asked for twice.
const maxSessionsPerCall = 100

// dataAPI is the data service. What it does not override answers UNIMPLEMENTED.
type dataAPI struct {
	spannerpb.UnimplementedSpannerServer
	service *Service
}

func (a *dataAPI) CreateSession(_ context.Context, req *spannerpb.CreateSessionRequest) (*spannerpb.Session, error) {
	db, err := a.service.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	return db.addSession(req.GetSession()), nil
}

func (a *dataAPI) BatchCreateSessions(_ context.Context, req *spannerpb.BatchCreateSessionsRequest) (*spannerpb.BatchCreateSessionsResponse, error) {
	db, err := a.service.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	if req.GetSessionCount() < 1 {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid session_count: %d. It must be positive.", req.GetSessionCount())
	}
	if req.GetSessionTemplate().GetMultiplexed() {
		return nil, status.Error(codes.InvalidArgument, "Multiplexed sessions are made one at a time, with CreateSession.")
	}
	resp := &spannerpb.BatchCreateSessionsResponse{}
	for range min(req.GetSessionCount(), maxSessionsPerCall) {
		resp.Session = append(resp.Session, db.addSession(req.GetSessionTemplate()))
	}
	return resp, nil
}

func (a *dataAPI) GetSession(_ context.Context, req *spannerpb.GetSessionRequest) (*spannerpb.Session, error) {
	_, session, err := a.service.session(req.GetName())
	if err != nil {
		return nil, err
	}
	return session.proto, nil
}

func (a *dataAPI) ListSessions(_ context.Context, req *spannerpb.ListSessionsRequest) (*spannerpb.ListSessionsResponse, error) {
	db, err := a.service.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	if req.GetFilter() != "" {
		return nil, status.Errorf(codes.Unimplemented, "localcloud does not support the filter %q for sessions.", req.GetFilter())
	}
	resp := &spannerpb.ListSessionsResponse{}
	resp.Sessions, resp.NextPageToken = page(db.listed(), (*spannerpb.Session).GetName, req.GetPageSize(), req.GetPageToken())
	return resp, nil
}

// listed returns the sessions in the order of their names. Multiplexed ones are not listed in the service either.
func (db *database) listed() []*spannerpb.Session {
	db.mu.Lock()
	defer db.mu.Unlock()
	var sessions []*spannerpb.Session
	for _, name := range slices.Sorted(maps.Keys(db.sessions)) {
		if session := db.sessions[name].proto; !session.GetMultiplexed() {
			sessions = append(sessions, session)
		}
	}
	return sessions
}

func (a *dataAPI) DeleteSession(_ context.Context, req *spannerpb.DeleteSessionRequest) (*emptypb.Empty, error) {
	db, session, err := a.service.session(req.GetName())
	if err != nil {
		return nil, err
	}
	if session.proto.GetMultiplexed() {
		return nil, status.Error(codes.InvalidArgument, "Multiplexed sessions cannot be deleted.")
	}
	db.deleteSession(req.GetName())
	return &emptypb.Empty{}, nil
}

package spanner

import (
	"context"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// maxOperations bounds the finished operations that are remembered.
const maxOperations = 1000

// operationsAPI answers for the long-running operations. Every one of them is done when it is handed out.
type operationsAPI struct {
	longrunningpb.UnimplementedOperationsServer
	service *Service
}

func (a *operationsAPI) GetOperation(_ context.Context, req *longrunningpb.GetOperationRequest) (*longrunningpb.Operation, error) {
	return a.service.operation(req.GetName())
}

func (a *operationsAPI) WaitOperation(_ context.Context, req *longrunningpb.WaitOperationRequest) (*longrunningpb.Operation, error) {
	return a.service.operation(req.GetName())
}

// CancelOperation does nothing: the operation is done.
func (a *operationsAPI) CancelOperation(_ context.Context, req *longrunningpb.CancelOperationRequest) (*emptypb.Empty, error) {
	_, err := a.service.operation(req.GetName())
	return &emptypb.Empty{}, err
}

func (s *Service) operation(name string) (*longrunningpb.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op, ok := s.operations[name]; ok {
		return op, nil
	}
	return nil, status.Errorf(codes.NotFound, "Operation not found: %s", name)
}

// done records a finished operation below the parent. A failure is part of the operation, as in the service.
// s.mu is held.
func (s *Service) done(parent string, metadata, response proto.Message, failure error) (*longrunningpb.Operation, error) {
	op := &longrunningpb.Operation{Name: s.operationName(parent), Done: true}
	var err error
	if op.Metadata, err = anypb.New(metadata); err != nil {
		return nil, status.Errorf(codes.Internal, "encode operation metadata: %v", err)
	}
	if failure != nil {
		op.Result = &longrunningpb.Operation_Error{Error: status.Convert(failure).Proto()}
	} else {
		encoded, err := anypb.New(response)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "encode operation response: %v", err)
		}
		op.Result = &longrunningpb.Operation_Response{Response: encoded}
	}
	if len(s.operations) >= maxOperations {
		clear(s.operations)
	}
	s.operations[op.GetName()] = op
	return op, nil
}

package spanner

import (
	"context"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// localConfig is the one instance configuration there is. Any other that a client names is taken as well,
// since nothing here depends on a region.
const localConfig = "emulator-config"

// instanceAPI is the instance admin service.
type instanceAPI struct {
	instancepb.UnimplementedInstanceAdminServer
	service *Service
}

func (a *instanceAPI) ListInstanceConfigs(_ context.Context, req *instancepb.ListInstanceConfigsRequest) (*instancepb.ListInstanceConfigsResponse, error) {
	return &instancepb.ListInstanceConfigsResponse{InstanceConfigs: []*instancepb.InstanceConfig{
		instanceConfig(req.GetParent() + "/instanceConfigs/" + localConfig),
	}}, nil
}

func (a *instanceAPI) GetInstanceConfig(_ context.Context, req *instancepb.GetInstanceConfigRequest) (*instancepb.InstanceConfig, error) {
	return instanceConfig(req.GetName()), nil
}

func instanceConfig(name string) *instancepb.InstanceConfig {
	return &instancepb.InstanceConfig{Name: name, DisplayName: "localcloud"}
}

func (a *instanceAPI) CreateInstance(_ context.Context, req *instancepb.CreateInstanceRequest) (*longrunningpb.Operation, error) {
	if !projectRef.MatchString(req.GetParent()) {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid CreateInstance request: parent %q is not projects/P.", req.GetParent())
	}
	if !instanceID.MatchString(req.GetInstanceId()) {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid instance ID %q: use 2 to 64 of a-z, 0-9 and -, with a letter first.", req.GetInstanceId())
	}
	name := req.GetParent() + "/instances/" + req.GetInstanceId()
	s := a.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.instances[name]; ok {
		return nil, alreadyExists("Instance", name)
	}
	instance := &instancepb.Instance{}
	if req.GetInstance() != nil {
		instance = proto.CloneOf(req.GetInstance())
	}
	now := timestamppb.Now()
	instance.Name, instance.State, instance.CreateTime, instance.UpdateTime = name, instancepb.Instance_READY, now, now
	s.instances[name] = instance
	return s.done(name, &instancepb.CreateInstanceMetadata{Instance: instance, StartTime: now, EndTime: now}, instance, nil)
}

func (a *instanceAPI) GetInstance(_ context.Context, req *instancepb.GetInstanceRequest) (*instancepb.Instance, error) {
	a.service.mu.Lock()
	defer a.service.mu.Unlock()
	if instance, ok := a.service.instances[req.GetName()]; ok {
		return instance, nil
	}
	return nil, notFound("Instance", instanceType, req.GetName())
}

func (a *instanceAPI) ListInstances(_ context.Context, req *instancepb.ListInstancesRequest) (*instancepb.ListInstancesResponse, error) {
	a.service.mu.Lock()
	defer a.service.mu.Unlock()
	if req.GetFilter() != "" {
		return nil, status.Errorf(codes.Unimplemented, "localcloud does not support the filter %q for instances.", req.GetFilter())
	}
	var instances []*instancepb.Instance
	for _, name := range slices.Sorted(maps.Keys(a.service.instances)) {
		if strings.HasPrefix(name, req.GetParent()+"/") {
			instances = append(instances, a.service.instances[name])
		}
	}
	resp := &instancepb.ListInstancesResponse{}
	resp.Instances, resp.NextPageToken = page(instances, (*instancepb.Instance).GetName, req.GetPageSize(), req.GetPageToken())
	return resp, nil
}

func (a *instanceAPI) DeleteInstance(_ context.Context, req *instancepb.DeleteInstanceRequest) (*emptypb.Empty, error) {
	a.service.mu.Lock()
	defer a.service.mu.Unlock()
	if _, ok := a.service.instances[req.GetName()]; !ok {
		return nil, notFound("Instance", instanceType, req.GetName())
	}
	delete(a.service.instances, req.GetName())
	maps.DeleteFunc(a.service.databases, func(name string, _ *database) bool {
		return strings.HasPrefix(name, req.GetName()+"/databases/")
	})
	return &emptypb.Empty{}, nil
}

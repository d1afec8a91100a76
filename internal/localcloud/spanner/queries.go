package spanner

import (
	"context"

	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/parse"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/query"
	"github.com/spotbatch/spotbatch/internal/localcloud/spanner/rows"
)

func (a *dataAPI) ExecuteSql(ctx context.Context, req *spannerpb.ExecuteSqlRequest) (*spannerpb.ResultSet, error) { //nolint:revive // the protocol's name
	if parse.IsChange(req.GetSql()) {
		return a.executeChange(ctx, req)
	}
	res, err := a.prepareQuery(ctx, req)
	if err != nil {
		return nil, err
	}
	return res.collect(ctx)
}

func (a *dataAPI) ExecuteStreamingSql(req *spannerpb.ExecuteSqlRequest, stream spannerpb.Spanner_ExecuteStreamingSqlServer) error { //nolint:revive // the protocol's name
	if parse.IsChange(req.GetSql()) {
		changed, err := a.executeChange(stream.Context(), req)
		if err != nil {
			return err
		}
		return stream.Send(&spannerpb.PartialResultSet{Metadata: changed.GetMetadata(), Stats: changed.GetStats()})
	}
	res, err := a.prepareQuery(stream.Context(), req)
	if err != nil {
		return err
	}
	return res.stream(stream.Context(), req.GetResumeToken(), stream.Send)
}

// prepareQuery checks a query and resolves its transaction.
func (a *dataAPI) prepareQuery(ctx context.Context, req *spannerpb.ExecuteSqlRequest) (*result, error) {
	db, _, err := a.service.session(req.GetSession())
	if err != nil {
		return nil, err
	}
	if err := checkMode(req); err != nil {
		return nil, err
	}
	params, err := decodeParams(req)
	if err != nil {
		return nil, err
	}
	compiled, err := query.Compile(db.rows, req.GetSql(), params)
	if err != nil {
		return nil, err
	}
	v, err := db.view(ctx, req.GetTransaction())
	if err != nil {
		return nil, err
	}
	if table, spans := compiled.Reads(); table != nil {
		if err := v.observe(table, spans); err != nil {
			return nil, err
		}
	}
	res := &result{view: v, await: db.rows.AwaitTimestamp, run: compiled.Run}
	for _, column := range compiled.Columns {
		res.fields = append(res.fields, field{name: column.Name, kind: column.Kind})
	}
	return res, nil
}

// checkMode names what localcloud does not do with a statement.
func checkMode(req *spannerpb.ExecuteSqlRequest) error {
	switch {
	case req.GetQueryMode() != spannerpb.ExecuteSqlRequest_NORMAL:
		return status.Errorf(codes.Unimplemented, "localcloud does not support query mode %s.", req.GetQueryMode())
	case len(req.GetPartitionToken()) > 0:
		return status.Error(codes.Unimplemented, "localcloud does not support partitioned queries.")
	default:
		return nil
	}
}

// parametrised is a statement with its parameters, in either of the protocol's messages.
type parametrised interface {
	GetSql() string
	GetParams() *structpb.Struct
	GetParamTypes() map[string]*spannerpb.Type
}

// decodeParams reads the parameters of a statement. One without a declared type keeps it open.
func decodeParams(req parametrised) (map[string]query.Param, error) {
	params := make(map[string]query.Param, len(req.GetParams().GetFields()))
	for name, value := range req.GetParams().GetFields() {
		param, err := decodeParam(req.GetParamTypes()[name], value)
		if err != nil {
			return nil, status.Errorf(status.Code(err), "query parameter @%s: %s", name, status.Convert(err).Message())
		}
		params[name] = param
	}
	return params, nil
}

func decodeParam(declared *spannerpb.Type, value *structpb.Value) (query.Param, error) {
	if declared == nil || declared.GetCode() == spannerpb.TypeCode_TYPE_CODE_UNSPECIFIED {
		switch value.GetKind().(type) {
		case *structpb.Value_NullValue, *structpb.Value_BoolValue, *structpb.Value_NumberValue, *structpb.Value_StringValue:
			return query.Param{Value: value.AsInterface()}, nil
		default:
			return query.Param{}, status.Error(codes.Unimplemented, "localcloud needs the type of a parameter that is no scalar.")
		}
	}
	element := declared
	if declared.GetCode() == spannerpb.TypeCode_ARRAY {
		element = declared.GetArrayElementType()
	}
	kind, ok := kindOf(element.GetCode())
	if !ok {
		return query.Param{}, status.Errorf(codes.Unimplemented, "localcloud does not support parameters of type %s.", element.GetCode())
	}
	if element == declared {
		decoded, ok := decodeValue(kind, value)
		if !ok {
			return query.Param{}, wrongParam(kind)
		}
		return query.Param{Kind: kind, Value: decoded}, nil
	}
	return decodeArray(kind, value)
}

func decodeArray(kind rows.Kind, value *structpb.Value) (query.Param, error) {
	param := query.Param{Kind: kind, Array: true}
	if _, null := value.GetKind().(*structpb.Value_NullValue); null {
		return param, nil
	}
	list := []any{}
	for _, element := range value.GetListValue().GetValues() {
		decoded, ok := decodeValue(kind, element)
		if !ok {
			return query.Param{}, wrongParam(kind)
		}
		list = append(list, decoded)
	}
	param.Value = list
	return param, nil
}

func wrongParam(kind rows.Kind) error {
	return status.Errorf(codes.InvalidArgument, "Invalid value: Expected %s.", kind)
}

package pubsub

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// onlyFields refuses a message that sets a field which is not in known, also
// one that the API gained after this was built: nothing is ignored in silence.
func onlyFields(m proto.Message, known map[string]bool) error {
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		return unimplemented(describe(m, "an unknown field"))
	}
	var err error
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(f.Name())
		if known[name] || (name == "push_config" && isEmpty(v.Message())) {
			return true // an empty push_config means pull
		}
		err = unimplemented(describe(m, name))
		return false
	})
	return err
}

// isEmpty reports whether no field is set.
func isEmpty(m protoreflect.Message) bool {
	empty := true
	m.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
		empty = false
		return false
	})
	return empty
}

func describe(m proto.Message, field string) string {
	return field + " of a " + strings.ToLower(string(m.ProtoReflect().Descriptor().Name()))
}

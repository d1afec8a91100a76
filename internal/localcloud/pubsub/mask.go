package pubsub

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// merge copies the fields that an update mask names from src into dst, two
// messages of one type. A path may name a part of a field, such as
// retry_policy.minimum_backoff; then the rest of the field stays. mutable are the
// fields that can be updated here, immutable those that cannot be in the service.
func merge(dst, src proto.Message, paths []string, mutable map[string]bool, immutable []string) error {
	if len(paths) == 0 {
		return invalid("update_mask is empty: name the fields to update")
	}
	for _, path := range paths {
		if err := checkPath(src, path, mutable, immutable); err != nil {
			return err
		}
		if err := mergePath(dst.ProtoReflect(), src.ProtoReflect(), path, path); err != nil {
			return err
		}
	}
	return nil
}

// checkPath says why a path cannot be updated.
func checkPath(m proto.Message, path string, mutable map[string]bool, immutable []string) error {
	top, _, _ := strings.Cut(path, ".")
	field := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(top))
	switch {
	case field == nil:
		return notAField(m.ProtoReflect(), path)
	case slices.Contains(immutable, top):
		return invalid("update_mask names %.300q, which cannot be changed", path)
	case mutable[top]:
		return nil
	}
	// It is not there; to clear it changes nothing. An empty push_config means pull.
	if value := m.ProtoReflect(); !value.Has(field) || (top == "push_config" && isEmpty(value.Get(field).Message())) {
		return nil
	}
	return unimplemented("the update of " + describe(m, top))
}

func notAField(m protoreflect.Message, path string) error {
	return invalid("update_mask names %.300q, which is no field of a %s", path, strings.ToLower(string(m.Descriptor().Name())))
}

// mergePath copies one field. rest is the part of path below dst and src.
func mergePath(dst, src protoreflect.Message, path, rest string) error {
	name, below, nested := strings.Cut(rest, ".")
	field := dst.Descriptor().Fields().ByName(protoreflect.Name(name))
	if field == nil {
		return notAField(dst, path)
	}
	if !nested {
		if src.Has(field) {
			dst.Set(field, src.Get(field))
		} else {
			dst.Clear(field)
		}
		return nil
	}
	if field.Kind() != protoreflect.MessageKind || field.IsList() || field.IsMap() {
		return invalid("update_mask names %.300q, but %.300q has no fields of its own", path, name)
	}
	return mergePath(dst.Mutable(field).Message(), src.Get(field).Message(), path, below)
}

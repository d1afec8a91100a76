package config

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"
)

// Write prints every key with its value, its source and its variable, one a
// line, as check-config shows it.
func Write(w io.Writer, cfg Config, sources map[string]Source) error {
	var err error
	walk(reflect.ValueOf(cfg), "", func(key string, leaf reflect.Value) {
		if err == nil {
			_, err = fmt.Fprintf(w, "%-34s %-40s # %s; %s\n", key+":", show(leaf), sources[key], EnvName(key))
		}
	})
	return err
}

func show(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case Bytes:
		return x.String()
	}
	if v.Kind() == reflect.Slice && v.Len() == 0 {
		return "[]"
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprint(v.Interface())
	}
	return string(text)
}

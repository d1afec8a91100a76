package config_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/spotbatch/spotbatch/internal/config"
)

// A key that the core is not told of would do nothing.
func TestWorkerLeavesNothingOut(t *testing.T) {
	cfg := config.Default()
	cfg.Pull.MaxOutstanding, cfg.Pull.ExitWhenIdle = 64, time.Minute
	got := reflect.ValueOf(cfg.Worker("w1"))
	for i := range got.NumField() {
		if got.Field(i).IsZero() {
			t.Errorf("%s is not set", got.Type().Field(i).Name)
		}
	}
}

package config

import "github.com/spotbatch/spotbatch/internal/worker"

// Worker is what the core of a worker is told of the configuration. name is
// what rows say of who made them.
func (c Config) Worker(name string) worker.Config {
	return worker.Config{
		Name:              name,
		MaxHeld:           c.Pull.MaxOutstanding,
		BatchSize:         c.Batch.MaxSize,
		BatchWait:         c.Batch.MaxWait,
		BatchBytes:        int64(c.Batch.MaxBytes),
		InferConcurrency:  c.Infer.Concurrency,
		InferTimeout:      c.Infer.Timeout,
		MaxItemFailures:   c.Infer.MaxItemFailures,
		MaxItemCrashes:    c.Infer.MaxItemCrashes,
		SuspectAfter:      c.Infer.SuspectAfter,
		CommitConcurrency: c.Commit.Concurrency,
		StoreTimeout:      c.Commit.Timeout,
		LoadTimeout:       c.Model.StartTimeout,
		ExitWhenIdle:      c.Pull.ExitWhenIdle,
		HardStop:          c.HardStop(),
	}
}

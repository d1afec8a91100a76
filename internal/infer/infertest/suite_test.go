package infertest_test

import (
	"context"
	"testing"

	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

func TestFakeConforms(t *testing.T) {
	infertest.Run(t, func(t *testing.T) infertest.Bundle {
		row := func(id, data string) item.Item {
			return item.Item{Key: item.Key{RunID: "r", ItemID: id}, ContentType: item.ContentTypeJSON, Data: []byte(data)}
		}
		slow := row("slow", `{}`)
		fake := &infertest.Fake{T: t, Concurrency: 2}
		fake.RunFunc = func(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
			if batch[0].Item.Key == slow.Key {
				<-ctx.Done()
				return nil, worker.Fail(worker.ClassTransient, context.Cause(ctx))
			}
			return infertest.Echo(batch), nil
		}
		return infertest.Bundle{
			Runner: fake, Good: []item.Item{row("a", `1`), row("b", `2`), row("c", `{}`)},
			Bad: []item.Item{row("bad", `{`)}, Slow: &slow, Concurrency: 2,
		}
	})
}

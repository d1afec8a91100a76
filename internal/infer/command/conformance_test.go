package command_test

import (
	"log/slog"
	"testing"

	"github.com/spotbatch/spotbatch/internal/infer/command"
	"github.com/spotbatch/spotbatch/internal/infer/infertest"
	"github.com/spotbatch/spotbatch/internal/item"
)

func TestConformance(t *testing.T) {
	infertest.Run(t, func(*testing.T) infertest.Bundle {
		row := func(id, data string) item.Item {
			return item.Item{Key: item.Key{RunID: "r", ItemID: id}, ContentType: item.ContentTypeJSON, Data: []byte(data)}
		}
		slow := row("slow", `{"do":"hang"}`)
		return infertest.Bundle{
			Runner: command.New(childConfig("serve"), 2, slog.New(slog.DiscardHandler)),
			Good: []item.Item{
				row("a", `{"f": 1.50}`), row(`b " ü`, `[9007199254740993]`),
				{Key: item.Key{RunID: "r", ItemID: "c"}, ContentType: "image/png", Data: []byte{1, 2, 3}},
			},
			Bad:  []item.Item{row("x", `{"a":`), row("y", ``), row("z", "\"\xff\"")},
			Slow: &slow, Concurrency: 2,
		}
	})
}

package command_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/config"
	"github.com/spotbatch/spotbatch/internal/infer/command"
)

// TestMain makes the test binary its own child program: the first argument
// says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		os.Exit(childMain(os.Args[2], os.Args[3:])) //nolint:forbidigo // This process is the child.
	}
	// A program under the race detector sleeps a second before it exits.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	goleak.VerifyTestMain(m)
}

// childConfig returns a model whose program is this test's, in one of the
// modes of childMain.
func childConfig(mode string, args ...string) config.Model {
	return config.Model{
		Kind: "command", Command: append([]string{os.Args[0], "child", mode}, args...), StartTimeout: time.Minute,
	}
}

// forever waits longer than any test.
func forever() { <-time.After(time.Hour) }

const readyLine = `{"ready":true,"protocol":1,"model_version":"child-1","max_batch":8}`

func childMain(mode string, args []string) int {
	switch mode {
	case "serve": // args: the ready line, if not the usual one
		line := readyLine
		if len(args) > 0 {
			line = args[0]
		}
		fmt.Println(line)
		return serve()
	case "once": // ready the first time, then never again; arg: a file to tell by
		if _, err := os.Stat(args[0]); err == nil {
			fmt.Fprintln(os.Stderr, "cannot start twice")
			return 9
		}
		_ = os.WriteFile(args[0], nil, 0o600)
		fmt.Println(readyLine)
		return serve()
	case "versions": // another model version at each start; arg: a file to count in
		f, _ := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
		_, _ = f.WriteString("x")
		info, _ := f.Stat()
		fmt.Printf(`{"ready":true,"protocol":1,"model_version":"v%d"}`+"\n", info.Size())
		return serve()
	case "say": // args: lines
		fmt.Println(strings.Join(args, "\n"))
		forever()
	case "slow": // never ready
		forever()
	case "die": // args: exit code, last words
		fmt.Fprintln(os.Stderr, "a line before")
		fmt.Fprintln(os.Stderr, args[1])
		code, _ := strconv.Atoi(args[0])
		return code
	case "stubborn": // ignores the end of its input and SIGTERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(readyLine)
		forever()
	case "deaf": // never ready, and ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		forever()
	case "family": // has a child of its own; arg: a file for that child's ID
		grand := exec.Command(os.Args[0], "child", "deaf")
		grand.Stdout, grand.Stderr = os.Stdout, os.Stderr // holds the pipes open
		if err := grand.Start(); err != nil {
			return 1
		}
		_ = os.WriteFile(args[0], []byte(strconv.Itoa(grand.Process.Pid)), 0o600)
		forever()
	case "worker": // a worker with a stubborn runner; it tells its runner's ID
		r := command.New(childConfig("tellpid", args[0]), 1, slog.New(slog.DiscardHandler))
		if _, err := r.Load(context.Background()); err != nil {
			return 1
		}
		forever()
	case "tellpid":
		_ = os.WriteFile(args[0]+".tmp", []byte(strconv.Itoa(os.Getpid())), 0o600)
		_ = os.Rename(args[0]+".tmp", args[0])
		fmt.Println(readyLine)
		forever()
	}
	return 0
}

// request is a batch as the child reads it. Data of each item says what the
// child does.
type request struct {
	Batch string `json:"batch"`
	Items []struct {
		RunID       string          `json:"run_id"`
		ItemID      string          `json:"item_id"`
		ContentType string          `json:"content_type"`
		Data        json.RawMessage `json:"data"`
		DataB64     *string         `json:"data_b64"`
	} `json:"items"`
}

// order is what the data of an item may ask for.
type order struct {
	Do    string          `json:"do"`
	Text  string          `json:"text"`
	Value json.RawMessage `json:"value"`
}

// serve answers each batch until the end of input. Output of a plain item is
// its data; of one without JSON, {"bytes": n}.
func serve() int {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return 0
		}
		var req request
		if err := json.Unmarshal(line, &req); err != nil {
			fmt.Fprintln(os.Stderr, "bad batch:", err)
			return 5
		}
		var results []string
		bye := false
		for _, it := range req.Items {
			id, _ := json.Marshal(it.ItemID)
			output := string(it.Data)
			if it.DataB64 != nil {
				data, err := base64.StdEncoding.DecodeString(*it.DataB64)
				if err != nil {
					return 6
				}
				output = fmt.Sprintf(`{"bytes":%d}`, len(data))
			}
			var o order
			_ = json.Unmarshal(it.Data, &o)
			switch o.Do {
			case "crash":
				fmt.Fprintln(os.Stderr, o.Text)
				return 3
			case "sigkill":
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case "hang":
				forever()
			case "sleep":
				d, _ := time.ParseDuration(o.Text)
				<-time.After(d)
			case "print":
				fmt.Println(o.Text)
			case "raw": // the whole answer, with the batch's ID for BATCH
				fmt.Println(strings.ReplaceAll(o.Text, "BATCH", req.Batch))
				goto next
			case "big":
				n, _ := strconv.Atoi(o.Text)
				output = `"` + strings.Repeat("x", n) + `"`
			case "output":
				output = o.Text
			case "bye": // answers, then ends
				bye = true
			case "pid":
				output = strconv.Itoa(os.Getpid())
			case "close": // ends its output, not itself
				_ = os.Stdout.Close()
				forever()
			case "error":
				results = append(results, fmt.Sprintf(`{"item_id":%s,"error":%s}`, id, o.Value))
				continue
			}
			results = append(results, fmt.Sprintf(`{"item_id":%s,"output":%s}`, id, output))
		}
		fmt.Printf(`{"batch":"%s","results":[%s]}`+"\n", req.Batch, strings.Join(results, ","))
		if bye {
			return 0
		}
	next:
	}
}

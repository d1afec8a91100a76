// Command runner is a model for tests: it speaks the command protocol, takes a
// stated time for each batch, and answers {"square": n*n} for {"n": n}. It
// imports no package of the project, so that it holds the protocol to what is
// documented.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

type request struct {
	Batch string `json:"batch"`
	Items []struct {
		ItemID string `json:"item_id"`
		Data   struct {
			N          *int64 `json:"n"`
			Die        bool   `json:"die"`
			KillWorker bool   `json:"kill_worker"`
		} `json:"data"`
	} `json:"items"`
}

type reply struct {
	Batch   string   `json:"batch"`
	Results []result `json:"results"`
}

type result struct {
	ItemID string     `json:"item_id"`
	Output any        `json:"output,omitempty"`
	Error  *itemError `json:"error,omitempty"`
}

type itemError struct {
	Class   string `json:"class"`
	Message string `json:"message"`
}

func main() {
	readyAfter := flag.Duration("ready-after", 0, "time that loading the model takes")
	sleep := flag.Duration("sleep", 0, "time that a batch takes")
	driver := flag.String("driver", "", "file without which there is no device")
	noDevice := flag.Bool("no-device", false, "say that there is no device, and end")
	flag.Parse()
	if *noDevice {
		fmt.Println(`{"error":{"class":"device","message":"no CUDA-capable device is detected"}}`)
		return
	}
	if *driver != "" {
		if _, err := os.Stat(*driver); err != nil {
			fmt.Fprintln(os.Stderr, "runner: no driver:", err)
			os.Exit(1)
		}
	}
	time.Sleep(*readyAfter)
	if err := serve(os.Stdin, os.Stdout, *sleep); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

// serve answers batches until in ends.
func serve(in io.Reader, out io.Writer, sleep time.Duration) error {
	encoder := json.NewEncoder(out)
	if err := encoder.Encode(map[string]any{"ready": true, "protocol": 1, "model_version": "square-1"}); err != nil {
		return err
	}
	decoder := json.NewDecoder(bufio.NewReader(in))
	for {
		var req request
		if err := decoder.Decode(&req); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		time.Sleep(sleep)
		if err := encoder.Encode(answer(req)); err != nil {
			return err
		}
	}
}

func answer(req request) reply {
	r := reply{Batch: req.Batch, Results: []result{}}
	for _, it := range req.Items {
		switch {
		case it.Data.Die:
			os.Exit(3)
		case it.Data.KillWorker:
			// As native code does that crashes inside the worker's own process.
			_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
			os.Exit(3)
		case it.Data.N == nil:
			r.Results = append(r.Results, result{ItemID: it.ItemID, Error: &itemError{Class: "item_error", Message: "the item has no number n"}})
		default:
			r.Results = append(r.Results, result{ItemID: it.ItemID, Output: map[string]int64{"square": *it.Data.N * *it.Data.N}})
		}
	}
	return r
}

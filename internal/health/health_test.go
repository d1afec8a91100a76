package health_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestServer(t *testing.T) {
	var ready atomic.Bool
	s, err := health.Listen(t.Context(), "127.0.0.1:0", ready.Load)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	url := "http://" + s.Addr()
	for _, tt := range []struct {
		ready bool
		path  string
		want  int
	}{
		{false, "/livez", 200},
		{false, "/readyz", 503},
		{true, "/livez", 200},
		{true, "/readyz", 200},
		{false, "/readyz", 503},
		{false, "/", 404},
	} {
		ready.Store(tt.ready)
		if got := get(t, url+tt.path); got != tt.want {
			t.Errorf("%s while ready is %t: got %d, want %d", tt.path, tt.ready, got, tt.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve after Close: %v", err)
	}
}

func TestAddressThatIsTaken(t *testing.T) {
	s, err := health.Listen(t.Context(), "127.0.0.1:0", func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = health.Listen(t.Context(), s.Addr(), func() bool { return true })
	if err == nil || !strings.Contains(err.Error(), "health.addr "+s.Addr()) {
		t.Errorf("second Listen: got %v, want an error that names key and address", err)
	}
}

package health_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/spotbatch/spotbatch/internal/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, url string) (int, string) {
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
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestServer(t *testing.T) {
	var ready, stuck atomic.Bool
	alive := func() error {
		if stuck.Load() {
			return errors.New("nothing moves")
		}
		return nil
	}
	s, err := health.Listen(t.Context(), "127.0.0.1:0", alive, ready.Load)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	url := "http://" + s.Addr()
	for _, tt := range []struct {
		ready, stuck bool
		path         string
		want         int
		text         string
	}{
		{false, false, "/livez", 200, "ok\n"},
		{false, false, "/readyz", 503, "not ready\n"},
		{true, false, "/livez", 200, "ok\n"},
		{true, false, "/readyz", 200, "ok\n"},
		{true, true, "/livez", 503, "nothing moves\n"},
		{true, true, "/readyz", 200, "ok\n"},
		{false, false, "/livez", 200, "ok\n"},
		{false, false, "/readyz", 503, "not ready\n"},
		{false, false, "/", 404, "404 page not found\n"},
	} {
		ready.Store(tt.ready)
		stuck.Store(tt.stuck)
		if got, text := get(t, url+tt.path); got != tt.want || text != tt.text {
			t.Errorf("%s while ready is %t and stuck %t: got %d %q, want %d %q", tt.path, tt.ready, tt.stuck, got, text, tt.want, tt.text)
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
	alive := func() error { return nil }
	s, err := health.Listen(t.Context(), "127.0.0.1:0", alive, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = health.Listen(t.Context(), s.Addr(), alive, func() bool { return true })
	if err == nil || !strings.Contains(err.Error(), "health.addr "+s.Addr()) {
		t.Errorf("second Listen: got %v, want an error that names key and address", err)
	}
}

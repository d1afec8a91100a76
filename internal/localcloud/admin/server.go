package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
)

const (
	maxBody = 64 << 10
	// maxItemID is the longest attribute value that Pub/Sub takes, in bytes.
	maxItemID = 1024
)

// Sources are what a Server shows and changes.
type Sources struct {
	Faults  *fault.Faults
	Methods Methods        // what faults can name
	Broker  *broker.Broker // nil: no Pub/Sub
	History *History       // nil likewise
	Rows    Rows           // nil: no Spanner
}

// Server is the admin API. Make one with New. It is safe for concurrent use.
type Server struct {
	faults  *fault.Faults
	methods Methods
	broker  *broker.Broker
	history *History
	counter *counter
}

// New returns a Server.
func New(sources Sources) *Server {
	s := &Server{faults: sources.Faults, methods: sources.Methods, broker: sources.Broker, history: sources.History}
	if sources.Rows != nil {
		s.counter = newCounter(sources.Rows)
	}
	return s
}

// Run counts rows when the API is asked for them, until ctx is done. Without it there are no rows in the state.
func (s *Server) Run(ctx context.Context) error {
	if s.counter != nil {
		s.counter.run(ctx)
	}
	return nil
}

// Handler returns the HTTP handler of the API and of the page.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", allow(servePage, http.MethodGet))
	mux.HandleFunc("/state", allow(answer(s.getState), http.MethodGet))
	mux.HandleFunc("/faults", allow(answer(s.serveFaults), http.MethodGet, http.MethodPost, http.MethodDelete))
	mux.HandleFunc("/faults/{id}", allow(answer(s.deleteFault), http.MethodDelete))
	mux.HandleFunc("/", answer(func(r *http.Request) (int, any, error) {
		return 0, nil, notFound("there is nothing at " + quote(r.URL.Path) + "; there are /, /state and /faults")
	}))
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(answer(func(*http.Request) (int, any, error) {
		return 0, nil, requestError{http.StatusForbidden, "a page of another site must not change anything here"}
	}))
	return protection.Handler(mux)
}

func (s *Server) getState(r *http.Request) (int, any, error) {
	query := r.URL.Query()
	for name, values := range query {
		if !slices.Contains([]string{"subscription", attrItemID, attrRunID}, name) {
			return 0, nil, badRequest("unknown parameter " + quote(name) + "; there are subscription, item_id and run_id")
		}
		if len(values) > 1 {
			return 0, nil, badRequest(name + " is given more than once")
		}
	}
	item, run, subscription := query.Get(attrItemID), query.Get(attrRunID), query.Get("subscription")
	switch {
	case len(item) > maxItemID || !utf8.ValidString(item):
		return 0, nil, badRequest(fmt.Sprintf("item_id must be UTF-8 of at most %d bytes", maxItemID))
	case item == "" && run != "":
		return 0, nil, badRequest("run_id narrows down item_id, and there is none")
	case item != "" && s.history == nil:
		return 0, nil, notFound("this localcloud runs without Pub/Sub, so items have no history")
	}
	state, err := s.state(r.Context(), subscription)
	if err != nil {
		return 0, nil, err
	}
	if item != "" {
		found := s.history.Item(item, run, subscription)
		state.Item = &found
	}
	return http.StatusOK, state, nil
}

func (s *Server) serveFaults(r *http.Request) (int, any, error) {
	switch r.Method {
	case http.MethodPost:
		return s.addFault(r)
	case http.MethodDelete:
		return http.StatusOK, map[string]int{"removed": s.faults.Clear()}, nil
	}
	return http.StatusOK, map[string][]Fault{"faults": s.listFaults()}, nil
}

func (s *Server) addFault(r *http.Request) (int, any, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return 0, nil, badRequest("the body cannot be read: " + err.Error())
	}
	if len(body) > maxBody {
		return 0, nil, badRequest("the body is longer than 64 KiB")
	}
	rule, err := s.methods.parseRule(body)
	if err != nil {
		return 0, nil, badRequest(err.Error())
	}
	added := describe(rule)
	added.ID = s.faults.Add(rule)
	return http.StatusCreated, added, nil
}

func (s *Server) deleteFault(r *http.Request) (int, any, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		return 0, nil, badRequest("the ID " + quote(r.PathValue("id")) + " is no number")
	}
	if !s.faults.Remove(id) {
		return 0, nil, notFound(fmt.Sprintf("there is no fault %d: it was removed, or has struck as often as it should", id))
	}
	return http.StatusOK, map[string]int{"removed": 1}, nil
}

// requestError is what is wrong with a request.
type requestError struct {
	status int
	text   string
}

func (e requestError) Error() string { return e.text }

func badRequest(text string) error { return requestError{http.StatusBadRequest, text} }
func notFound(text string) error   { return requestError{http.StatusNotFound, text} }

// quote keeps hostile text on one line and short.
func quote(s string) string {
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "..."
	}
	return strconv.Quote(s)
}

// answer turns a function into a handler that writes JSON.
func answer(serve func(*http.Request) (status int, body any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, body, err := serve(r)
		if err != nil {
			status = http.StatusInternalServerError
			if request, ok := errors.AsType[requestError](err); ok {
				status = request.status
			}
			body = map[string]string{"error": strings.ReplaceAll(err.Error(), "\n", " ")}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(body); err != nil {
			slog.DebugContext(r.Context(), "admin client went away", "error", err)
		}
	}
}

// allow refuses other methods than those given; HEAD goes with GET.
func allow(next http.HandlerFunc, methods ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(methods, r.Method) || r.Method == http.MethodHead && slices.Contains(methods, http.MethodGet) {
			next(w, r)
			return
		}
		list := strings.Join(methods, ", ")
		w.Header().Set("Allow", list)
		answer(func(r *http.Request) (int, any, error) {
			return 0, nil, requestError{http.StatusMethodNotAllowed, r.Method + " is not possible here; possible: " + list}
		})(w, r)
	}
}

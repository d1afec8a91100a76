# `make help` lists what there is. Needs Go, gcc and make; npm for the ONNX
# Runtime library and the MNIST images of the demo; Docker only where it says so.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)

# Shell commands in front of a recipe: they put the library's path where
# runners and tests look for it, and end the recipe when it cannot be had.
ORT := ONNXRUNTIME_LIB="$$(scripts/fetch.sh onnxruntime)"; export ONNXRUNTIME_LIB;

# Time for each fuzz target, repetitions of `make race` and of `make bench-code`.
FUZZTIME ?= 5s
COUNT ?= 5
# The runs of `make chaos`: how many, or for how many minutes, the seed of the
# first one (0: another each time), and how many at once.
RUNS ?= 100
MINUTES ?= 0
SEED ?= 0
PARALLEL ?= 8
# What `make bench-code` compares with, such as a bench.txt of another commit.
BASE ?=
# Parts of `make bench`, with commas between them; all when empty.
PARTS ?=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/worker, bin/publisher and bin/localcloud
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/worker ./cmd/publisher ./cmd/localcloud

.PHONY: demo
demo: build .cache/digits/labels.csv ## Run the whole job on one machine: 10,000 images, one worker drained, one killed
	go build -o bin/demo ./test/demo
	$(ORT) exec bin/demo

.PHONY: onnxruntime
onnxruntime: ## Fetch the ONNX Runtime library into .cache and print its path
	@scripts/fetch.sh onnxruntime

.cache/digits/labels.csv:
	scripts/fetch.sh mnist >/dev/null
	go run ./examples/digits/prepare -out .cache/digits

.PHONY: test
test: ## Run all tests that need no Docker, with the race detector
	scripts/fetch.sh mnist >/dev/null
	$(ORT) SPOTBATCH_TEST_REQUIRE_ONNX=1 go test -race $$(go list ./... | grep -v /test/containers)

.PHONY: test-containers
test-containers: ## Run workers as containers, stop one and kill one; skips without Docker
	go test -count=1 -v ./test/containers/...

.PHONY: test-node
test-node: ## Test localcloud with Node's official clients, which npm fetches
	SPOTBATCH_TEST_REQUIRE_NODE=1 go test -count=1 -v ./test/node/...

.PHONY: test-page
test-page: ## Test localcloud's page in a headless Chromium
	SPOTBATCH_TEST_REQUIRE_BROWSER=1 go test -count=1 -v -run Page ./internal/localcloud/admin

.PHONY: test-helm
test-helm: bin/tools/helm ## Render the Helm chart and check what comes out
	SPOTBATCH_TEST_REQUIRE_HELM=1 go test -count=1 ./deploy/helm/...

.PHONY: race
race: ## Run the tests of internal/ COUNT times in random order with the race detector
	$(ORT) go test -race -count=$(COUNT) -shuffle=on ./internal/...

.PHONY: lint
lint: bin/tools/golangci-lint ## Run the linters, and check formatting, file sizes and go.mod
	scripts/check-files.sh
	go mod tidy -diff
	bin/tools/golangci-lint fmt --diff
	bin/tools/golangci-lint run
	bin/tools/golangci-lint run --build-tags crashpoints ./internal/crash/...

.PHONY: fmt
fmt: bin/tools/golangci-lint ## Format the code
	bin/tools/golangci-lint fmt

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	$(ORT) scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: build ## Measure the worker against a stub model: busy, textbook, overhead, drain, goodput, scale (or PARTS)
	mkdir -p out
	go build -o bin/bench ./test/bench
	bin/bench -bin bin -parts '$(PARTS)' -json out/bench.json

.PHONY: bench-code
bench-code: bin/tools/benchstat ## Run the Go benchmarks COUNT times; compare with BASE when given
	mkdir -p out
	$(ORT) go test -run '^$$' -bench . -benchmem -count=$(COUNT) ./... | tee out/bench.txt
	bin/tools/benchstat $(BASE) out/bench.txt

.PHONY: bench-publisher
bench-publisher: build ## Compare the publisher with a bare loop, and publish 10,000,000 rows while it is killed
	go run ./test/publishbench -bin bin

.PHONY: bench-localcloud
bench-localcloud: build ## Measure localcloud with the official clients and print a table
	go run ./test/cloudbench -bin bin

.PHONY: conformance
conformance: build ## Run the Pub/Sub client's own integration tests against localcloud
	go run ./test/conformance -bin bin

.PHONY: chaos
chaos: ## Kill, freeze and break RUNS times (or for MINUTES) at random, from SEED on, and check the guarantees
	mkdir -p bin/chaos
	go build -o bin/chaos/ ./cmd/worker ./cmd/publisher ./test/chaos ./test/chaos/runner
	bin/chaos/chaos -bin bin/chaos -runs $(RUNS) -time $(MINUTES)m -seed $(SEED) -parallel $(PARALLEL)

.PHONY: verify
verify: lint test chaos test-helm conformance test-node test-page test-containers demo ## Do what CI does

.PHONY: images
images: ## Build the container images with Docker, tagged VERSION
	for target in worker worker-cpu worker-static publisher localcloud; do \
		DOCKER_BUILDKIT=1 docker build --target $$target --build-arg VERSION=$(VERSION) -t spotbatch-$$target:$(VERSION) .; \
	done

.PHONY: clean
clean: ## Remove what was built; .cache stays, with what was fetched
	rm -rf bin out

# Tools. Each is pinned in a module of its own, so that none drags the versions
# of another; it is built again when its pins change.
bin/tools/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	cd tools/lint && go build -trimpath -ldflags '-s -w' -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/tools/helm: tools/helm/go.mod tools/helm/go.sum
	cd tools/helm && go build -trimpath -ldflags '-s -w' -o ../../$@ helm.sh/helm/v4/cmd/helm

bin/tools/benchstat: tools/bench/go.mod tools/bench/go.sum
	cd tools/bench && go build -trimpath -o ../../$@ golang.org/x/perf/cmd/benchstat

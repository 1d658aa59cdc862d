# One set of flags for every development build and test: with different ones
# the Kubernetes packages would be compiled twice. Release binaries use none.
export GOFLAGS := -buildvcs=false '-gcflags=all=-l -dwarf=false' '-ldflags=-s -w'
SHELL := /bin/bash

BIN := bin
WLM ?= slurm
GO_TEST_FLAGS ?=
TOOLS := go tool -modfile=$(CURDIR)/test/tools/go.mod
# Modules of their own, which ./... does not reach. Of devcluster only what does not link
# Kubernetes: to check the rest takes minutes.
MODULES := build test/compat test/dashboard test/devcluster/internal test/helm test/page test/plot
VERSION ?=

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: install
install: ## Install the Debian packages that the demo needs (a no-op if they are there)
	@test/install.sh $(WLM)

.PHONY: install-tests
install-tests: ## Install those that the tests need
	@test/install.sh tests

.PHONY: build
build: ## Build the programs into bin/
	@echo "building gangline-controller, gangline-node, gangline-agent and kubectl-gangline"
	@go build -o $(BIN)/ ./cmd/gangline-node ./cmd/gangline-controller ./cmd/kubectl-gangline
	@CGO_ENABLED=0 go build -o $(BIN)/gangline-agent ./cmd/gangline-agent

.PHONY: build-faults
build-faults: ## Build the programs that end themselves where a test asks for it into bin/faults/
	@echo "building gangline-node and gangline-agent with fault points"
	@go build -tags faults -o $(BIN)/faults/ ./cmd/gangline-node
	@CGO_ENABLED=0 go build -tags faults -o $(BIN)/faults/gangline-agent ./cmd/gangline-agent

.PHONY: devcluster
devcluster: ## Build the dev control plane and kubectl into bin/ (the first time takes minutes)
	@test/devcluster/build.sh $(BIN)/devcluster
	@ln -sf devcluster $(BIN)/kubectl

.PHONY: metrics-server
metrics-server: ## Build the metrics-server of the tests into bin/ (the first time takes minutes)
	@echo "building metrics-server"
	@go build -C test/metricsserver -o $(CURDIR)/$(BIN)/metrics-server sigs.k8s.io/metrics-server/cmd/metrics-server

.PHONY: kueue
kueue: ## Build the Kueue of the tests into bin/ (the first time takes a minute)
	@echo "building kueue"
	@test/kueue/build.sh $(BIN)/kueue

.PHONY: pagecheck
pagecheck: ## Build what opens the node's web page in a browser, for the tests, into bin/
	@echo "building pagecheck"
	@go build -C test/page -o $(CURDIR)/$(BIN)/pagecheck .

.PHONY: demo
demo: install devcluster build ## Show the main job end to end (WLM=local: without Slurm)
	@go run ./test/demo up --wlm $(WLM)

.PHONY: demo-down
demo-down: ## End what demo has left running
	@go run ./test/demo down

.PHONY: test
test: install-tests devcluster metrics-server kueue pagecheck build build-faults unit e2e ## Pass all tests

.PHONY: unit
unit: ## Unit tests, and those of single parts against the real tools
	go test $(GO_TEST_FLAGS) $$(go list ./... | grep -v /test/e2e)
	cd test/compat && go test $(GO_TEST_FLAGS) ./...
	cd test/helm && go test $(GO_TEST_FLAGS) ./...
	cd test/dashboard && go test $(GO_TEST_FLAGS) ./...
	cd test/devcluster/internal && go test $(GO_TEST_FLAGS) ./...
	cd test/plot && go test $(GO_TEST_FLAGS) ./...
	cd build && go test $(GO_TEST_FLAGS) ./...

.PHONY: fuzz
fuzz: ## Run each fuzzer for a while (TIME=30s, FUZZ=Pattern); in the other tests they run on their seeds
	@test/fuzz.sh "$(TIME)" "$(FUZZ)"

.PHONY: e2e
e2e: ## End-to-end tests on a real control plane and a real Slurm
	go test $(GO_TEST_FLAGS) -count=1 -timeout 60m ./test/e2e/...

.PHONY: chaos
chaos: install-tests devcluster build ## Let saboteurs loose (SEED=, DURATION=60s, KILLS=1000): docs/chaos.md
	GANGLINE_CHAOS_SEED=$(or $(SEED),$(shell shuf -i 1-999999 -n 1)) GANGLINE_CHAOS_DURATION=$(or $(DURATION),60s) GANGLINE_CHAOS_KILLS=$(or $(KILLS),0) \
		go test $(GO_TEST_FLAGS) -count=1 -timeout 240m -v -run 'TestChaos$$' ./test/e2e/

.PHONY: soak
soak: install-tests devcluster build ## Have gangs come and go, and see that nothing grows (DURATION=1h): docs/chaos.md
	GANGLINE_SOAK_DURATION=$(or $(DURATION),1h) go test $(GO_TEST_FLAGS) -count=1 -timeout 240m -v -run TestSoak ./test/e2e/

# What is measured is built as it is released: calls are inlined.
bench scale: export GOFLAGS := -buildvcs=false '-ldflags=-s -w'

.PHONY: bench
bench: devcluster build ## Measure next to the bare tools: a table, and JSON and pictures in dist/bench (BENCH="--only start --rounds 9")
	@test/install.sh bench
	@go run ./test/bench --pictures $(BENCH)

.PHONY: scale
scale: devcluster ## Run thousands of simulated pods on a virtual node: a table next to the goals (PODS=10000 GANGS=100 SEED=1), or a storm over them (FAILURES=0.1 KILLS=5): docs/scale.md
	go run ./test/scale --pods $(or $(PODS),10000) --gangs $(or $(GANGS),100) --seed $(or $(SEED),1) --failures $(or $(FAILURES),0) --kills $(or $(KILLS),0) $(SCALE)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, shellcheck, generated files up to date
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo "run gofmt -w on these files"; exit 1; }
	go vet ./...
	go vet -tags faults ./provider/faults
	$(TOOLS) staticcheck ./...
	set -e; for module in $(MODULES); do echo "checking $$module"; cd $(CURDIR)/$$module; go vet ./...; $(TOOLS) staticcheck ./...; done
	shellcheck .ci/run $$(git ls-files '*.sh')
	go run ./controller/api/gen --check
	go run -C test/helm ./manifests --root ../.. --check

.PHONY: generate
generate: ## Write deep copies, CRDs, manifests and the generated documents anew
	go run ./controller/api/gen
	go test ./translate -run TestDocument -update
	go test ./provider/slurm -run TestDocument -update
	go test ./provider/observe/metrics -run TestDocument -update
	go test ./controller/manager -run TestDocument -update
	go test ./controller/manager -run TestTheWebhookManifest -update
	go run -C test/helm ./manifests --root ../..
	cd test/helm && go test -run TestRenders -update .

.PHONY: manifests
manifests: ## Render the chart with a site's own values, without Helm (VALUES=site.yaml OUT=folder NAMESPACE=)
	@test -n "$(VALUES)" -a -n "$(OUT)" || { echo "say which: make manifests VALUES=site.yaml OUT=folder"; exit 2; }
	@go run -C test/helm ./manifests --root ../.. --values "$(abspath $(VALUES))" --out "$(abspath $(OUT))" --namespace "$(or $(NAMESPACE),kubeflow-system)"

.PHONY: dist
dist: ## Make archives, images, chart and checksums in dist/ (VERSION=, PUSH=registry)
	go run -C build . --root .. --out ../dist --version "$(VERSION)" --push "$(PUSH)"

.PHONY: clean
clean: ## Remove bin/ and dist/
	rm -rf $(BIN) dist

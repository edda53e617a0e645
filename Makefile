# The commands of this project. Everything they need they install, or say how. Three tiers:
#
#   go test ./...   what a change of a line wants to know: no flags, no Docker; budget 3 minutes
#   make test       the same and more with the race detector, on real redis-servers, in Docker or processes; budget 8 minutes
#   .ci/run         that, servers of other versions, Java, fuzz, lint, bench; budget 15 minutes
#
# What takes longer is make soak. docs/internals/testing-this.md says what each of them notices.

GO   ?= go
GATE := $(GO) run ./internal/gate
TOOL := GOWORK=off $(GO) tool -modfile=.ci/tools/go.mod

.PHONY: test ci flaky hunt soak lint bench bench-check mutation rivals results release setup

test: setup
	$(GATE) test

# What .ci/run does besides make test.
ci: setup
	.ci/servers
	$(GATE) ci

# A tier ten times beside two busy loops: what was ever red, with logs in flaky/.
# make flaky N=3 LOAD=4 TIER=quick
flaky: setup
	$(GATE) flaky -n $(or $(N),10) -load $(or $(LOAD),2) -tier $(or $(TIER),test)

# All random tests in turn with new seeds. A seed that fails is printed with its command and the line for the list.
# make hunt BUDGET=1h ONLY=semaphore
hunt: setup
	$(GATE) hunt -budget $(or $(BUDGET),10m) -only "$(ONLY)"

# Hours of faults, long variants of tests, fuzz, mutants of the source, then a hunt. It ends with what it did and did not reach.
# Again with the same DIR, BUDGET and sources it goes on where it was. make soak BUDGET=8h DIR=soak
soak: setup
	$(GATE) soak -budget $(or $(BUDGET),1h) -dir $(or $(DIR),soak)

MODULES := $(patsubst %/go.mod,%,$(filter-out go.mod,$(shell git ls-files 'go.mod' '*/go.mod' ':!.ci')))

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	for m in $(MODULES); do $(GO) vet -C $$m ./... || exit 1; done
	# The root by itself, as programs get it: staticcheck compiles it so.
	GOWORK=off $(GO) mod tidy -diff
	$(GO) vet -tags mutants ./internal/mutants ./node/... ./redlock ./chaos/mutants ./internal/sim ./chaos/workload ./chaos/chaoscli
	$(TOOL) staticcheck ./...

bench:
	$(GO) run ./cmd/redlock-bench

bench-check: setup
	.ci/bench-check

# Changes one thing at a time in the packages that a lock rests on, and lists what no test
# notices. make mutation SEED=7 BUDGET=30m ONLY=internal/lock/ DEPTH=1
mutation: setup
	$(GO) run ./internal/mutation -go "$(GO)" -seed $(or $(SEED),0) -budget $(or $(BUDGET),30m) \
		-only "$(ONLY)" -depth $(or $(DEPTH),0)

# Measures this library and others on the same masters, in turns, and under the same faults, for some 50 minutes: raw data, page and pictures
# in docs. Wants a machine with nothing else to do. make rivals ROUNDS=10 HELD=1000,100000,1000000 FAULTS=12s
held = 1000,100000,1000000
rivals: setup
	.ci/setup rivals
	$(GO) run -C chaos/peers . measure --rounds $(or $(ROUNDS),10) --held $(or $(HELD),$(held)) --faults $(or $(FAULTS),12s) --commit "$$(git describe --always --dirty --abbrev=40)" --json "$(CURDIR)/raw.json"
	$(GO) run -C chaos/peers . results --out "$(CURDIR)/docs" "$(CURDIR)/raw.json"
	rm raw.json

# The page and its pictures from the raw data that are there.
results:
	$(GO) run -C chaos/peers . results --out "$(CURDIR)/docs" "$(CURDIR)/docs/results.json"

# make release VERSION=v0.1.0 sets the versions of all modules, commits, tags, and leaves archives and notes in dist. It pushes nothing.
# With DRY=1 neither branch nor tags change.
release:
	$(GO) run ./internal/release -version "$(VERSION)" $(if $(DRY),-dry)

setup:
	@.ci/setup

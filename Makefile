# The commands of this project. `make test` is what the README names; CI runs it
# with Docker required. Everything they need they install, or say how.

GO      ?= go
TOOL    := $(GO) tool -modfile=.ci/tools/go.mod
# Vet is part of lint.
TESTFLAGS ?= -race -count=1 -timeout 12m -vet=off
# Their tests start redis-servers and measure time: two at once on two cores are
# too many.
ALONE := ./redlock ./multilock ./node ./cmd/... ./chaos ./chaos/chaoscli
# These wait for containers and for Java most of the time.
PATIENT := ./chaos/cluster/... ./internal/redissontest
# These explore in one goroutine: the race detector has nothing to see there. make soak explores
# their large worlds.
MODELS := ./redlock/tokenmodel ./redlock/membershipmodel ./redlock/handoffmodel ./redlock/votesmodel

.PHONY: test test-servers lint fuzz bench bench-check mutation soak soak-membership setup

test: setup
	$(GO) test $(TESTFLAGS) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(ALONE) $(PATIENT) $(MODELS))")
	$(GO) test $(TESTFLAGS) -p 1 $(ALONE)
	$(GO) test $(TESTFLAGS) -p 2 $(PATIENT)
	# Without the race detector, for what is too much with it: the models, all
	# simulations and that a seed repeats, every nemesis on real masters, in Docker and out of it;
	# and the mutants' own build. One after the other: what only computes slows a
	# Docker engine down, nice or not.
	$(GO) test -short -count=1 -vet=off $(MODELS)
	$(GO) test -count=1 -vet=off -run '^TestSim_(slowMasters|handOff_cancel|tryLock_tenAtOnce|masterDownUnderLoad|masterBackWithMany)' ./redlock
	$(GO) test -count=1 -vet=off ./chaos/sim
	$(GO) test -count=1 -vet=off -run repeatsByThePrintedCommand ./chaos/chaoscli
	$(GO) test -count=1 -vet=off -run 'everyNemesis|Failover|harnessEndsBadly|twoAtOnce|TestOperator' ./chaos
	$(GO) test -count=1 -vet=off -tags mutants ./chaos/mutants
	$(GO) test -count=1 -vet=off -tags mutants -run TestMutants ./chaos/sim
	# Other libraries' locks under the same harness: a module of its own.
	$(GO) test -C chaos/peers -count=1 -vet=off .
	# The adapter of a scheduler that the lock does not need: a module of its own.
	$(GO) test -C compat/gocron -race -count=1 -vet=off .
	# OpenTelemetry, and Prometheus' own parser on our alerts and dashboard: modules of their own too.
	$(GO) test -C redlock/redlockotel -count=1 -vet=off .
	$(GO) test -C redlock/metrics/dashboard -count=1 -vet=off .

# Servers of other versions, where they are there: .ci/servers fetches them.
test-servers: setup
	.ci/test-servers

setup:
	@.ci/setup

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	# With -race, as the tests are built: there is a database among what they need.
	$(GO) vet -race ./...
	$(GO) vet -C chaos/peers .
	$(GO) vet -C compat/gocron .
	$(GO) vet -C redlock/redlockotel .
	$(GO) vet -C redlock/metrics/dashboard .
	$(GO) vet -tags mutants ./internal/mutants ./node/... ./redlock ./chaos/mutants ./chaos/sim ./chaos/workload ./chaos/chaoscli
	# The tests of fencesql bring a database in, which takes longer to analyse than
	# all else.
	$(TOOL) staticcheck $$($(GO) list ./... | grep -v /fencesql)
	$(TOOL) staticcheck -tests=false ./redlock/fence/fencesql

fuzz:
	$(GO) test -run '^$$' -fuzz FuzzOpen -fuzztime 3s ./node
	$(GO) test -run '^$$' -fuzz FuzzParseRecordState -fuzztime 3s ./internal/membership
	$(GO) test -run '^$$' -fuzz FuzzDecode -fuzztime 3s ./node/internal/wire
	$(GO) test -run '^$$' -fuzz FuzzOptions -fuzztime 3s ./redlock
	$(GO) test -run '^$$' -fuzz FuzzGrant -fuzztime 3s ./redlock/internal/holding
	$(GO) test -run '^$$' -fuzz FuzzWakes -fuzztime 3s ./redlock/internal/waiting

bench:
	$(GO) run ./cmd/redlock-bench

bench-check: setup
	.ci/bench-check

# Changes one thing at a time in the packages that a lock rests on, and lists what no test
# notices. make mutation SEED=7 BUDGET=30m ONLY=redlock/internal/ DEPTH=1
mutation: setup
	$(GO) run ./internal/mutation -go "$(GO)" -seed $(or $(SEED),0) -budget $(or $(BUDGET),30m) \
		-only "$(ONLY)" -depth $(or $(DEPTH),0)

# Hours, not minutes: chaos under the default nemeses with each persistence, then
# under all, then mutants, then the long variants of simulations and tests. It ends with a report.
# make soak SEED=7 PIECE=10m DIR=soak; .ci/soak lists more.
soak: setup
	GO="$(GO)" SEED="$(SEED)" .ci/soak

# An hour or two: the large worlds of the membership model, all pairs of operators
# and fifty times as many random walks. It prints states, seeds, and how to repeat
# a walk that fails. SEED=7 walks from that seed instead of those of the list.
soak-membership: setup
	REDLOCK_TIER=soak REDLOCK_SEED=$(SEED) $(GO) test -count=1 -vet=off -timeout 6h -v ./redlock/membershipmodel

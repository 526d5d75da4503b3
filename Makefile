# make test    the gate, on a fresh Debian machine: installs what it needs, then decides alike each time on the same tree
# make campaigns   what draws, repeats, measures or asks the network, and how comments are written: before a release
# make bench   the goals of internal/bench/goals.txt, beside an earlier version: one table
# make soak    long campaigns: fuzzing, crashes, lost replies
# make release VERSION=v0.1.0   writes the version into all modules; once that is committed, tags them (docs/decisions/0023)
# make screenshots   accepts how the console's pages look: testdata/pages of internal/integration/console, bin/console, docs/images/console
# make mutants changes of internal/mutants/mutants.txt, each of which a test has to notice
MODULES     = . cmd examples/payments internal/peerbench internal/recipes internal/integration outbox/riveroutbox store/pgxstore store/redisstore/goredisclient store/redisstore/rueidisclient
ALL         = github.com/stet-dev/stet/...
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    = 3s
ram         = $(shell sh internal/ram.sh)
each        = set -e; for m in $(MODULES); do echo "== $$m"; (cd $$m && $(1)); done

# Files of tests are in memory where there is room: how long a disk takes to sync says nothing about the code.
test campaigns mutants soak: export GOTMPDIR := $(or $(TMPDIR),/tmp)
test campaigns mutants soak: export TMPDIR = $(ram)

.PHONY: screenshots test tools lint campaigns fuzz bench soak build mutants release
test: tools                      # every phase runs; what failed is one list in the end
	@sh internal/gate.sh format vet root rest

tools:                           # the race detector is cgo
	@sh internal/tools.sh git gcc libc6-dev curl sqlite3 postgresql-15 mariadb-server redis-server pgbouncer chromium nginx-light haproxy caddy varnish

lint:
	@GOBIN=$(CURDIR)/bin go install $(STATICCHECK)
	@CGO_ENABLED=0 bin/staticcheck $(ALL)
	@STET_CAMPAIGNS=1 go test -vet=off ./internal/style      # how comments are written

campaigns: tools lint            # with a random part of make mutants and make fuzz
	@sh internal/tools.sh spin
	@STET_CAMPAIGNS=1 go test -vet=off -timeout 30m ./internal/model ./internal/mutants ./internal/release
	@go run ./internal/mutants -for 60s
	@sh internal/fuzz.sh 3s 30

fuzz:
	@sh internal/fuzz.sh $(FUZZTIME)

mutants: tools                   # what survives is said in the end; nothing in the tree is touched
	@REQUIRE_SERVERS=1 go run ./internal/mutants

build:
	cd cmd && CGO_ENABLED=0 go build -trimpath -o ../bin/stet ./stet

bench:
	@go run ./internal/bench

soak:
	@$(MAKE) fuzz FUZZTIME=10m
	@$(call each,STET_SOAK=1 go test -race -timeout 80m ./...)

screenshots: tools               # light, dark and narrow; look at what differs before it is committed
	@cd internal/integration && REQUIRE_SERVERS=1 STET_SHOTS=$(CURDIR)/bin/console go test -count 1 -run 'TestPages$$' ./console

release: test campaigns
	@go run ./internal/release $(VERSION)

# make test    the gate, on a fresh Debian machine: installs what it needs, then decides alike each time on the same tree
# make quick   the library alone, without servers, by what is cached: while you type
# make fix     mends what a program can mend: formatting, generated pages, files that tests compare with
# make campaigns   what draws, repeats, measures or asks the network, before a release; ONLY=linear, or another name
# make bench   the goals of internal/bench/goals.txt, beside an earlier version: one table
# make soak    long campaigns: fuzzing, crashes, lost replies
# make release VERSION=v0.1.0   writes the version into all modules; once that is committed, tags them (docs/decisions/0023)
# make release-check   checks what a release consists of: the binary, the systemd unit
# make screenshots   accepts how the console's pages look: testdata/pages of internal/integration/console, bin/console, docs/images/console
MODULES     = . cmd examples/payments internal/peerbench internal/recipes internal/integration outbox/riveroutbox store/pgxstore store/redisstore/goredisclient store/redisstore/rueidisclient
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
ram         = $(shell sh internal/ram.sh)
each        = set -e; for m in $(MODULES); do echo "== $$m"; (cd $$m && $(1)); done

# Files of tests are in memory where there is room: how long a disk takes to sync says nothing about the code.
test campaigns soak: export GOTMPDIR := $(or $(TMPDIR),/tmp)
test campaigns soak: export TMPDIR = $(ram)

.PHONY: screenshots test quick fix tools campaigns bench soak build release release-check
test: tools                      # every phase runs; what failed is one list in the end
	@sh internal/gate.sh format vet root rest

quick:
	@sh internal/gate.sh format library

fix:
	@sh internal/fix.sh

tools:                           # the race detector is cgo
	@sh internal/tools.sh git gcc libc6-dev curl sqlite3 postgresql-15 mariadb-server redis-server pgbouncer chromium nginx-light haproxy caddy varnish

campaigns: tools
	@sh internal/tools.sh spin
	@STATICCHECK=$(STATICCHECK) sh internal/campaigns.sh $(ONLY)

build:
	cd cmd && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../bin/stet ./stet

bench:
	@go run ./internal/bench

soak:
	@FUZZTIME=10m sh internal/campaigns.sh fuzz
	@$(call each,STET_SOAK=1 go test -race -timeout 80m ./...)

screenshots: tools               # light, dark and narrow; look at what differs before it is committed
	@cd internal/integration && REQUIRE_SERVERS=1 STET_CAMPAIGNS=1 STET_SHOTS=$(CURDIR)/bin/console go test -count 1 -run 'TestPages$$' ./console

release-check:
	@sh internal/releasecheck.sh

release: test campaigns release-check
	@go run ./internal/release $(VERSION)

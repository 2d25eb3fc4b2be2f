VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Where `make mysql97` puts Oracle's MySQL. mysqld refuses to run as root: another user has to be able to read it.
MYSQL97 ?= /opt/mysql-9.7

# More servers for the tests, beside those installed: executables joined by colons.
MYSQLD ?= $(wildcard $(MYSQL97)/bin/mysqld)

FUZZTIME ?= 1m

SOAK ?= 15m

# Flags of the benchmark, e.g. '-only operations -flavour mariadb -json bench.json'.
BENCH ?=

# Without this, Go refuses to build as root in a clone that another user owns.
export GOFLAGS += -buildvcs=false

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Modules of their own, as the broker needs nothing of what they need.
TEST_MODULES := test/kubernetes test/openid/provider

.PHONY: help run build test bench chaos soak systemd lint go-test fuzz clean mysql97

help: ## print this
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

run: ## install what is missing, build, and run a broker with servers of its own
	@deploy/dev/install-packages.sh run
	@$(MAKE) --no-print-directory build
	@exec bin/mysql-broker dev

build: ## make bin/mysql-broker, linked statically
	CGO_ENABLED=0 go build -ldflags '-X mysql-broker/cmd/mysql-broker/version.Version=$(VERSION)' -o bin/mysql-broker ./cmd/mysql-broker

# lint comes first so that the last lines are go test's own.
test: ## install what is missing, then check and test everything on every mysqld there is
	@deploy/dev/install-packages.sh test
	@$(MAKE) --no-print-directory lint go-test

bench: ## measure the broker against the same SQL without it, on every mysqld there is, and print a table
	@deploy/dev/install-packages.sh test
	@$(MAKE) --no-print-directory build
	@MYSQLD='$(MYSQLD)' go run ./test/bench $(BENCH)

# The verbose output ends with tables.
chaos: ## kill, pause and fail brokers and servers at every point and at random, on every mysqld there is; takes half an hour
	@deploy/dev/install-packages.sh test
	CHAOS=long MYSQLD='$(MYSQLD)' go run ./test/servers/with-servers \
		go test -race -count=1 -parallel 8 -timeout 60m -v ./test/chaos ./test/model

soak: ## keep brokers busy for SOAK (15m) on every mysqld there is, and watch their memory, goroutines and connections
	@deploy/dev/install-packages.sh test
	SOAK=$(SOAK) MYSQLD='$(MYSQLD)' go test -count=1 -timeout 24h -v -run TestSoak ./test/soak

systemd: build ## boot systemd in a container, install the broker, and see its servers outlive it (needs root)
	@deploy/dev/install-packages.sh test
	@for mysqld in '' $(subst :, ,$(MYSQLD)); do \
		go run ./test/servers/with-servers test/systemd/restart.sh $$mysqld || exit; done

# grep finds no line with status 1, and cannot look with 2.
lint: ## gofmt, length of lines, go vet, staticcheck, gosec, govulncheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted: $$unformatted" >&2; exit 1; }
	@LC_ALL=C.UTF-8 grep -rnP --include='*.go' --exclude='*_test.go' --exclude-dir=test '^(?!// https://\S+$$).{121}' . >&2; \
		[ $$? -eq 1 ] || { echo 'lines of more than 120 characters' >&2; exit 1; }
	go vet ./...
	go vet -tags faults ./...
	go run $(STATICCHECK) ./...
	@for module in $(TEST_MODULES); do (cd $$module && go vet ./... && go run $(STATICCHECK) ./...) || exit; done
	@test/gosec.sh
	@test/govulncheck.sh

go-test: ## only the tests
	MYSQLD='$(MYSQLD)' go run ./test/servers/with-servers test/all.sh
	go -C test/kubernetes test -count=1 ./...

fuzz: ## run each fuzz target for FUZZTIME
	go run ./test/servers/with-servers test/fuzz.sh $(FUZZTIME)

mysql97: ## make a tree of Oracle's MySQL 9.7 to test on (needs root)
	@deploy/dev/install-packages.sh mysql97
	test/mysql97/build.sh $(MYSQL97)

clean: ## remove what was built, but no data
	rm -rf bin

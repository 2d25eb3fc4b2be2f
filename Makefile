VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
VERSIONS := mysql-broker/cmd/mysql-broker/version

# Where `make mysql97` installs Oracle's MySQL. mysqld does not run as root, so other users must be able to read it.
MYSQL97 ?= /opt/mysql-9.7

# More servers for the tests, in addition to installed packages: paths of executables, separated by colons.
MYSQLD ?= $(wildcard $(MYSQL97)/bin/mysqld)

# Where `make mariadb118` installs a later MariaDB, to which tests upgrade servers.
MARIADB118 ?= /opt/mariadb-11.8
export LATER_MYSQLD ?= $(wildcard $(MARIADB118)/bin/mariadbd)

# Where `make corpus` installs the servers' own test suites.
CORPUS ?= /opt/mysql-corpus

# Where `make kubernetes-programs` puts the programs of Kubernetes that tests run.
KUBERNETES_PROGRAMS ?= /opt/kubernetes-programs

FUZZTIME ?= 1m

# Which benchmarks, as a pattern of `go test -bench`, such as Operations/mariadb.
BENCH ?= .

# Without -buildvcs=false, root cannot build in a clone that another user owns. With -trimpath, building from a copy of
# the sources, as some tests do, compiles again only what differs.
export GOFLAGS += -buildvcs=false -trimpath

# Programs are linked statically. Linters and tests use the same setting, so that nothing is compiled twice.
export CGO_ENABLED ?= 0

# Separate modules, whose dependencies the broker does not need. `make manifests` checks another one, which needs all of
# Kubernetes' types.
TEST_MODULES := test/lint test/openid/provider deploy/release

.PHONY: help run build release release-packages test test-long ci bench systemd lint vet analysis manifests fuzz clean \
	mysql97 mariadb118 corpus kubernetes kubernetes-programs

# What tests find in their environment.
export MYSQLD KUBERNETES_PROGRAMS CORPUS

help: ## print this
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

run: ## install missing packages, build, and run a broker with private servers
	@exec deploy/dev/run.sh

build: ## make bin/mysql-broker, linked statically
	go build $(BUILDFLAGS) -ldflags '-X $(VERSIONS).Version=$(VERSION) -X $(VERSIONS).Commit=$(COMMIT)' -o bin/mysql-broker ./cmd/mysql-broker

release-packages: ## fetch the packages of Debian that images of mysqld are made of
	@go -C deploy/release run . packages

release: ## make what operators download, in dist/: VERSION=1.0.0; needs no network
	go -C deploy/release run . $(VERSION)

test: ## run the tests, with missing packages; COUNT=10 repeats them, LOAD=10 adds load
	@deploy/dev/install-packages.sh test
	@go run ./test/lane test

test-long: ## run suites that take hours for BUDGET (2h); SUITES='chaos*' chooses
	@deploy/dev/install-packages.sh test
	@go run ./test/lane long

ci: ## run what CI runs, with packages that are there: linters, race detector, browser
	@go -C test/lint build -o $(CURDIR)/bin/gotestsum gotest.tools/gotestsum
	@go run ./test/lane ci

bench: ## compare the broker with the same work without it; BENCH= is a pattern
	@deploy/dev/install-packages.sh test
	go run ./test/servers/with-servers \
		go test -run '^$$' -bench '$(BENCH)' -benchtime 5s -timeout 60m ./test/bench

systemd: build ## boot systemd in a container, with the broker; its servers outlive it (needs root)
	@deploy/dev/install-packages.sh test
	@for mysqld in '' $(subst :, ,$(MYSQLD)); do \
		go run ./test/servers/with-servers test/systemd/restart.sh $$mysqld || exit; done

# Modules and packages come first: the namespaces of the node reach nothing.
kubernetes: ## test on a real Kubernetes node; RUN= runs something else there (needs root, and 2 GB)
	@[ "$$(id -u)" = 0 ] || { echo 'make kubernetes needs root, for namespaces and control groups' >&2; exit 1; }
	@deploy/dev/install-packages.sh kubernetes
	@$(MAKE) --no-print-directory kubernetes-programs
	@go mod download
	test/kubernetes/with-node.sh $(or $(RUN),test/kubernetes/node.sh)

lint: vet analysis ## gofmt, length of lines, go vet, staticcheck, gosec, govulncheck

# grep exits with 1 if it finds no line, and with 2 if it fails.
vet:
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted: $$unformatted" >&2; exit 1; }
	@LC_ALL=C.UTF-8 grep -rnP --include='*.go' --exclude='*_test.go' --exclude-dir=test '^(?!// https://\S+$$).{121}' . >&2; \
		[ $$? -eq 1 ] || { echo 'lines of more than 120 characters' >&2; exit 1; }
	@grep -rnE --include='*.go' '^func .*\($$' . >&2; \
		[ $$? -eq 1 ] || { echo 'signatures break after a comma between parameters' >&2; exit 1; }
	go vet ./...
	go vet -tags faults ./provisioner/fault ./test/stage
	@for module in $(TEST_MODULES); do go -C $$module vet ./... || exit; done

analysis:
	go -C test/lint build -o $(CURDIR)/bin/lint .
	bin/lint ./...
	@for module in $(TEST_MODULES); do (cd $$module && $(CURDIR)/bin/lint ./...) || exit; done
	@test/govulncheck.sh

manifests: ## check deploy/kubernetes against Kubernetes' types, and the code that does
	go -C test/lint build -o $(CURDIR)/bin/lint .
	cd test/kubernetes/manifests && go vet ./... && $(CURDIR)/bin/lint ./... && go test -count=1 ./...

fuzz: ## run each fuzz target for FUZZTIME
	go run ./test/servers/with-servers test/fuzz.sh $(FUZZTIME)

mysql97: ## install Oracle's MySQL 9.7 to test on it (needs root)
	@deploy/dev/install-packages.sh mysql97
	test/debian-tree/build.sh mysql-9 $(MYSQL97)

mariadb118: ## install MariaDB 11.8 to test upgrades to it (needs root)
	@deploy/dev/install-packages.sh mysql97
	test/debian-tree/build.sh mariadb-11.8 $(MARIADB118)

corpus: ## copy, restore and replay what the servers' own test suites create; takes hours
	@deploy/dev/install-packages.sh test
	@SUITES='corpus*' BUDGET=24h go run ./test/lane long

kubernetes-programs: ## build Kubernetes and etcd for tests; takes ten minutes of one processor
	test/kubernetes/programs/build.sh $(KUBERNETES_PROGRAMS)

clean: ## remove built files, but no data
	rm -rf bin dist

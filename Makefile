# The targets that people and scripts use. `make` alone lists them.
# Each one but tools, library, install and uninstall runs setup first; that takes half a second when there is nothing to do.

.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/bash

# The release of MariaDB to build for, 10.11 or 11.8. The default has build/ and .run/ itself, each other one a
# folder of its own in them: both stay built.
SERVER := 11.8
BUILD_FOLDER := build$(if $(filter-out 11.8,$(SERVER)),/$(SERVER))
export TIDESDB_SERVER := $(SERVER)

# Where setup put MariaDB; one place, shared by all clones (TIDESDB_CACHE moves it). Asked for when a recipe
# runs, which is after setup: before the first one there is none.
MARIADB_PREFIX = $(shell export TIDESDB_SERVER=$(SERVER); . scripts/setup/where.sh 2>/dev/null && echo "$$PREFIX")

BUILD := $(CURDIR)/$(BUILD_FOLDER)
# The plugin that the servers load; another can stand in: make server PLUGIN=...
PLUGIN ?= $(BUILD)/ha_tidesdb.so
BASEDIR_OF_LINKS := $(BUILD)/basedir
RESULTS := $(BUILD_FOLDER)/results
SUITE ?= tidesdb,tidesdb_rpl
CHECKS ?=
SUITES ?=
SCHEMAS ?=
ROUNDS ?=
SECONDS_EACH ?=
SEED ?=
COMMITS ?=
ROWS ?=
STATEMENTS ?=
UPDATE ?=

# Names in scripts/setup/servers.list; all of them when empty.
SERVERS ?=

DATA ?= .run/server$(if $(filter-out 11.8,$(SERVER)),-$(SERVER))
CNF ?=
PORT ?=
FROM ?=
# Of make install.
PREFIX ?= /usr/local
LIBDIR ?=
DESTDIR ?=
# Cargo's profile: dist is what packages have and what is measured, and builds two minutes longer.
PROFILE ?= release
deb: PROFILE := dist
RELEASE = $(abspath $(or $(CARGO_TARGET_DIR),target))/$(PROFILE)
TIDESDB_ADMIN = $(RELEASE)/tidesdb-admin
# Of no server: one for all of them.
TOOLS := $(CURDIR)/build/tools
export MARIADB_PREFIX DATA CNF PORT BASEDIR_OF_LINKS FROM TIDESDB_ADMIN PROFILE

# Always these together: by itself each would have other features in its crates, and the engine would be built twice.
BUILD_ENGINE = cargo build --profile $(PROFILE) -p tidesdb-capi -p tidesdb-admin $(BUILD_ALSO)

# Two compilers at once, unless make was told otherwise.
JOBS := $(if $(filter -j%,$(MAKEFLAGS)),,-j2)
PLUGIN_SOURCES = $$(find plugin/src -name '*.cc' -o -name '*.h')
SHELL_SCRIPTS = $$(grep -rlE '^\#!/bin/(ba)?sh' .ci/run debian scripts plugin/mysql-test plugin/sst)

.PHONY: help setup servers prefix engine tools library install uninstall deb plugin plugin-mutants build-engine build-plugin links server stop shell restore test test-setup \
  test-engine simulate mutants mutants-cluster test-sort test-index-kind test-table-record test-mtr test-galera test-galera-keys test-short test-install test-deb test-suites \
  test-suites-short test-suites-galera test-suites-galera-short test-upgrade test-server check-server crash-server test-report test-alerts lint lint-short tidy format test-manual test-scale-out manual clean

comma := ,
# A line for the person who waits: $(call say,text).
say = printf '==> make: %s\n' "$(1)" >&2

# Three groups, by the target's name; the rest is for use.
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]*:.*## / { \
	    group = $$1 ~ /^(test|simulate|mutants|lint|tidy|format|check-server|crash-server)/ ? 2 : \
	            $$1 ~ /^(bench|experiments|results|costs|compare|plugin-at|plugin-pgo|engine-program)/ ? 3 : 1; \
	    lines[group] = lines[group] sprintf("  %-18s %s\n", $$1, $$2) } \
	  END { printf "Use\n%s\nTest\n%s\nMeasure\n%s", lines[1], lines[2], lines[3] }' $(MAKEFILE_LIST)

setup: ## packages by apt, and a MariaDB 11.8 (SERVER=10.11: a 10.11) with all that belongs to it: [UPDATE=1] [TIDESDB_MARIADB_VERSION=version]
	@UPDATE=$(UPDATE) scripts/setup/setup.sh

servers: setup ## other servers for the laboratory, from Debian's suites: [SERVERS="names"]
	@scripts/setup/servers.sh $(SERVERS)

prefix: setup ## print the directory of that MariaDB; its bin/ has the programs
	@echo $(MARIADB_PREFIX)

engine: setup tools ## the engine's library for C and C++, and tidesdb-admin

# For programs that embed the engine: cargo and a C compiler are enough. These need no server, and no setup.
tools library install uninstall: MARIADB_PREFIX :=
tools: ## tidesdb-admin, its man pages and completions, in build/tools
	@$(call say,building the engine and tidesdb-admin (three minutes from nothing))
	@$(BUILD_ENGINE)
	@scripts/library.sh tools $(TIDESDB_ADMIN) $(TOOLS)

library: ## libtidesdb.so.0 and libtidesdb.a for programs in C and C++, in build/lib
	@$(call say,building the library (two minutes from nothing))
	@$(BUILD_ENGINE)
	@scripts/library.sh build $(RELEASE)/libtidesdb_capi.a $(BUILD)/lib

# Under sudo there may be no cargo, and files of root in target would be in the way later: what is built is installed.
install: ## header, libraries, files of pkg-config and CMake, tidesdb-admin: [PREFIX=/usr/local] [LIBDIR=PREFIX/lib] [DESTDIR=dir]
	@if [ -z "$$SUDO_USER" ] || [ ! -e $(BUILD)/lib/libtidesdb.a ]; then $(MAKE) --no-print-directory library; fi
	@if [ -z "$$SUDO_USER" ] || [ ! -e $(TOOLS)/bin/tidesdb-admin ]; then $(MAKE) --no-print-directory tools; fi
	@PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" DESTDIR="$(DESTDIR)" scripts/library.sh install $(BUILD)/lib $(TOOLS)

uninstall: ## remove them: [PREFIX=/usr/local] [LIBDIR=PREFIX/lib] [DESTDIR=dir]
	@PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" DESTDIR="$(DESTDIR)" scripts/library.sh uninstall

# Of one build on the oldest Debian, for all: the libraries of later ones have its symbols.
deb: engine ## Debian packages of plugin, tools and library for Debian 12 and 13, in build/deb: [UPDATE=1] [DBGSYM=1]
	@$(call say,making Debian packages (four minutes for each server's plugin the first time))
	@scripts/setup/packages.sh debhelper lintian
	@UPDATE=$(UPDATE) scripts/package.sh servers build/deb/servers
	@cargo build --profile $(PROFILE) -p tidelab
	@scripts/library.sh build $(RELEASE)/libtidesdb_capi.a build/lib
	@JOBS=$(JOBS) scripts/package.sh plugins build/deb/servers build/deb/plugin
	@DBGSYM=$(DBGSYM) scripts/package.sh deb build $(RELEASE)

plugin: engine ## build/ha_tidesdb.so; with SERVER=10.11, as each target with a server takes it: build/10.11/ha_tidesdb.so
	@$(call say,building the plugin (two minutes from nothing))
	@$(MAKE) --no-print-directory -f plugin/build.mk $(JOBS) PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER)

plugin-mutants: engine ## the plugin with planted faults, for mutants-cluster alone: build/mutants/ha_tidesdb.so
	@$(call say,building the plugin with planted faults (a minute from nothing))
	@$(MAKE) --no-print-directory -f plugin/build.mk $(JOBS) PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER)/mutants \
	  CXXFLAGS="-O0 -DTIDESDB_PLUGIN_MUTANTS"

# For setup itself, which tries a server by building the plugin for it: MARIADB_PREFIX names it. Setup begins with the
# engine, and the plugin's objects need none.
build-engine:
	@$(BUILD_ENGINE)

build-plugin:
	@$(MAKE) --no-print-directory -f plugin/build.mk $(JOBS) PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER) objects
	@$(BUILD_ENGINE)
	@$(MAKE) --no-print-directory -f plugin/build.mk $(JOBS) PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER)

# Only our own plugin is built for a server: one that stands in is taken as it is.
links: $(if $(filter $(BUILD)/ha_tidesdb.so,$(PLUGIN)),plugin,setup)
	@scripts/plugin/basedir.sh $(MARIADB_PREFIX) $(BASEDIR_OF_LINKS) $(PLUGIN)

server: links ## start a server with TidesDB: [DATA=dir] [CNF=file] [PORT=number]
	@scripts/server.sh start

stop: setup ## end it: [DATA=dir]
	@scripts/server.sh stop

shell: setup ## a client on it: [DATA=dir]
	@scripts/server.sh shell

restore: engine ## verify a backup and make a server's data of it: FROM=backup [DATA=dir]
	@scripts/server.sh restore

test: test-setup test-engine lint-short simulate test-sort test-index-kind test-table-record test-report test-mtr test-galera test-galera-keys test-manual test-install test-suites-short test-server ## all tests

test-setup: ## set-up against archives of every kind, mirrors on this machine; two minutes
	@$(call say,testing make setup against archives of every kind (two minutes))
	@scripts/setup/packages.sh gnupg python3 dpkg-dev patchelf gcc
	@scripts/setup/packages.sh generating
	@python3 scripts/test/setup/run.py $(TESTS)

test-engine: setup ## the tests of the engine, the C interface and the laboratory, some programs at once: [TESTS=names] [TEST_PROGRAMS=n]
	@$(call say,building and running the tests of the Rust crates (ten minutes from nothing))
	@scripts/setup/packages.sh python3
	@scripts/test/crates.py $(TESTS)

SEEDS ?= 5000
simulate: ## the whole engine under a deterministic scheduler and on a faulty disk, from seeds: [SEEDS=n] [FROM=seed]
	@$(call say,simulating programs of transactions and crashes (a minute from nothing and half a minute))
	cargo run --release -p tidesdb-simulate -- --seeds $(SEEDS) $(if $(FROM),--from $(FROM)) $(if $(CUT),--cut $(CUT))

mutants: ## faults planted in the engine, each found by a seed of the simulation or by a model of loom: [SEEDS=n] [ONLY=name,name]
	@$(call say,looking for planted faults (ten minutes))
	cargo run --release -p tidesdb-simulate --features mutants -- --mutants --seeds $(if $(filter command line,$(origin SEEDS)),$(SEEDS),20000) $(if $(ONLY),--only $(ONLY))

mutants-cluster: plugin-mutants ## faults planted in the plugin, each found by check cluster or a test: [ONLY=name,name] [SEED=n] [ROUNDS=n]
	@$(call say,looking for faults planted in the plugin (twenty minutes))
	@scripts/plugin/basedir.sh $(MARIADB_PREFIX) $(BUILD)/mutants/basedir $(BUILD)/mutants/ha_tidesdb.so
	@$(MAKE) --no-print-directory -f plugin/build.mk wsrep-recorder PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER)
	cargo test --workspace --test report --no-run
	@WSREP_PROVIDER=$$(scripts/setup/packages.sh galera) && export WSREP_PROVIDER WSREP_RECORDER=$(BUILD)/wsrep_recorder.so && \
	  scripts/test/mutants-cluster.py $(MARIADB_PREFIX) $(BUILD)/mutants/ha_tidesdb.so $(BUILD)/mutants/basedir $(BUILD)/mutants/runs \
	  $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS))

test-sort: setup ## the sorts of new indexes, without a server; half a minute [SEED=n]
	@$(call say,testing the sort of new indexes without a server (half a minute))
	@$(MAKE) --no-print-directory -f plugin/build.mk test-sort PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER) SEED=$(SEED)

test-index-kind: setup ## indexes with any number of entries a row, without a server; [SEED=n]
	@$(call say,testing the entries of indexes without a server (half a minute))
	@$(MAKE) --no-print-directory -f plugin/build.mk test-index-kind PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER) SEED=$(SEED)

test-table-record: setup ## the dictionary record of a table, without a server; seconds
	@$(call say,testing the dictionary record of a table without a server (seconds))
	@$(MAKE) --no-print-directory -f plugin/build.mk test-table-record PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER)

test-mtr: links ## the tests in SQL: [SUITE=name] [TESTS=names] [MTR_FLAGS=...]
	@$(call say,running MariaDB's test runner over $(SUITE) (five minutes for all))
	@scripts/test/run-mtr.sh $(MARIADB_PREFIX) $(BASEDIR_OF_LINKS) $(BUILD)/mtr $(SUITE) $(TESTS)

test-galera: links ## two nodes of a Galera cluster on this machine; four minutes: [TESTS=names]
	@$(call say,testing two nodes of a Galera cluster (Galera by apt and four minutes))
	@WSREP_PROVIDER=$$(scripts/setup/packages.sh galera) && export WSREP_PROVIDER && \
	  MTR_PARALLEL=1 scripts/test/run-mtr.sh $(MARIADB_PREFIX) $(BASEDIR_OF_LINKS) $(BUILD)/mtr-galera tidesdb_galera,tidesdb_cluster $(TESTS)

test-galera-keys: links ## certification keys of rows, compared with InnoDB's; half a minute: [SEED=number]
	@$(call say,comparing certification keys with those of InnoDB (half a minute))
	@$(MAKE) --no-print-directory -f plugin/build.mk wsrep-recorder PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER)
	@export WSREP_RECORDER=$(BUILD)/wsrep_recorder.so SEED=$(SEED) && \
	  MTR_PARALLEL=1 scripts/test/run-mtr.sh $(MARIADB_PREFIX) $(BASEDIR_OF_LINKS) $(BUILD)/mtr-galera-keys tidesdb_galera_keys $(TESTS)

# The tests that have results of their own on 10.11: the servers differ there. In the first they differ in what they read.
DIFFERING_TESTS = tidesdb.blobs_replaced_unread $(sort $(foreach result,$(wildcard plugin/mysql-test/suite/*/r/*$(comma)mariadb_10.rdiff),\
  $(notdir $(patsubst %/r/,%,$(dir $(result)))).$(firstword $(subst $(comma), ,$(notdir $(result))))))
test-short: links ## the tests in SQL in which the servers differ; CI runs it with SERVER=10.11: a minute
	@$(call say,running the tests in which MariaDB's releases differ on $(SERVER) (a minute))
	@scripts/test/run-mtr.sh $(MARIADB_PREFIX) $(BASEDIR_OF_LINKS) $(BUILD)/mtr-short $(SUITE) $(DIFFERING_TESTS)

test-manual: links engine ## the examples of docs/manual on a server, its links, its dashboard; make server and make shell; a backup of all engines: [TESTS="pages"]
	@$(call say,running the manual's examples (half a minute))
	@scripts/setup/packages.sh python3
	@MANUAL_WORK=$(BUILD)/manual-test scripts/test/manual.py $(TESTS)
	@WORK=$(BUILD)/server-test scripts/test/server.sh commands
	@WORK=$(BUILD)/backup-test scripts/test/server.sh backup

test-scale-out: links engine ## Spider over TidesDB: the manual's chapter as written, heads killed in a commit; three minutes: [ROUNDS=kills] [SEED=n]
	@$(call say,running the manual's chapter on Spider, then killing its head (three minutes))
	@scripts/setup/packages.sh python3
	@MANUAL_WORK=$(BUILD)/manual-test scripts/test/manual.py scale-out
	@SCALE_WORK=$(BUILD)/scale-test ROUNDS=$(ROUNDS) scripts/test/scale-out.py $(SEED)

test-alerts: ## the manual's alerts by Prometheus' promtool, which Debian's package has; some seconds
	@$(call say,checking docs/manual/alerts.yml with promtool (some seconds))
	@mkdir -p $(BUILD)/alerts-test
	@cp docs/manual/alerts.yml scripts/test/alerts-test.yml $(BUILD)/alerts-test
	@cd $(BUILD)/alerts-test && promtool=$$($(CURDIR)/scripts/setup/packages.sh promtool $(BUILD)/alerts-test/unpacked) && \
	  $$promtool check rules alerts.yml && $$promtool test rules alerts-test.yml

test-install: setup ## the library, installed and used by a C program in a directory of its own; half a minute once it is built
	@$(call say,installing the library and building programs against it (half a minute))
	@scripts/setup/packages.sh pkgconf binutils cmake
	@scripts/test/install.sh

REPORT_SAMPLES := $(BUILD)/report-samples

test-report: setup ## the report's pages in a browser; pictures of them in build/report-screenshots
	@$(call say,looking at the report's pages in a browser (Chromium by apt and a minute))
	@scripts/setup/packages.sh browser
	TIDELAB_SAMPLES=$(REPORT_SAMPLES) cargo test --workspace --test report
	@node scripts/test/report-browser.mjs $(REPORT_SAMPLES) $(BUILD)/report-screenshots

# The provider of the check `cluster`, where that is among the checks.
WITH_GALERA = $(if $(if $(CHECKS),$(filter cluster,$(CHECKS)),all),WSREP_PROVIDER=$$(scripts/setup/packages.sh galera) && export WSREP_PROVIDER && )
# The program as `cargo test` builds it: `cargo run` has other features, and builds all crates again.
CHECK_SERVER = cargo test --workspace --test report --no-run && $${CARGO_TARGET_DIR:-target}/debug/tidelab check \
  --prefix $(MARIADB_PREFIX) --plugin $(PLUGIN) --data $(BUILD)/check

test-suites: links ## the server's own suites with InnoDB and with TidesDB: [SUITES=names] [TESTS=pattern]
	@$(call say,running the server's own suites with InnoDB and with TidesDB (minutes each; 50 for all))
	@TESTS="$(TESTS)" scripts/test/run-suites.pl $(MARIADB_PREFIX) $(BASEDIR_OF_LINKS) $(BUILD)/suites \
	  plugin/mysql-test/suites.known $(SUITES)

test-suites-short: links ## the quick ones of them, a minute
	@$(call say,running two of the server's own suites (a minute))
	@scripts/test/run-suites.pl $(MARIADB_PREFIX) $(BASEDIR_OF_LINKS) $(BUILD)/suites plugin/mysql-test/suites.known \
	  handler engines/iuds

# Nodes wait more than they work: both engines run at once.
SUITES_OF_CLUSTERS = WSREP_PROVIDER=$$(scripts/setup/packages.sh galera) && export WSREP_PROVIDER && \
  ORACLE=$(ORACLE) scripts/test/run-suites.pl $(MARIADB_PREFIX) $(BASEDIR_OF_LINKS) $(BUILD)/suites-galera plugin/mysql-test/suites.known
test-suites-galera: links ## the server's own suites of Galera clusters with InnoDB and with TidesDB: [SUITES=names] [TESTS=pattern] [ORACLE=last]
	@$(call say,running the server's own suites of Galera clusters (an hour; SUITES and TESTS choose))
	@export TESTS="$(TESTS)" && $(SUITES_OF_CLUSTERS) $(or $(SUITES),wsrep galera_3nodes galera)

QUICK_GALERA_TESTS = galera_insert_multi galera_bf_abort galera_bf_abort_for_update galera_ctas galera_fk_cascade_update \
  galera_fk_conflict galera_fk_no_pk galera_nopk_unicode galera_toi_ftwrl galera_unicode_pk galera_virtual_blob unique_key
test-suites-galera-short: links ## some quick tests of galera, a minute
	@$(call say,running some tests of the server's own suite galera (a minute))
	@export TESTS="^($(subst $() $(),|,$(QUICK_GALERA_TESTS)))$$" && $(SUITES_OF_CLUSTERS) galera

# In chroots: as root.
test-deb: deb ## the packages in chroots of Debian 12 and 13: install, use, upgrade, remove, purge: [SUITES="bookworm trixie"]
	@$(call say,installing the packages in chroots of Debian 12 and 13 (ten minutes))
	@scripts/setup/packages.sh mmdebstrap dpkg-dev
	@scripts/test/packages.sh build/deb build/deb-test $(SUITES)
	@cargo package --quiet --locked --allow-dirty -p tidesdb

test-upgrade: ## tables and a transaction of a 10.11 server, opened in place by 11.8, and replicated to it; three minutes
	@$(call say,going from MariaDB 10.11 to 11.8 (both set up and built; a minute after that))
	@scripts/test/upgrade.sh $(BUILD)/upgrade

test-server: plugin ## servers under kills and in memory cgroups, lost-update and index-read checks, a Galera cluster; five minutes
	@$(call say,checking servers under kills and faults (the laboratory's build and five minutes))
	$(WITH_GALERA)$(CHECK_SERVER) --short

check-server: plugin ## the same in full: [CHECKS=names] [ROUNDS=kills] [SEED=n] [SECONDS_EACH=n] [COMMITS=n] [ROWS=n] [STATEMENTS=n] [PART=text]
	@$(call say,checking servers in full (minutes for each check; an hour for all))
	$(WITH_GALERA)$(CHECK_SERVER) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH)) $(if $(COMMITS),--commits $(COMMITS)) $(if $(ROWS),--rows $(ROWS)) $(if $(STATEMENTS),--statements $(STATEMENTS)) \
	  $(if $(PART),--part "$(PART)") $(CHECKS)

crash-server: plugin ## TPC-C under kill -9 with the binary log on, tokens, conditions, indexes, replay: [ROUNDS=n]
	@$(call say,killing servers under TPC-C (a third of a minute for each round))
	$(CHECK_SERVER) --rounds $(or $(ROUNDS),20) crash

manual: setup ## the manual as a book, build/manual/index.html
	@$(call say,making the manual (seconds; five minutes more the first time on a machine, for mdBook))
	@scripts/setup/packages.sh python3
	@scripts/manual/build.sh $(BUILD)/manual

# What runs in less than a minute after the tests are built. Cargo.toml's rules are errors here; a warning that a newer
# compiler invents is not. Another clang-format than Debian 12's would lay out some lines anew: it checks nothing.
lint-short: setup ## formats, scripts, lints of all crates, links of the engine's comments; less than a minute, in make test
	@$(call say,checking formats and the rules of the code (less than a minute))
	@scripts/setup/packages.sh shellcheck clang-format
	cargo fmt --all --check
	@if clang-format --version | grep -q 'version 14\.'; then clang-format --dry-run -Werror $(PLUGIN_SOURCES); \
	  else $(call say,the form of the C++ sources is clang-format 14$(comma) and this is another: not checked); fi
	shellcheck --check-sourced --severity=warning $(SHELL_SCRIPTS)
	cargo clippy --workspace
	RUSTDOCFLAGS='-Dwarnings --document-private-items' cargo doc --no-deps -p tidesdb

lint: lint-short ## the same for all targets, and no warning; before a commit
	@$(call say,checking all crates (three minutes from nothing))
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --no-deps -p tidesdb -p tidesdb-capi

tidy: engine ## clang-tidy over the plugin; slow
	@$(call say,running clang-tidy (nine minutes))
	@scripts/setup/packages.sh clang-tidy
	clang-tidy --quiet $$($(MAKE) -s -f plugin/build.mk PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER) print-sources) -- -x c++ \
	  $$($(MAKE) -s -f plugin/build.mk PREFIX=$(MARIADB_PREFIX) BUILD=$(BUILD_FOLDER) print-compile)

format: setup ## format Rust and C++
	@scripts/setup/packages.sh clang-format
	cargo fmt --all
	clang-format -i $(PLUGIN_SOURCES)

# What measures: demo, bench-*, experiments, results, and builds to compare with.
include scripts/lab.mk

clean: ## remove what was built here; servers' data and the shared prefix stay
	rm -rf build target

# The laboratory: targets that measure, and schemas and tests of applications on both engines. The Makefile above
# includes this, and lists its targets too; its variables count here.

.PHONY: demo bench bench-tpcc bench-memory bench-engine bench-isolation bench-foreign-keys bench-ranking costs experiments results \
  engine-program builds-to-compare compare-builds compare-tpcc plugin-at plugin-pgo test-orm test-schemas

# What is measured is built as packages are.
bench bench-tpcc bench-memory bench-isolation bench-foreign-keys experiments costs compare-builds compare-tpcc builds-to-compare \
  plugin-at plugin-pgo: PROFILE := dist

TIDELAB = cargo run --release -p tidelab --
LAB_ARGS = --prefix $(MARIADB_PREFIX) --plugin $(PLUGIN) --out $(RESULTS)
CONFIGS := crates/tidelab/configs
# What make bench-tpcc measures: WAREHOUSES=40 USERS=8, three rounds, each configuration.
WAREHOUSES ?= 40
USERS ?= 8
TPCC_ARGS ?=
# make bench-memory measures the full size unless SIZE is named; make experiments the small one.
MEMORY_SIZE := $(or $(SIZE),full)

demo: export BUILD_ALSO := -p tidelab
demo: plugin ## sysbench and TPC-C on TidesDB, InnoDB and MyRocks, compared in two tables
	@$(call say,comparing the engines (four minutes))
	$(TIDELAB) demo $(LAB_ARGS) --time 2 --warm-up 1
	$(TIDELAB) tpcc $(LAB_ARGS) --name demo-tpcc --data $(BUILD)/tpcc --cnf $(CONFIGS)/tpcc-small-64M.cnf \
	  --warehouses 1 --users 4 --build-users 1 --rampup 2s --duration 8s --settle 2s --rounds 1 --short-run

bench: plugin ## sysbench, longer: all eight workloads, with an update phase before the reads
	@$(call say,running sysbench's eight workloads (an hour))
	$(TIDELAB) bench $(LAB_ARGS)

bench-tpcc: plugin ## TPC-C, 40 warehouses, 64 MB caches and all in memory: [WAREHOUSES=n] [USERS=n] [ROUNDS=n]
	@$(call say,running TPC-C in two sizes (hours; each run says how long it takes))
	@status=0; for size in small-64M large-16G; do \
	  $(TIDELAB) tpcc $(LAB_ARGS) --name tpcc-$$size --data $(BUILD)/tpcc --cnf $(CONFIGS)/tpcc-$$size.cnf \
	    --warehouses $(WAREHOUSES) --users $(USERS) --build-users 8 $(if $(ROUNDS),--rounds $(ROUNDS)) \
	    $(TPCC_ARGS) || status=$$?; \
	done; exit $$status

bench-memory: plugin ## engines within equal memory on a steady disk, as root: about five hours, SIZE=small half an hour; goes on after a kill
	@$(call say,measuring at equal memory (hours; SIZE=small half an hour; the run says how long it takes))
	$(TIDELAB) run --prefix $(MARIADB_PREFIX) --plugin $(PLUGIN) --data $(BUILD)/experiments --out $(BUILD)/runs \
	  --size $(MEMORY_SIZE) --resume experiments/equal-memory.toml

COSTS_DATA := $(BUILD)/costs
costs: links ## what the optimizer's accesses cost, beside InnoDB; two minutes: [ROWS=n] [ROUNDS=n]
	@$(call say,measuring the optimizer's accesses (two minutes))
	@printf '[mysqld]\ninnodb_buffer_pool_size=2G\ntidesdb_block_cache_size=2G\n' >$(BUILD)/costs.cnf
	@DATA=$(COSTS_DATA) CNF=$(BUILD)/costs.cnf scripts/server.sh start
	@$(MARIADB_PREFIX)/bin/mariadb -S $(COSTS_DATA)/mysqld.sock -uroot -e 'CREATE DATABASE IF NOT EXISTS costs'
	@scripts/plugin/costs.pl $(MARIADB_PREFIX)/bin/mariadb $(COSTS_DATA)/mysqld.sock $(or $(ROWS),1000000) $(or $(ROUNDS),5); \
	  status=$$?; DATA=$(COSTS_DATA) scripts/server.sh stop; exit $$status

# EXPERIMENT=experiments/tpcc-small.toml; without it all of them, small, going on where a run was ended.
EXPERIMENT ?=
SIZE ?= small
# The bare engine's program takes three minutes and RocksDB's packages: for its own experiment alone.
ENGINE_PROGRAM := $(if $(or $(if $(EXPERIMENT),,all),$(findstring engine,$(notdir $(EXPERIMENT)))),engine-program)
# Galera's provider comes with a package: for the experiment that needs it alone.
WITH_PROVIDER := $(if $(or $(if $(EXPERIMENT),,all),$(findstring cluster,$(notdir $(EXPERIMENT)))),WSREP_PROVIDER=$$(scripts/setup/packages.sh galera) && export WSREP_PROVIDER && )
experiments: plugin $(ENGINE_PROGRAM) builds-to-compare ## the experiments of experiments/, small: [EXPERIMENT=file] [SIZE=full]
	@$(call say,running experiments (about two and a half hours for all of them at SIZE=small))
	$(WITH_PROVIDER)$(TIDELAB) run --prefix $(MARIADB_PREFIX) --plugin $(PLUGIN) --data $(BUILD)/experiments --out $(BUILD)/runs \
	  $(if $(EXPERIMENT),--size $(SIZE) --resume $(EXPERIMENT),--all-small)

# RUN is a run's folder, NAME what it is called in docs/results.
RUN ?= $(BUILD_FOLDER)/runs/latest
NAME ?=
RESULTS_ARGS ?=
results: ## put a run into docs/results, with charts: NAME=name [RUN=folder] [RESULTS_ARGS="--only axis=value"]
	@[ -n "$(NAME)" ] || { echo "make results: NAME=name says what the run is called there" >&2; exit 1; }
	$(TIDELAB) publish $(RUN) $(NAME) --out docs/results $(RESULTS_ARGS)

# What tpcc-430 and tpcc-builds compare: the version before (REV says which), and this one with a profile where the toolchain can.
REV ?= HEAD~50
builds-to-compare: plugin
	@case "$(or $(EXPERIMENT),all)" in *tpcc-builds*) \
	  [ -e $(BUILD)/at/base/ha_tidesdb.so ] || $(MAKE) --no-print-directory plugin-at ;; \
	all | *tpcc-430*) \
	  scripts/setup/packages.sh libjemalloc2 && \
	  { [ -e $(BUILD)/at/base/ha_tidesdb.so ] || $(MAKE) --no-print-directory plugin-at; } && \
	  { $(MAKE) --no-print-directory plugin-pgo || echo "tpcc-430 goes without a build by a profile" >&2; } ;; \
	esac

plugin-pgo: plugin ## the plugin optimised by the profile of a training load, into build/at/pgo; six minutes
	@$(call say,building the plugin by a profile (six minutes))
	@scripts/plugin/other-build.sh profile $(MARIADB_PREFIX) $(BUILD)/ha_tidesdb.so $(BUILD)/at/pgo

plugin-at: setup ## the plugin of another revision, to compare with: [REV=revision], into build/at/base
	@$(call say,building the plugin of $(REV) (four minutes from nothing))
	@scripts/plugin/other-build.sh revision $(REV) $(BUILD)/at/base

# The other build, unless it is there.
base_build = [ "$$(cat $(BUILD)/at/base/revision 2>/dev/null)" = "$$(git rev-parse '$(REV)^{commit}')" ] || \
  $(MAKE) --no-print-directory plugin-at

compare-builds: plugin ## two builds of the plugin take short turns at sysbench: [REV=revision] [ROUNDS=n] [SECONDS_EACH=n]
	@$(base_build)
	@$(call say,two builds take turns at eight workloads (ten minutes))
	@scripts/plugin/compare-builds.py $(MARIADB_PREFIX) $(BUILD)/at/base/ha_tidesdb.so $(PLUGIN) $(BUILD)/compare-builds \
	  $(or $(ROUNDS),12) $(or $(SECONDS_EACH),2)

compare-tpcc: plugin ## two builds of the plugin take short turns at TPC-C: [REV=revision] [ROUNDS=starts]
	@$(base_build)
	@cargo build --release -p tidelab
	@$(call say,two builds take turns at TPC-C (seven minutes))
	@scripts/plugin/compare-tpcc.py $(MARIADB_PREFIX) $(BUILD)/at/base/ha_tidesdb.so $(PLUGIN) $(BUILD)/compare-tpcc $(or $(ROUNDS),8)

# RocksDB costs packages that nothing else needs: they are installed here, not by setup. Debian's library is built
# with its assertions: ROCKSDB=source compiles the crate's own source without them, for ten minutes and more.
ENGINE_ARGS ?=
ROCKSDB ?= debian
engine-program: setup ## tidelab-engine with RocksDB: tidelab runs it for experiments/engine.toml [ROCKSDB=source]
	@$(call say,building tidelab-engine with RocksDB (packages by apt; three minutes))
	@rocksdb=$$(scripts/setup/packages.sh rocksdb $(ROCKSDB)) && eval "$$rocksdb" && \
	  cargo build --release -p tidelab-engine --features rocksdb

bench-engine: engine-program ## the bare engine beside RocksDB and LMDB: [ROUNDS=n] [ENGINE_ARGS="..."] [ROCKSDB=source]
	@$(call say,measuring the bare engines (a quarter of an hour))
	@target/release/tidelab-engine $(if $(ROUNDS),--rounds $(ROUNDS)) $(ENGINE_ARGS)

ISOLATION_DATA := $(BUILD)/isolation

bench-isolation: links ## a contended read_write with snapshot isolation ON and OFF, both engines: [ROUNDS=n] [SECONDS_EACH=n]
	@scripts/setup/packages.sh sysbench
	@printf '[mariadbd]\nloose-tidesdb_unified_memtable_sync_mode=NONE\nloose-tidesdb_default_sync_mode=NONE\ninnodb_flush_log_at_trx_commit=0\n' > $(BUILD)/isolation.cnf
	@$(MAKE) --no-print-directory server DATA=$(ISOLATION_DATA) CNF=$(BUILD)/isolation.cnf
	@DATA=$(ISOLATION_DATA) ROUNDS=$(ROUNDS) SECONDS_EACH=$(SECONDS_EACH) scripts/measure/snapshot-isolation.sh; \
	  status=$$?; $(MAKE) --no-print-directory stop DATA=$(ISOLATION_DATA); exit $$status

FOREIGN_DATA := $(BUILD)/foreign-keys

bench-foreign-keys: links ## INSERT ... SELECT of children with foreign keys and without, both engines: [ROUNDS=n] [CHILDREN=n] [PARENTS="n n"]
	@printf '[mariadbd]\nloose-tidesdb_unified_memtable_sync_mode=NONE\nloose-tidesdb_default_sync_mode=NONE\ninnodb_flush_log_at_trx_commit=0\ninnodb_buffer_pool_size=512M\n' > $(BUILD)/foreign-keys.cnf
	@$(MAKE) --no-print-directory server DATA=$(FOREIGN_DATA) CNF=$(BUILD)/foreign-keys.cnf
	@DATA=$(FOREIGN_DATA) ROUNDS=$(ROUNDS) scripts/measure/foreign-keys.sh; \
	  status=$$?; $(MAKE) --no-print-directory stop DATA=$(FOREIGN_DATA); exit $$status

RANKING_DATA := $(BUILD)/ranking

bench-ranking: links ## nDCG@10 of MATCH over generated documents and a judged collection, both engines: [DOCUMENTS=n] [QUERIES=n] [SEEDS="n n"]
	@scripts/setup/packages.sh python3 python3-pip
	@printf '[mariadbd]\nloose-tidesdb_unified_memtable_sync_mode=NONE\nloose-tidesdb_default_sync_mode=NONE\ninnodb_flush_log_at_trx_commit=0\n' > $(BUILD)/ranking.cnf
	@$(MAKE) --no-print-directory server DATA=$(RANKING_DATA) CNF=$(BUILD)/ranking.cnf
	@DATA=$(RANKING_DATA) DOCUMENTS=$(DOCUMENTS) QUERIES=$(QUERIES) SEEDS="$(SEEDS)" scripts/measure/ranking.py; \
	  status=$$?; $(MAKE) --no-print-directory stop DATA=$(RANKING_DATA); exit $$status

test-orm: links ## SQLAlchemy's tests with InnoDB and with TidesDB: [TESTS="files or -k patterns"]
	@$(call say,running SQLAlchemy's tests (20 MB by pip once; ten minutes))
	@scripts/test/run-orm.sh $(BUILD)/orm plugin/test/orm.known $(TESTS)

test-schemas: links ## schemas of applications with foreign keys, with InnoDB and with TidesDB: [SCHEMAS="zabbix kea"]
	@$(call say,running statements on schemas of Debian's packages (20 MB once; eight minutes))
	@scripts/setup/packages.sh python3
	@scripts/test/run-schemas.sh $(BUILD)/schemas plugin/test/schemas.known $(SCHEMAS)

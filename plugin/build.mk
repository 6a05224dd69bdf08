# Builds $(BUILD)/ha_tidesdb.so from plugin/src and the engine's C interface.
# Called by the Makefile above, which has run setup and knows the prefix:
#   make -f plugin/build.mk -j2 PREFIX=DIR BUILD=build
# Flags follow those of the server's own engines in a RelWithDebInfo build.

ifndef PREFIX
$(error PREFIX is not set: use the Makefile in the folder above)
endif

BUILD := build
OBJECTS_DIR := $(BUILD)/plugin
PLUGIN := $(BUILD)/ha_tidesdb.so
HEADERS := $(PREFIX)/include/server
ENGINE := $(or $(CARGO_TARGET_DIR),target)/$(or $(PROFILE),release)/libtidesdb_capi.a

# plugin/src/server has a folder for each release of the server, all with the same files: this one's is taken.
RELEASES := $(sort $(notdir $(wildcard plugin/src/server/*)))
RELEASE := $(shell sed -n 's/^.define MYSQL_BASE_VERSION[[:space:]]*"mysqld-\(.*\)".*/\1/p' $(HEADERS)/generated/mysql_version.h)
ifeq ($(filter $(RELEASE),$(RELEASES)),)
$(error $(PREFIX) has MariaDB $(or $(RELEASE),of an unknown release): the plugin is for MariaDB $(subst $() $(), and ,$(RELEASES)))
endif
SERVER_FOLDER := plugin/src/server/$(RELEASE)

SOURCES := $(sort $(shell find plugin/src -path plugin/src/server -prune -o -name '*.cc' -print 2>/dev/null) \
  $(wildcard $(SERVER_FOLDER)/*.cc))
OBJECTS := $(SOURCES:plugin/src/%.cc=$(OBJECTS_DIR)/%.o)

CXX ?= g++
PLUGIN_INCLUDES := -Iplugin/src -I$(SERVER_FOLDER) -Icrates/tidesdb-capi/include \
  -isystem $(HEADERS)/wsrep-lib/include -isystem $(HEADERS)/wsrep-lib/wsrep-API/v26 \
  -isystem $(HEADERS)/generated -isystem $(HEADERS)/include/providers \
  -isystem $(HEADERS)/include -isystem $(HEADERS)/sql
PLUGIN_DEFINES := -DHAVE_CONFIG_H -DMYSQL_DYNAMIC_PLUGIN -D_FILE_OFFSET_BITS=64 -DNDEBUG -DDBUG_OFF
# gnu++17: the server's headers use what GNU adds. Own symbols are not up for
# interposition: that lets the compiler inline them in position independent code.
# Packages have all of the debug information; a clone's build has lines of the source in stacks.
DEBUG_INFO := $(if $(filter dist,$(PROFILE)),-g,-g1)
PLUGIN_FLAGS := -std=gnu++17 -O2 $(DEBUG_INFO) -fPIC -fno-omit-frame-pointer -fno-strict-aliasing \
  -fno-semantic-interposition -fstack-protector-strong -Wall -Wextra -Wno-unused-parameter
# exports.map decides what the server sees, so the engine's symbols stay inside.
LINK_FLAGS := -shared -Wl,-z,relro,-z,now -Wl,-Bsymbolic-functions -Wl,--gc-sections \
  -Wl,--exclude-libs,libtidesdb_capi.a -Wl,--version-script=plugin/exports.map

PRECOMPILED := $(OBJECTS_DIR)/precompiled.h

COMPILE := $(CXX) $(PLUGIN_FLAGS) $(CXXFLAGS) $(PLUGIN_DEFINES) $(PLUGIN_INCLUDES)

.PHONY: all objects wsrep-recorder print-compile print-sources test-sort test-index-kind test-table-record always
all: $(PLUGIN)

objects: $(OBJECTS)

# What clang-tidy needs to read a file as the compiler does.
print-compile:
	@echo $(PLUGIN_FLAGS) $(PLUGIN_DEFINES) $(PLUGIN_INCLUDES)

print-sources:
	@echo $(SOURCES)

# Alone: what it needs of a server stands in the test, and the server's other symbols are never called.
test-sort:
	@mkdir -p $(OBJECTS_DIR)
	@for sort in merge_sort inversion; do \
	  $(COMPILE) -o $(OBJECTS_DIR)/$${sort}_test plugin/test/$${sort}_test.cc plugin/src/ddl/$$sort.cc \
	    plugin/src/ddl/sorted_runs.cc plugin/src/ddl/sort_memory.cc -Wl,--unresolved-symbols=ignore-all && \
	  $(OBJECTS_DIR)/$${sort}_test $(SEED) || exit 1; \
	done

# Alone, too. SEED: of the random changes.
test-index-kind:
	@mkdir -p $(OBJECTS_DIR)
	@$(COMPILE) -o $(OBJECTS_DIR)/index_kind_test plugin/test/index_kind_test.cc -Wl,--unresolved-symbols=ignore-all
	@$(OBJECTS_DIR)/index_kind_test $(SEED)

# Alone, too.
test-table-record:
	@mkdir -p $(OBJECTS_DIR)
	@$(COMPILE) -o $(OBJECTS_DIR)/table_record_test plugin/test/table_record_test.cc plugin/src/ddl/table_record.cc \
	  -Wl,--unresolved-symbols=ignore-all
	@$(OBJECTS_DIR)/table_record_test

# A provider for Galera's interface that writes down what the server gives it, for tests.
wsrep-recorder: $(BUILD)/wsrep_recorder.so

$(BUILD)/wsrep_recorder.so: plugin/test/wsrep_recorder.c
	@echo "  CC    $<"
	@$(CC) -std=gnu11 -O1 -g -Wall -Wextra -fPIC -shared -isystem $(HEADERS)/wsrep-lib/wsrep-API/v26 -o $@ $< -lpthread

$(PLUGIN): $(OBJECTS) $(ENGINE) plugin/exports.map $(OBJECTS_DIR)/flags $(OBJECTS_DIR)/engine
	@test -n "$(OBJECTS)" || { echo "plugin/src holds no .cc file" >&2; exit 1; }
	@echo "  LINK  $@"
	@$(CXX) $(LINK_FLAGS) $(LDFLAGS) -o $@.new $(OBJECTS) $(ENGINE) \
	  $(HEADERS)/libmysqlservices.a -lpthread -ldl -lm
	@scripts/plugin/check.sh symbols $(PREFIX) $@.new
	@$(if $(findstring -DTIDESDB_PLUGIN_MUTANTS,$(CXXFLAGS)),,! grep -q TIDESDB_PLUGIN_MUTANT $@.new || { echo "$@ has planted faults" >&2; exit 1; })
	@mv $@.new $@

$(OBJECTS_DIR)/%.o: plugin/src/%.cc $(PRECOMPILED).gch $(OBJECTS_DIR)/flags
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	@$(COMPILE) -fpch-preprocess -include $(PRECOMPILED) -MMD -MP -c $< -o $@

$(PRECOMPILED).gch: plugin/precompiled.h $(OBJECTS_DIR)/flags
	@echo "  PCH   $<"
	@$(COMPILE) -MMD -MP -x c++-header $< -o $@

# Changes when the flags or the prefix do, and with it every object.
$(OBJECTS_DIR)/flags: always
	@mkdir -p $(@D)
	@echo '$(COMPILE) $(LINK_FLAGS)' | cmp -s - $@ || echo '$(COMPILE) $(LINK_FLAGS)' >$@

# Changes when another build of the engine is taken, which may be older than the plugin.
$(OBJECTS_DIR)/engine: always
	@mkdir -p $(@D)
	@echo '$(ENGINE)' | cmp -s - $@ || echo '$(ENGINE)' >$@

-include $(OBJECTS:.o=.d) $(PRECOMPILED).d

#include "table_options.h"

#include <mysql/plugin.h>

#include <atomic>
#include <cstdlib>
#include <iterator>

#include "log.h"
#include "sql_class.h"

#include "names_without_effect.h"
#include "server.h"
#include "sysvars.h"
#include "unbuilt_features.h"

namespace tidesdb {
namespace sysvars {

namespace {

const char *compression_names[] = {"NONE", "SNAPPY", "LZ4", "ZSTD", "LZ4_FAST", NullS};
TYPELIB compression_type = CREATE_TYPELIB_FOR(compression_names);
const char *isolation_names[] = {"READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ",
                                 "SNAPSHOT",         "SERIALIZABLE",   NullS};
TYPELIB isolation_type = CREATE_TYPELIB_FOR(isolation_names);

constexpr ulonglong KB = 1024, MB = 1024 * KB;
constexpr ulonglong NO_BOUND = ~0ULL;

}  // namespace

static MYSQL_THDVAR_ENUM(default_compression, PLUGIN_VAR_RQCMDARG, "COMPRESSION of new tables", nullptr,
                         nullptr, TIDESDB_COMPRESSION_LZ4, &compression_type);
static MYSQL_THDVAR_BOOL(default_bloom_filter, PLUGIN_VAR_OPCMDARG, "BLOOM_FILTER of new tables", nullptr,
                         nullptr, TRUE);
static MYSQL_THDVAR_BOOL(default_use_btree, PLUGIN_VAR_OPCMDARG, "USE_BTREE of new tables", nullptr, nullptr,
                         FALSE);
static MYSQL_THDVAR_ENUM(default_sync_mode, PLUGIN_VAR_RQCMDARG, "SYNC_MODE of new tables", nullptr, nullptr,
                         TIDESDB_SYNC_FULL, &sync_mode_type);
static MYSQL_THDVAR_ULONGLONG(
    default_sync_interval_us, PLUGIN_VAR_RQCMDARG,
    "SYNC_INTERVAL_US of new tables: microseconds of SYNC_MODE=INTERVAL. The log is "
    "one: the shortest interval of all tables counts for all",
    nullptr, nullptr, 128000, 1, NO_BOUND, 0);
static MYSQL_THDVAR_ULONGLONG(
    default_min_disk_space, PLUGIN_VAR_RQCMDARG,
    "MIN_DISK_SPACE of new tables: with fewer bytes free, statements that add rows or "
    "change them fail with \"disk full\"",
    nullptr, nullptr, 100 * MB, 0, NO_BOUND, 0);
static MYSQL_THDVAR_ULONGLONG(default_bloom_fpr, PLUGIN_VAR_RQCMDARG,
                              "BLOOM_FPR of new tables: false positives of a filter per 10,000", nullptr,
                              nullptr, 100, 1, 10000, 0);
static MYSQL_THDVAR_ULONGLONG(default_l0_queue_stall_threshold, PLUGIN_VAR_RQCMDARG,
                              "L0_QUEUE_STALL_THRESHOLD of new tables: runs at which writers stop", nullptr,
                              nullptr, 10, 1, 1024, 0);
static MYSQL_THDVAR_ULONGLONG(default_l1_file_count_trigger, PLUGIN_VAR_RQCMDARG,
                              "L1_FILE_COUNT_TRIGGER of new tables: runs at which they must be merged",
                              nullptr, nullptr, 4, 1, 1024, 0);
static MYSQL_THDVAR_ULONGLONG(default_level_size_ratio, PLUGIN_VAR_RQCMDARG, "LEVEL_SIZE_RATIO of new tables",
                              nullptr, nullptr, 10, 2, 100, 0);
static MYSQL_THDVAR_ULONGLONG(default_min_levels, PLUGIN_VAR_RQCMDARG, "MIN_LEVELS of new tables", nullptr,
                              nullptr, 1, 1, 64, 0);
static MYSQL_THDVAR_ULONGLONG(
    default_klog_value_threshold, PLUGIN_VAR_RQCMDARG,
    "KLOG_VALUE_THRESHOLD of new tables, in bytes: longer rows are written once, to value "
    "files. At least 4096 in effect",
    nullptr, nullptr, 512, 0, NO_BOUND, 0);
static MYSQL_THDVAR_ULONGLONG(default_tombstone_density_trigger, PLUGIN_VAR_RQCMDARG,
                              "TOMBSTONE_DENSITY_TRIGGER of new tables, per 10,000; 0: off", nullptr, nullptr,
                              0, 0, 10000, 0);
static MYSQL_THDVAR_ULONGLONG(default_tombstone_density_min_entries, PLUGIN_VAR_RQCMDARG,
                              "TOMBSTONE_DENSITY_MIN_ENTRIES of new tables", nullptr, nullptr, 1024, 0,
                              NO_BOUND, 0);
static MYSQL_THDVAR_ENUM(default_isolation_level, PLUGIN_VAR_RQCMDARG,
                         "ISOLATION_LEVEL of new tables: what REPEATABLE READ means for them", nullptr,
                         nullptr, TIDESDB_REPEATABLE_READ, &isolation_type);
static MYSQL_THDVAR_BOOL(default_object_lazy_compaction, PLUGIN_VAR_OPCMDARG,
                         "Only the default: this build has no object store",
                         unbuilt::check_object_lazy_compaction, nullptr, FALSE);
static MYSQL_THDVAR_BOOL(default_object_prefetch_compaction, PLUGIN_VAR_OPCMDARG,
                         "Only the default: this build has no object store",
                         unbuilt::check_object_prefetch_compaction, nullptr, TRUE);

/* Session variables without effect: the name, its place in the list, default, bounds, why. */
#define NUMBER_WITHOUT_EFFECT(name, place, standard, least, most, why)                 \
  static MYSQL_THDVAR_ULONGLONG(name, PLUGIN_VAR_RQCMDARG, "No effect: " why, nullptr, \
                                (set_without_effect<ulonglong, place, standard>), standard, least, most, 0)

NUMBER_WITHOUT_EFFECT(compact_after_range_delete_min_rows, RANGE_DELETE_MIN_ROWS, 0, 0, NO_BOUND,
                      "the share of tombstones decides when a range is merged");
NUMBER_WITHOUT_EFFECT(default_write_buffer_size, WRITE_BUFFER_SIZE, 64 * MB, 64 * KB, NO_BOUND,
                      "all column families have one memtable");
NUMBER_WITHOUT_EFFECT(default_dividing_level_offset, DIVIDING_LEVEL_OFFSET, 1, 0, 64,
                      "merges choose levels by size");
NUMBER_WITHOUT_EFFECT(default_skip_list_max_level, SKIP_LIST_MAX_LEVEL, 12, 1, 64,
                      "the memtable is no skip list");
NUMBER_WITHOUT_EFFECT(default_index_sample_ratio, INDEX_SAMPLE_RATIO, 1, 1, 1000000,
                      "every block has its entry in the index");
NUMBER_WITHOUT_EFFECT(default_block_index_prefix_len, BLOCK_INDEX_PREFIX_LEN, 16, 1, 256,
                      "the block index keeps shortest separators");
static MYSQL_THDVAR_BOOL(default_block_indexes, PLUGIN_VAR_OPCMDARG,
                         "No effect: every file has a block index", nullptr,
                         (set_without_effect<my_bool, BLOCK_INDEXES, true>), TRUE);
static MYSQL_THDVAR_DOUBLE(default_skip_list_probability, PLUGIN_VAR_RQCMDARG,
                           "No effect: the memtable is no skip list. Percent, or a fraction of 1", nullptr,
                           (set_without_effect<double, SKIP_LIST_PROBABILITY, 25>), 25, 0.000001, 100, 0);

namespace {

struct st_mysql_sys_var *table_variables[] = {MYSQL_SYSVAR(default_compression),
                                              MYSQL_SYSVAR(default_write_buffer_size),
                                              MYSQL_SYSVAR(default_bloom_filter),
                                              MYSQL_SYSVAR(default_use_btree),
                                              MYSQL_SYSVAR(default_sync_mode),
                                              MYSQL_SYSVAR(default_sync_interval_us),
                                              MYSQL_SYSVAR(default_min_disk_space),
                                              MYSQL_SYSVAR(default_bloom_fpr),
                                              MYSQL_SYSVAR(default_l0_queue_stall_threshold),
                                              MYSQL_SYSVAR(default_l1_file_count_trigger),
                                              MYSQL_SYSVAR(default_level_size_ratio),
                                              MYSQL_SYSVAR(default_min_levels),
                                              MYSQL_SYSVAR(default_tombstone_density_trigger),
                                              MYSQL_SYSVAR(default_tombstone_density_min_entries),
                                              MYSQL_SYSVAR(default_isolation_level),
                                              MYSQL_SYSVAR(default_skip_list_max_level),
                                              MYSQL_SYSVAR(default_skip_list_probability),
                                              MYSQL_SYSVAR(default_index_sample_ratio),
                                              MYSQL_SYSVAR(default_block_index_prefix_len),
                                              MYSQL_SYSVAR(default_block_indexes),
                                              MYSQL_SYSVAR(default_klog_value_threshold),
                                              MYSQL_SYSVAR(default_dividing_level_offset),
                                              MYSQL_SYSVAR(default_object_lazy_compaction),
                                              MYSQL_SYSVAR(default_object_prefetch_compaction),
                                              MYSQL_SYSVAR(compact_after_range_delete_min_rows)};
static_assert(std::size(table_variables) == TABLE_VARIABLES);

}  // namespace

st_mysql_sys_var *table_variable(size_t number) { return table_variables[number]; }

ha_create_table_option table_options[] = {
    HA_TOPTION_SYSVAR("COMPRESSION", compression, default_compression),
    HA_TOPTION_SYSVAR("WRITE_BUFFER_SIZE", write_buffer_size, default_write_buffer_size),
    HA_TOPTION_SYSVAR("BLOOM_FILTER", bloom_filter, default_bloom_filter),
    HA_TOPTION_SYSVAR("USE_BTREE", use_btree, default_use_btree),
    HA_TOPTION_SYSVAR("SYNC_MODE", sync_mode, default_sync_mode),
    HA_TOPTION_SYSVAR("BLOOM_FPR", bloom_fpr, default_bloom_fpr),
    HA_TOPTION_SYSVAR("L0_QUEUE_STALL_THRESHOLD", l0_queue_stall_threshold, default_l0_queue_stall_threshold),
    HA_TOPTION_SYSVAR("L1_FILE_COUNT_TRIGGER", l1_file_count_trigger, default_l1_file_count_trigger),
    HA_TOPTION_SYSVAR("LEVEL_SIZE_RATIO", level_size_ratio, default_level_size_ratio),
    HA_TOPTION_SYSVAR("MIN_LEVELS", min_levels, default_min_levels),
    HA_TOPTION_SYSVAR("TOMBSTONE_DENSITY_TRIGGER", tombstone_density_trigger,
                      default_tombstone_density_trigger),
    HA_TOPTION_SYSVAR("TOMBSTONE_DENSITY_MIN_ENTRIES", tombstone_density_min_entries,
                      default_tombstone_density_min_entries),
    HA_TOPTION_SYSVAR("ISOLATION_LEVEL", isolation_level, default_isolation_level),
    HA_TOPTION_SYSVAR("SKIP_LIST_MAX_LEVEL", skip_list_max_level, default_skip_list_max_level),
    HA_TOPTION_STRING("SKIP_LIST_PROBABILITY", skip_list_probability),
    HA_TOPTION_SYSVAR("INDEX_SAMPLE_RATIO", index_sample_ratio, default_index_sample_ratio),
    HA_TOPTION_SYSVAR("BLOCK_INDEX_PREFIX_LEN", block_index_prefix_len, default_block_index_prefix_len),
    HA_TOPTION_SYSVAR("MIN_DISK_SPACE", min_disk_space, default_min_disk_space),
    HA_TOPTION_SYSVAR("SYNC_INTERVAL_US", sync_interval_us, default_sync_interval_us),
    HA_TOPTION_SYSVAR("KLOG_VALUE_THRESHOLD", klog_value_threshold, default_klog_value_threshold),
    HA_TOPTION_SYSVAR("DIVIDING_LEVEL_OFFSET", dividing_level_offset, default_dividing_level_offset),
    HA_TOPTION_SYSVAR("BLOCK_INDEXES", block_indexes, default_block_indexes),
    HA_TOPTION_SYSVAR("OBJECT_LAZY_COMPACTION", object_lazy_compaction, default_object_lazy_compaction),
    HA_TOPTION_SYSVAR("OBJECT_PREFETCH_COMPACTION", object_prefetch_compaction,
                      default_object_prefetch_compaction),
    HA_TOPTION_BOOL("ENCRYPTED", encrypted, FALSE),
    HA_TOPTION_NUMBER("ENCRYPTION_KEY_ID", encryption_key_id, 1, 1, 255, 1),
    HA_TOPTION_NUMBER("TTL", ttl, 0, 0, MAX_TTL, 1),
    HA_TOPTION_END};

ha_create_table_option field_options[] = {HA_FOPTION_BOOL("TTL", ttl, FALSE), HA_FOPTION_END};

ha_create_table_option index_options[] = {HA_IOPTION_BOOL("USE_BTREE", use_btree, FALSE), HA_IOPTION_END};

double probability_percent(const char *text) {
  char *end = nullptr;
  const double value = strtod(text, &end);
  if (end == text || *end || !(value > 0 && value <= 100)) return -1;
  return value < 1 ? value * 100 : value;
}

namespace {

#define OPTION_STANDARD(name) (MYSQL_SYSVAR_NAME(default_##name).def_val)
#define NUMBER_DIFFERS(name) \
  [](const ha_table_option_struct &options) { return options.name != OPTION_STANDARD(name); }

struct OptionWithoutEffect {
  const char *option;
  bool (*differs)(const ha_table_option_struct &options);
};

const OptionWithoutEffect options_without_effect[] = {
    {"WRITE_BUFFER_SIZE", NUMBER_DIFFERS(write_buffer_size)},
    {"DIVIDING_LEVEL_OFFSET", NUMBER_DIFFERS(dividing_level_offset)},
    {"SKIP_LIST_MAX_LEVEL", NUMBER_DIFFERS(skip_list_max_level)},
    {"INDEX_SAMPLE_RATIO", NUMBER_DIFFERS(index_sample_ratio)},
    {"BLOCK_INDEX_PREFIX_LEN", NUMBER_DIFFERS(block_index_prefix_len)},
    {"BLOCK_INDEXES", [](const ha_table_option_struct &options) { return !options.block_indexes; }},
    {"SKIP_LIST_PROBABILITY",
     [](const ha_table_option_struct &options) {
       return options.skip_list_probability &&
              probability_percent(options.skip_list_probability) != OPTION_STANDARD(skip_list_probability);
     }},
};

const OptionWithoutEffect *find_option(const LEX_CSTRING &name) {
  for (const OptionWithoutEffect &known : options_without_effect)
    if (name.length == strlen(known.option) && !strncasecmp(name.str, known.option, name.length))
      return &known;
  return nullptr;
}

}  // namespace

bool option_has_no_effect(const LEX_CSTRING &name, const ha_table_option_struct &options) {
  const OptionWithoutEffect *known = find_option(name);
  return known && known->differs(options);
}

void log_option_without_effect(const LEX_CSTRING &name) {
  static std::atomic<bool> logged[std::size(options_without_effect)];
  const OptionWithoutEffect *known = find_option(name);
  if (known && !logged[known - options_without_effect].exchange(true))
    sql_print_information("TidesDB: the table option %s has no effect in this design", known->option);
}

void note_table_variables() {
  double &probability = THDVAR(nullptr, default_skip_list_probability);
  if (probability < 1) probability *= 100;
#define NOTE_DEFAULT(place, name) \
  note_no_effect(place, THDVAR(nullptr, name), MYSQL_SYSVAR_NAME(name).def_val)
  NOTE_DEFAULT(RANGE_DELETE_MIN_ROWS, compact_after_range_delete_min_rows);
  NOTE_DEFAULT(WRITE_BUFFER_SIZE, default_write_buffer_size);
  NOTE_DEFAULT(BLOCK_INDEXES, default_block_indexes);
  NOTE_DEFAULT(DIVIDING_LEVEL_OFFSET, default_dividing_level_offset);
  NOTE_DEFAULT(SKIP_LIST_MAX_LEVEL, default_skip_list_max_level);
  NOTE_DEFAULT(SKIP_LIST_PROBABILITY, default_skip_list_probability);
  NOTE_DEFAULT(INDEX_SAMPLE_RATIO, default_index_sample_ratio);
  NOTE_DEFAULT(BLOCK_INDEX_PREFIX_LEN, default_block_index_prefix_len);
}

bool refuse_table_variables() {
  bool refused = false;
  if (THDVAR(nullptr, default_object_lazy_compaction)) {
    unbuilt::log_object_store_variable("tidesdb_default_object_lazy_compaction");
    refused = true;
  }
  if (!THDVAR(nullptr, default_object_prefetch_compaction)) {
    unbuilt::log_object_store_variable("tidesdb_default_object_prefetch_compaction");
    refused = true;
  }
  return refused;
}

}  // namespace sysvars
}  // namespace tidesdb

/*
  Definitions of the variables. A variable is here when its feature exists: the server refuses the names of
  those that do not by itself. Names of the closed list of no effect are accepted and, when they are not at
  their default, answered by a line in the error log (variables) or a note (table options).
*/
#include "sysvars.h"

#include <mysql/plugin.h>

#include "sql_class.h"
#include "set_var.h"
#include "sql_acl.h"
#include "strfunc.h"

#include "backup/online_backup.h"
#include "server.h"
#include "store/memory_sizes.h"

namespace tidesdb {
namespace sysvars {

namespace {

const char *compression_names[] = {"NONE", "SNAPPY", "LZ4", "ZSTD", "LZ4_FAST", NullS};
TYPELIB compression_type = CREATE_TYPELIB_FOR(compression_names);
const char *sync_mode_names[] = {"NONE", "INTERVAL", "FULL", NullS};
TYPELIB sync_mode_type = CREATE_TYPELIB_FOR(sync_mode_names);
const char *isolation_names[] = {"READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ",
                                 "SNAPSHOT",         "SERIALIZABLE",   NullS};
TYPELIB isolation_type = CREATE_TYPELIB_FOR(isolation_names);
const char *log_level_names[] = {"DEBUG", "INFO", "WARN", "ERROR", "FATAL", "NONE", NullS};
TYPELIB log_level_type = CREATE_TYPELIB_FOR(log_level_names);
const char *foreign_keys_names[] = {"ERROR", "WARN", NullS};
TYPELIB foreign_keys_type = CREATE_TYPELIB_FOR(foreign_keys_names);

constexpr ulonglong KB = 1024, MB = 1024 * KB, GB = 1024 * MB;
constexpr ulonglong NO_BOUND = ~0ULL;

/* Variables set at start. */
ulong opt_flush_threads, opt_compaction_threads, opt_max_concurrent_flushes;
ulong opt_log_level;
my_bool opt_log_to_file;
ulonglong opt_log_truncation_at;
ulonglong opt_block_cache_size;
ulong opt_max_open_sstables;
ulonglong opt_max_memory_usage;
my_bool opt_unified_memtable;
ulonglong opt_unified_write_buffer_size;
ulong opt_unified_sync_mode;
ulonglong opt_unified_sync_interval;
ulong opt_unified_skip_list_max_level, opt_unified_skip_list_probability;
char *opt_data_home_dir, *opt_replace_missing_store;
my_bool opt_finish_compactions_on_close, opt_fast_shutdown;
/* Variables changed at run time. */
my_bool opt_pessimistic_locking;
my_bool opt_print_all_conflicts;
ulong opt_procedure_concurrency;
char *opt_backup_dir, *opt_checkpoint_dir;

/* The server's own check of a BOOL value is in no header. False: it is none. */
bool read_bool(st_mysql_value *value, my_bool *result) {
  if (value->value_type(value) == MYSQL_VALUE_TYPE_STRING) {
    char buffer[16];
    int length = sizeof(buffer);
    const char *text = value->val_str(value, buffer, &length);
    const int found = text ? find_type(&bool_typelib, text, static_cast<size_t>(length), true) : 0;
    *result = found == 2;
    return found != 0;
  }
  longlong number;
  if (value->val_int(value, &number) != 0 || number < 0 || number > 1) return false;
  *result = number == 1;
  return true;
}

/* For session variables that change how others are served: as the server checks its own ones. */
int check_restricted_bool(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return check_global_access(thd, PRIV_SET_RESTRICTED_SESSION_SYSTEM_VARIABLE) ||
         !read_bool(value, static_cast<my_bool *>(save));
}

/* The backup is taken before the variable has its new value, so that a failure is the statement's error. */
int check_backup(THD *thd, bool links, void *save, st_mysql_value *value) {
  char buffer[FN_REFLEN];
  int length = sizeof(buffer);
  const char *directory = value->val_str(value, buffer, &length);
  directory = directory ? thd_strmake(thd, directory, static_cast<size_t>(length)) : "";
  *static_cast<const char **>(save) = directory;
  return !directory || (*directory && take_backup(thd, directory, links));
}

int check_backup_dir(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return check_backup(thd, false, save, value);
}

int check_checkpoint_dir(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return check_backup(thd, true, save, value);
}

}  // namespace

/* --- set at start --- */

static MYSQL_SYSVAR_ULONG(flush_threads, opt_flush_threads, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                          "Flushes of memtables to files that may run at a time; with one memtable for all "
                          "column families there is never more than one",
                          nullptr, nullptr, 4, 1, 64, 0);
static MYSQL_SYSVAR_ULONG(compaction_threads, opt_compaction_threads,
                          PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG, "Threads that merge files", nullptr,
                          nullptr, 4, 1, 64, 0);
static MYSQL_SYSVAR_ULONG(max_concurrent_flushes, opt_max_concurrent_flushes,
                          PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                          "Flushes that run at a time; 0: as many as there are threads", nullptr, nullptr, 0,
                          0, 64, 0);
static MYSQL_SYSVAR_ENUM(log_level, opt_log_level, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                         "Least level of the engine's log lines", nullptr, nullptr, TIDESDB_LOG_INFO,
                         &log_level_type);
static MYSQL_SYSVAR_BOOL(log_to_file, opt_log_to_file, PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG,
                         "Log lines go into tidesdb.log of the data directory, else into the error log",
                         nullptr, nullptr, TRUE);
static MYSQL_SYSVAR_ULONGLONG(log_truncation_at, opt_log_truncation_at,
                              PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                              "Bytes at which tidesdb.log is cut back to nothing; 0: never", nullptr, nullptr,
                              24 * MB, 0, NO_BOUND, 0);
static MYSQL_SYSVAR_ULONGLONG(block_cache_size, opt_block_cache_size,
                              PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                              "Bytes of the cache of blocks, index and filter partitions", nullptr, nullptr,
                              256 * MB, 1 * MB, NO_BOUND, 0);
static MYSQL_SYSVAR_ULONG(max_open_sstables, opt_max_open_sstables, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                          "Files that are open at a time", nullptr, nullptr, 256, 8, 1000000, 0);
static MYSQL_SYSVAR_ULONGLONG(
    max_memory_usage, opt_max_memory_usage, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
    "Bound on all memory of the engine; 0: half of the machine's or container's, or the sum of the sizes "
    "set explicitly plus a quarter where that is more",
    nullptr, nullptr, 0, 0, NO_BOUND, 0);
static MYSQL_SYSVAR_BOOL(unified_memtable, opt_unified_memtable, PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG,
                         "One memtable for all column families", nullptr, nullptr, TRUE);
static MYSQL_SYSVAR_ULONGLONG(unified_memtable_write_buffer_size, opt_unified_write_buffer_size,
                              PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                              "Bytes of the memtable; changes of a transaction beyond half of it go to files",
                              nullptr, nullptr, 256 * MB, 1 * MB, NO_BOUND, 0);
static MYSQL_SYSVAR_ENUM(
    unified_memtable_sync_mode, opt_unified_sync_mode, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
    "When commits reach the disk: NONE (as the system likes), INTERVAL, FULL (before the answer)", nullptr,
    nullptr, TIDESDB_SYNC_FULL, &sync_mode_type);
static MYSQL_SYSVAR_ULONGLONG(unified_memtable_sync_interval, opt_unified_sync_interval,
                              PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG, "Microseconds of INTERVAL", nullptr,
                              nullptr, 128000, 1, NO_BOUND, 0);
static MYSQL_SYSVAR_ULONG(unified_memtable_skip_list_max_level, opt_unified_skip_list_max_level,
                          PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                          "No effect: the memtable is no skip list", nullptr, nullptr, 0, 0, 64, 0);
static MYSQL_SYSVAR_ULONG(unified_memtable_skip_list_probability, opt_unified_skip_list_probability,
                          PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                          "No effect: the memtable is no skip list", nullptr, nullptr, 0, 0, 100, 0);
static MYSQL_SYSVAR_STR(
    data_home_dir, opt_data_home_dir, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
    "Directory of the store; default: #tidesdb in the data directory where it exists, else "
    "tidesdb_data beside it",
    nullptr, nullptr, nullptr);
static MYSQL_SYSVAR_STR(replace_missing_store, opt_replace_missing_store,
                        PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
                        "Identity of a store that is lost, as the error log names it: a start makes a new "
                        "store in its place. The "
                        "new one has another identity, so this happens once",
                        nullptr, nullptr, "");
static MYSQL_SYSVAR_BOOL(finish_compactions_on_close, opt_finish_compactions_on_close,
                         PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG,
                         "Shutdown waits for running and pending merges of files", nullptr, nullptr, FALSE);
static MYSQL_SYSVAR_BOOL(fast_shutdown, opt_fast_shutdown, PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG,
                         "Shutdown leaves what is in memory to the log; OFF: it is written to files, so that "
                         "the next start has nothing to replay",
                         nullptr, nullptr, FALSE);

/* --- changed at run time --- */

static MYSQL_SYSVAR_BOOL(
    pessimistic_locking, opt_pessimistic_locking, PLUGIN_VAR_OPCMDARG,
    "ON: writers wait for each other; OFF: optimistic, a conflict shows at the statement (1213). "
    "A transaction keeps the mode in which it began",
    nullptr, nullptr, TRUE);
static MYSQL_SYSVAR_BOOL(print_all_conflicts, opt_print_all_conflicts, PLUGIN_VAR_OPCMDARG,
                         "Every conflict and deadlock goes to the error log with its statements", nullptr,
                         nullptr, FALSE);

static MYSQL_SYSVAR_ULONG(procedure_concurrency, opt_procedure_concurrency, PLUGIN_VAR_RQCMDARG,
                          "Transactions in stored procedures that run at a time, others wait in line before "
                          "they begin; 0: as many as "
                          "there are cores",
                          nullptr, nullptr, 0, 0, 100000, 0);

static MYSQL_SYSVAR_STR(
    backup_dir, opt_backup_dir, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
    "Setting it takes a consistent online backup into that directory, which is empty or not "
    "there yet, and returns when it is done; then the directory of the last one",
    check_backup_dir, nullptr, "");
static MYSQL_SYSVAR_STR(checkpoint_dir, opt_checkpoint_dir, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
                        "As tidesdb_backup_dir, with hard links for table files, on the store's file system",
                        check_checkpoint_dir, nullptr, "");

/* --- session --- */

static MYSQL_THDVAR_ULONGLONG(ttl, PLUGIN_VAR_RQCMDARG,
                              "Seconds that rows live which the session writes; 0: the table's TTL counts. A "
                              "row's own TTL column counts before it",
                              nullptr, nullptr, 0, 0, MAX_TTL, 0);
static MYSQL_THDVAR_BOOL(skip_unique_check, PLUGIN_VAR_OPCMDARG,
                         "An insertion into an empty table locks it and looks for no duplicates of keys that "
                         "come in ascending order; no effect on other tables. Needs SUPER",
                         check_restricted_bool, nullptr, FALSE);
static MYSQL_THDVAR_BOOL(
    single_delete_primary, PLUGIN_VAR_OPCMDARG,
    "DELETE writes a single delete for the primary key where the row is known to be written once: a merge "
    "drops both together",
    nullptr, nullptr, FALSE);
static MYSQL_THDVAR_ULONGLONG(backpressure_wait_timeout_ms, PLUGIN_VAR_RQCMDARG,
                              "Milliseconds that a writer is held back at most before it gets 1205", nullptr,
                              nullptr, 60000, 0, 3600000, 0);
static MYSQL_THDVAR_ULONGLONG(lock_wait_timeout_ms, PLUGIN_VAR_RQCMDARG,
                              "Milliseconds to wait for a lock; 0: no limit. lock_wait_timeout and "
                              "innodb_lock_wait_timeout count too where they are shorter",
                              nullptr, nullptr, 50000, 0, 3600000, 0);
static MYSQL_THDVAR_ENUM(
    foreign_keys, PLUGIN_VAR_RQCMDARG,
    "FOREIGN KEY in a table's definition: ERROR refuses it, WARN drops it with a warning", nullptr, nullptr,
    FOREIGN_KEYS_ERROR, &foreign_keys_type);

/* As innodb_snapshot_isolation of the server that this is built for: it became ON with 11.6.2. */
constexpr my_bool INNODB_SNAPSHOT_ISOLATION = MYSQL_VERSION_ID >= 110602;
/* Optimistic transactions have no other way than to compare. */
static int check_snapshot_isolation(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  my_bool *on = static_cast<my_bool *>(save);
  if (!read_bool(value, on)) return 1;
  if (!*on && !opt_pessimistic_locking)
    push_warning(thd, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR,
                 "TidesDB: tidesdb_snapshot_isolation=OFF has no effect while tidesdb_pessimistic_locking is "
                 "OFF");
  return 0;
}
static MYSQL_THDVAR_BOOL(
    snapshot_isolation, PLUGIN_VAR_OPCMDARG,
    "At REPEATABLE READ a statement that locks or changes a row newer than the transaction's snapshot: ON: "
    "gets 1020; OFF: takes the newest version, as with innodb_snapshot_isolation=OFF",
    check_snapshot_isolation, nullptr, INNODB_SNAPSHOT_ISOLATION);

static MYSQL_THDVAR_ENUM(default_compression, PLUGIN_VAR_RQCMDARG, "COMPRESSION of new tables", nullptr,
                         nullptr, TIDESDB_COMPRESSION_LZ4, &compression_type);
static MYSQL_THDVAR_ULONGLONG(
    default_write_buffer_size, PLUGIN_VAR_RQCMDARG,
    "WRITE_BUFFER_SIZE of new tables; no effect while tidesdb_unified_memtable is ON", nullptr, nullptr,
    64 * MB, 64 * KB, NO_BOUND, 0);
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
static MYSQL_THDVAR_ULONGLONG(default_tombstone_density_trigger, PLUGIN_VAR_RQCMDARG,
                              "TOMBSTONE_DENSITY_TRIGGER of new tables, per 10,000; 0: off", nullptr, nullptr,
                              0, 0, 10000, 0);
static MYSQL_THDVAR_ULONGLONG(default_tombstone_density_min_entries, PLUGIN_VAR_RQCMDARG,
                              "TOMBSTONE_DENSITY_MIN_ENTRIES of new tables", nullptr, nullptr, 1024, 0,
                              NO_BOUND, 0);
static MYSQL_THDVAR_ENUM(default_isolation_level, PLUGIN_VAR_RQCMDARG,
                         "ISOLATION_LEVEL of new tables: what REPEATABLE READ means for them", nullptr,
                         nullptr, TIDESDB_REPEATABLE_READ, &isolation_type);
static MYSQL_THDVAR_ULONGLONG(default_skip_list_max_level, PLUGIN_VAR_RQCMDARG,
                              "No effect: the memtable is no skip list", nullptr, nullptr, 12, 1, 64, 0);
static MYSQL_THDVAR_ULONGLONG(default_skip_list_probability, PLUGIN_VAR_RQCMDARG,
                              "No effect: the memtable is no skip list", nullptr, nullptr, 25, 1, 100, 0);
static MYSQL_THDVAR_ULONGLONG(default_index_sample_ratio, PLUGIN_VAR_RQCMDARG,
                              "No effect: every block has its entry in the index", nullptr, nullptr, 1, 1,
                              1000000, 0);
static MYSQL_THDVAR_ULONGLONG(default_block_index_prefix_len, PLUGIN_VAR_RQCMDARG,
                              "No effect: the block index keeps shortest separators", nullptr, nullptr, 16, 1,
                              256, 0);

struct st_mysql_sys_var *variables[] = {MYSQL_SYSVAR(flush_threads),
                                        MYSQL_SYSVAR(compaction_threads),
                                        MYSQL_SYSVAR(max_concurrent_flushes),
                                        MYSQL_SYSVAR(log_level),
                                        MYSQL_SYSVAR(log_to_file),
                                        MYSQL_SYSVAR(log_truncation_at),
                                        MYSQL_SYSVAR(block_cache_size),
                                        MYSQL_SYSVAR(max_open_sstables),
                                        MYSQL_SYSVAR(max_memory_usage),
                                        MYSQL_SYSVAR(unified_memtable),
                                        MYSQL_SYSVAR(unified_memtable_write_buffer_size),
                                        MYSQL_SYSVAR(unified_memtable_sync_mode),
                                        MYSQL_SYSVAR(unified_memtable_sync_interval),
                                        MYSQL_SYSVAR(unified_memtable_skip_list_max_level),
                                        MYSQL_SYSVAR(unified_memtable_skip_list_probability),
                                        MYSQL_SYSVAR(data_home_dir),
                                        MYSQL_SYSVAR(replace_missing_store),
                                        MYSQL_SYSVAR(finish_compactions_on_close),
                                        MYSQL_SYSVAR(fast_shutdown),
                                        MYSQL_SYSVAR(pessimistic_locking),
                                        MYSQL_SYSVAR(print_all_conflicts),
                                        MYSQL_SYSVAR(procedure_concurrency),
                                        MYSQL_SYSVAR(backup_dir),
                                        MYSQL_SYSVAR(checkpoint_dir),
                                        MYSQL_SYSVAR(ttl),
                                        MYSQL_SYSVAR(skip_unique_check),
                                        MYSQL_SYSVAR(single_delete_primary),
                                        MYSQL_SYSVAR(backpressure_wait_timeout_ms),
                                        MYSQL_SYSVAR(lock_wait_timeout_ms),
                                        MYSQL_SYSVAR(foreign_keys),
                                        MYSQL_SYSVAR(snapshot_isolation),
                                        MYSQL_SYSVAR(default_compression),
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
                                        nullptr};

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
    HA_TOPTION_SYSVAR("SKIP_LIST_PROBABILITY", skip_list_probability, default_skip_list_probability),
    HA_TOPTION_SYSVAR("INDEX_SAMPLE_RATIO", index_sample_ratio, default_index_sample_ratio),
    HA_TOPTION_SYSVAR("BLOCK_INDEX_PREFIX_LEN", block_index_prefix_len, default_block_index_prefix_len),
    HA_TOPTION_SYSVAR("MIN_DISK_SPACE", min_disk_space, default_min_disk_space),
    HA_TOPTION_SYSVAR("SYNC_INTERVAL_US", sync_interval_us, default_sync_interval_us),
    HA_TOPTION_NUMBER("TTL", ttl, 0, 0, MAX_TTL, 1),
    HA_TOPTION_END};

ha_create_table_option field_options[] = {HA_FOPTION_BOOL("TTL", ttl, FALSE), HA_FOPTION_END};

ha_create_table_option index_options[] = {HA_IOPTION_BOOL("USE_BTREE", use_btree, FALSE), HA_IOPTION_END};

bool option_has_no_effect(const LEX_CSTRING &name) {
  static const char *const names[] = {"SKIP_LIST_MAX_LEVEL", "SKIP_LIST_PROBABILITY", "INDEX_SAMPLE_RATIO",
                                      "BLOCK_INDEX_PREFIX_LEN", "WRITE_BUFFER_SIZE"};
  for (const char *known : names)
    if (name.length == strlen(known) && !strncasecmp(name.str, known, name.length)) return true;
  return false;
}

namespace {

void note_no_effect(const char *name, ulonglong value, ulonglong standard) {
  if (value != standard)
    sql_print_information("TidesDB: tidesdb_%s=%llu has no effect in this design", name, value);
}

void note_backup_at_start(const char *name, const char *value) {
  if (value && *value)
    sql_print_warning("TidesDB: tidesdb_%s='%s' takes no backup at the start of the server; use SET GLOBAL",
                      name, value);
}

void note_variables_without_effect() {
  note_backup_at_start("backup_dir", opt_backup_dir);
  note_backup_at_start("checkpoint_dir", opt_checkpoint_dir);
  if (!THDVAR(nullptr, snapshot_isolation) && !opt_pessimistic_locking)
    sql_print_information(
        "TidesDB: tidesdb_snapshot_isolation=OFF has no effect while "
        "tidesdb_pessimistic_locking is OFF");
  const ulong threads = opt_max_concurrent_flushes ? std::min(opt_flush_threads, opt_max_concurrent_flushes)
                                                   : opt_flush_threads;
  if (threads > 1 && opt_flush_threads != 4)
    sql_print_information(
        "TidesDB: tidesdb_flush_threads=%lu allows %lu flushes at a time; with tidesdb_unified_memtable=ON "
        "there is "
        "never more than one",
        opt_flush_threads, threads);
  note_no_effect("unified_memtable_skip_list_max_level", opt_unified_skip_list_max_level, 0);
  note_no_effect("unified_memtable_skip_list_probability", opt_unified_skip_list_probability, 0);
  note_no_effect("default_skip_list_max_level", THDVAR(nullptr, default_skip_list_max_level), 12);
  note_no_effect("default_skip_list_probability", THDVAR(nullptr, default_skip_list_probability), 25);
  note_no_effect("default_index_sample_ratio", THDVAR(nullptr, default_index_sample_ratio), 1);
  note_no_effect("default_block_index_prefix_len", THDVAR(nullptr, default_block_index_prefix_len), 16);
  note_no_effect("default_write_buffer_size", THDVAR(nullptr, default_write_buffer_size), 64 * MB);
}

}  // namespace

bool fill_store_options(tidesdb_options *options) {
  if (!opt_unified_memtable) {
    sql_print_error("TidesDB: tidesdb_unified_memtable=OFF is not built yet");
    return true;
  }
  note_variables_without_effect();
  /* The variable keeps its 0; the status variable memory_limit has the bound in force. */
  ulonglong budget = opt_max_memory_usage;
  if (choose_memory_sizes(&budget, &opt_block_cache_size, &opt_unified_write_buffer_size)) return true;
  options->max_memory = budget;
  options->write_buffer_size = opt_unified_write_buffer_size;
  options->block_cache_size = opt_block_cache_size;
  options->sync_interval_us = opt_unified_sync_interval;
  options->sync_mode = static_cast<uint8_t>(opt_unified_sync_mode);
  options->max_open_files = static_cast<uint32_t>(opt_max_open_sstables);
  options->flush_threads = static_cast<uint32_t>(opt_max_concurrent_flushes
                                                     ? std::min(opt_flush_threads, opt_max_concurrent_flushes)
                                                     : opt_flush_threads);
  options->compaction_threads = static_cast<uint32_t>(opt_compaction_threads);
  options->finish_compactions_on_close = opt_finish_compactions_on_close;
  options->flush_on_close = !opt_fast_shutdown;
  options->log_level = static_cast<int>(opt_log_level);
  if (opt_bin_log && opt_unified_sync_mode != TIDESDB_SYNC_FULL)
    sql_print_warning(
        "TidesDB: the binary log is on and tidesdb_unified_memtable_sync_mode is %s: after a power cut, "
        "commits that "
        "no binary log holds may be gone",
        sync_mode_names[opt_unified_sync_mode]);
  return false;
}

const char *data_home_dir() { return opt_data_home_dir; }
const char *replace_missing_store() { return opt_replace_missing_store ? opt_replace_missing_store : ""; }
int log_level() { return static_cast<int>(opt_log_level); }
bool log_to_file() { return opt_log_to_file; }
ulonglong log_truncation_at() { return opt_log_truncation_at; }
bool pessimistic_locking() { return opt_pessimistic_locking; }
bool print_all_conflicts() { return opt_print_all_conflicts; }
ulong procedure_concurrency() { return opt_procedure_concurrency; }
ulonglong write_buffer_size() { return opt_unified_write_buffer_size; }
uint sync_mode() { return static_cast<uint>(opt_unified_sync_mode); }
const char *sync_mode_name(uint mode) { return sync_mode_names[mode]; }

ulonglong ttl(THD *thd) { return THDVAR(thd, ttl); }
bool skip_unique_check(THD *thd) { return THDVAR(thd, skip_unique_check); }
bool single_delete_primary(THD *thd) { return THDVAR(thd, single_delete_primary); }
ulonglong backpressure_wait_timeout_ms(THD *thd) { return THDVAR(thd, backpressure_wait_timeout_ms); }
ulonglong lock_wait_timeout_ms(THD *thd) { return THDVAR(thd, lock_wait_timeout_ms); }
bool snapshot_isolation(THD *thd) { return THDVAR(thd, snapshot_isolation); }
ForeignKeys foreign_keys(THD *thd) { return static_cast<ForeignKeys>(THDVAR(thd, foreign_keys)); }

}  // namespace sysvars
}  // namespace tidesdb

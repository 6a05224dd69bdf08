/*
  Definitions of the variables, but for the defaults of table options (table_options.h) and for features that
  are not there (unbuilt_features.h). A name is here when its feature exists, or when it stands on the closed
  list of names without effect (names_without_effect.h).
*/
#include "sysvars.h"

#include <mysql/plugin.h>

#include <algorithm>
#include <iterator>

#include "sql_class.h"
#include "set_var.h"
#include "sql_acl.h"
#include "strfunc.h"

#include "backup/online_backup.h"
#include "boolean_value.h"
#include "names_without_effect.h"
#include "search/variables.h"
#include "server.h"
#include "store/engine_log.h"
#include "store/live_options.h"
#include "store/memory_sizes.h"
#include "table_options.h"
#include "unbuilt_features.h"

namespace tidesdb {
namespace sysvars {

static const char *direct_reads_names[] = {"AUTO", "ON", "OFF", NullS};
TYPELIB direct_reads_type = CREATE_TYPELIB_FOR(direct_reads_names);
static const char *sync_mode_names[] = {"NONE", "INTERVAL", "FULL", NullS};
TYPELIB sync_mode_type = CREATE_TYPELIB_FOR(sync_mode_names);

namespace {

const char *log_level_names[] = {"DEBUG", "INFO", "WARN", "ERROR", "FATAL", "NONE", NullS};
TYPELIB log_level_type = CREATE_TYPELIB_FOR(log_level_names);
const char *foreign_keys_names[] = {"ERROR", "WARN", "ENFORCE", NullS};
TYPELIB foreign_keys_type = CREATE_TYPELIB_FOR(foreign_keys_names);
const char *backup_options_names[] = {"AT_STAGE", "WITHOUT_DAMAGED", NullS};
TYPELIB backup_options_type = CREATE_TYPELIB_FOR(backup_options_names);

constexpr ulonglong MB = 1024 * 1024;
constexpr ulonglong NO_BOUND = ~0ULL;
/* Default of an option that has to tell whether it is given. */
constexpr my_bool NOT_GIVEN = 2;

/* Variables of the store. */
ulong opt_flush_threads, opt_compaction_threads, opt_max_concurrent_flushes;
ulong opt_log_level;
my_bool opt_log_to_file;
ulonglong opt_log_truncation_at;
ulonglong opt_block_cache_size;
ulong opt_max_open_sstables;
ulong opt_direct_reads;
ulonglong opt_max_memory_usage;
my_bool opt_unified_memtable;
ulonglong opt_unified_write_buffer_size;
ulong opt_unified_sync_mode;
ulonglong opt_unified_sync_interval;
ulong opt_unified_skip_list_max_level;
double opt_unified_skip_list_probability;
ulonglong opt_multipart_threshold, opt_multipart_part_size, opt_local_cache_max;
ulong opt_concurrent_uploads, opt_concurrent_downloads;
char *opt_data_home_dir, *opt_replace_missing_store;
my_bool opt_finish_compactions_on_close, opt_fast_shutdown;
/* Variables changed at run time. */
my_bool opt_pessimistic_locking;
my_bool opt_snapshot_isolation;
my_bool opt_print_all_conflicts;
my_bool opt_cluster;
ulong opt_procedure_concurrency;
char *opt_backup_dir, *opt_checkpoint_dir;

/* For session variables that change how others are served: as the server checks its own ones. */
int check_restricted_bool(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return check_global_access(thd, PRIV_SET_RESTRICTED_SESSION_SYSTEM_VARIABLE) ||
         !read_bool(value, static_cast<my_bool *>(save));
}

/* A number outside of its bounds is refused, where the server would take the nearest with a warning. */
template <class Number>
int check_number(const char *name, ulonglong least, ulonglong most, bool zero, void *save,
                 st_mysql_value *value) {
  longlong number;
  if (value->val_int(value, &number)) {
    my_error(ER_WRONG_VALUE_FOR_VAR, MYF(0), name, "NULL");
    return 1;
  }
  const bool below_zero = number < 0 && !value->is_unsigned(value);
  const ulonglong given = static_cast<ulonglong>(number);
  if (!below_zero && ((zero && given == 0) || (given >= least && given <= most))) {
    *static_cast<Number *>(save) = static_cast<Number>(given);
    return 0;
  }
  char text[24];
  snprintf(text, sizeof(text), below_zero ? "%lld" : "%llu", number);
  my_printf_error(ER_WRONG_VALUE_FOR_VAR, "TidesDB: %s=%s is outside of %s%llu to %llu", MYF(0), name, text,
                  zero ? "0 and " : "", least, most);
  return 1;
}

/* The functions of a number that changes at run time: its type, bounds, whether 0 is allowed below them, and
   how it is changed: an expression over `value` that is true when it is refused. */
#define LIVE_NUMBER(name, Number, least, most, zero, change)                       \
  int check_##name(THD *, st_mysql_sys_var *, void *save, st_mysql_value *value) { \
    return check_number<Number>("tidesdb_" #name, least, most, zero, save, value); \
  }                                                                                \
  void update_##name(THD *, st_mysql_sys_var *, void *target, const void *save) {  \
    Number value = *static_cast<const Number *>(save);                             \
    if (!(change)) *static_cast<Number *>(target) = value;                         \
  }
/* `value` becomes the one in force. */
#define LIVE_OPTION(option)                                              \
  change_live_options(                                                   \
      [&](tidesdb_live_options *options) {                               \
        options->option = static_cast<decltype(options->option)>(value); \
      },                                                                 \
      [&](const tidesdb_live_options &now) { value = static_cast<decltype(value)>(now.option); })
#define LIVE_BOOL(name, option)                                                   \
  void update_##name(THD *, st_mysql_sys_var *, void *target, const void *save) { \
    my_bool value = *static_cast<const my_bool *>(save);                          \
    if (!LIVE_OPTION(option)) *static_cast<my_bool *>(target) = value;            \
  }

constexpr ulonglong LEAST_CACHE = 1 * MB, LEAST_BUFFER = 1 * MB, MOST_BUFFER = 64ULL << 30;
constexpr ulonglong LONGEST_INTERVAL = 3600000000;

LIVE_NUMBER(block_cache_size, ulonglong, LEAST_CACHE, NO_BOUND, false,
            change_memory_size(MemorySize::BLOCK_CACHE, &value, &opt_block_cache_size))
LIVE_NUMBER(unified_memtable_write_buffer_size, ulonglong, LEAST_BUFFER, MOST_BUFFER, true,
            change_memory_size(MemorySize::WRITE_BUFFER, &value, &opt_block_cache_size))
LIVE_NUMBER(max_memory_usage, ulonglong, 3 * MB, NO_BOUND, true,
            change_memory_size(MemorySize::BUDGET, &value, &opt_block_cache_size))
LIVE_NUMBER(unified_memtable_sync_interval, ulonglong, 1, LONGEST_INTERVAL, false,
            LIVE_OPTION(sync_interval_us))
LIVE_NUMBER(max_open_sstables, ulong, 8, 1000000, false, LIVE_OPTION(max_open_files))
LIVE_NUMBER(compaction_threads, ulong, 1, 64, false, LIVE_OPTION(compaction_threads))
LIVE_BOOL(finish_compactions_on_close, finish_compactions_on_close)

/* ON leaves what is in memory to the log. */
void update_fast_shutdown(THD *, st_mysql_sys_var *, void *target, const void *save) {
  my_bool value = !*static_cast<const my_bool *>(save);
  if (!LIVE_OPTION(flush_on_close)) *static_cast<my_bool *>(target) = !value;
}

/* What a weaker mode means for whom; null: nothing to warn of. */
const char *risk_of(ulong mode) {
  if (mode == TIDESDB_SYNC_FULL) return nullptr;
  if (opt_bin_log)
    return "the binary log is on: after a power cut, commits that no binary log holds may be gone, and "
           "others may be "
           "there that this store has lost";
  return "a power cut may take the newest commits";
}

/* By name alone: the number 1 is INTERVAL, and the full setting of InnoDB and MyRocks. */
int check_sync_mode(THD *, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  char buffer[32];
  int length = sizeof(buffer);
  const bool is_text = value->value_type(value) == MYSQL_VALUE_TYPE_STRING;
  const char *text = value->val_str(value, buffer, &length);
  const int found =
      is_text && text ? find_type(&sync_mode_type, text, static_cast<size_t>(length), false) : 0;
  if (found == 0) {
    my_printf_error(ER_WRONG_VALUE_FOR_VAR,
                    "TidesDB: tidesdb_unified_memtable_sync_mode is 'NONE', 'INTERVAL' or 'FULL', not %.*s",
                    MYF(0), text ? length : 4, text ? text : "NULL");
    return 1;
  }
  *static_cast<ulong *>(save) = static_cast<ulong>(found - 1);
  return 0;
}

void update_sync_mode(THD *thd, st_mysql_sys_var *, void *target, const void *save) {
  ulong value = *static_cast<const ulong *>(save);
  if (LIVE_OPTION(sync_mode)) return;
  *static_cast<ulong *>(target) = value;
  const char *risk = risk_of(value);
  if (!risk) return;
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR,
                      "TidesDB: tidesdb_unified_memtable_sync_mode is %s: %s", sync_mode_names[value], risk);
  sql_print_warning("TidesDB: tidesdb_unified_memtable_sync_mode is %s now: %s", sync_mode_names[value],
                    risk);
}

void update_log_level(THD *, st_mysql_sys_var *, void *target, const void *save) {
  ulong value = *static_cast<const ulong *>(save);
  if (LIVE_OPTION(log_level)) return;
  *static_cast<ulong *>(target) = value;
  reopen_engine_log();
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

/* --- set at start, some of them changed at run time too --- */

static MYSQL_SYSVAR_ULONG(flush_threads, opt_flush_threads, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                          "No effect: with one memtable for all column families there is one flush at a time",
                          nullptr, nullptr, 4, 1, 64, 0);
static MYSQL_SYSVAR_ULONG(
    compaction_threads, opt_compaction_threads, PLUGIN_VAR_RQCMDARG,
    "Threads that merge files; at most half of the cores run. One that is too many ends its "
    "merge first",
    check_compaction_threads, update_compaction_threads, 4, 1, 64, 0);
static MYSQL_SYSVAR_ULONG(max_concurrent_flushes, opt_max_concurrent_flushes,
                          PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                          "No effect: with one memtable for all column families there is one flush at a time",
                          nullptr, nullptr, 0, 0, 64, 0);
static MYSQL_SYSVAR_ENUM(log_level, opt_log_level, PLUGIN_VAR_RQCMDARG,
                         "Least level of the engine's log lines", nullptr, update_log_level, TIDESDB_LOG_INFO,
                         &log_level_type);
static MYSQL_SYSVAR_BOOL(log_to_file, opt_log_to_file, PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG,
                         "Log lines go into tidesdb.log of the data directory, else into the error log",
                         nullptr, nullptr, TRUE);
static MYSQL_SYSVAR_ULONGLONG(log_truncation_at, opt_log_truncation_at, PLUGIN_VAR_RQCMDARG,
                              "Bytes at which tidesdb.log is cut back to nothing; 0: never", nullptr, nullptr,
                              24 * MB, 0, NO_BOUND, 0);
static MYSQL_SYSVAR_ULONGLONG(block_cache_size, opt_block_cache_size, PLUGIN_VAR_RQCMDARG,
                              "Bytes of the cache of blocks, index and filter partitions; not set, and with "
                              "tidesdb_max_memory_usage or a limit of a control group: what the others leave",
                              check_block_cache_size, update_block_cache_size, DEFAULT_BLOCK_CACHE_SIZE,
                              LEAST_CACHE, NO_BOUND, 0);
static MYSQL_SYSVAR_ULONG(max_open_sstables, opt_max_open_sstables, PLUGIN_VAR_RQCMDARG,
                          "Files that are open at a time", check_max_open_sstables, update_max_open_sstables,
                          256, 8, 1000000, 0);
static MYSQL_SYSVAR_ENUM(
    direct_reads, opt_direct_reads, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
    "Tables are read past the page cache (O_DIRECT), so that the block cache has the memory of "
    "both: AUTO (if the cache has three eighths of the memory or more), ON, OFF",
    nullptr, nullptr, TIDESDB_DIRECT_AUTO, &direct_reads_type);
static MYSQL_SYSVAR_ULONGLONG(max_memory_usage, opt_max_memory_usage, PLUGIN_VAR_RQCMDARG,
                              "Bound on all memory of the engine in bytes; 0: half of the machine's or "
                              "container's, or the sum of the sizes "
                              "set explicitly plus a quarter where that is more",
                              check_max_memory_usage, update_max_memory_usage, 0, 0, NO_BOUND, 0);
static MYSQL_SYSVAR_BOOL(unified_memtable, opt_unified_memtable, PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG,
                         "No effect: all column families have one memtable", nullptr, nullptr, TRUE);
static MYSQL_SYSVAR_ULONGLONG(
    unified_memtable_write_buffer_size, opt_unified_write_buffer_size, PLUGIN_VAR_RQCMDARG,
    "Bytes at which the memtable is sealed. A transaction keeps a sixteenth of it in memory, "
    "at least 4 MB (half of a buffer below 8 MB) and at most 8 MB; changes beyond go to files. "
    "0: automatic, the default, which shrinks to fit",
    check_unified_memtable_write_buffer_size, update_unified_memtable_write_buffer_size,
    DEFAULT_WRITE_BUFFER_SIZE, 0, MOST_BUFFER, 0);
static MYSQL_SYSVAR_ENUM(
    unified_memtable_sync_mode, opt_unified_sync_mode, PLUGIN_VAR_RQCMDARG,
    "When commits reach the disk: NONE (as the system likes), INTERVAL, FULL (before the answer). Write the "
    "name: the number 1 is INTERVAL",
    check_sync_mode, update_sync_mode, TIDESDB_SYNC_FULL, &sync_mode_type);
static MYSQL_SYSVAR_ULONGLONG(unified_memtable_sync_interval, opt_unified_sync_interval, PLUGIN_VAR_RQCMDARG,
                              "Microseconds of INTERVAL", check_unified_memtable_sync_interval,
                              update_unified_memtable_sync_interval, 128000, 1, LONGEST_INTERVAL, 0);
static MYSQL_SYSVAR_ULONG(unified_memtable_skip_list_max_level, opt_unified_skip_list_max_level,
                          PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                          "No effect: the memtable is no skip list", nullptr, nullptr, 0, 0, 64, 0);
static MYSQL_SYSVAR_DOUBLE(unified_memtable_skip_list_probability, opt_unified_skip_list_probability,
                           PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                           "No effect: the memtable is no skip list. Percent, or a fraction of 1", nullptr,
                           nullptr, 0, 0, 100, 0);
static MYSQL_SYSVAR_ULONGLONG(s3_multipart_threshold, opt_multipart_threshold,
                              PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                              "No effect: there is no object store", nullptr, nullptr, 0, 0, NO_BOUND, 0);
static MYSQL_SYSVAR_ULONGLONG(s3_multipart_part_size, opt_multipart_part_size,
                              PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                              "No effect: there is no object store", nullptr, nullptr, 0, 0, NO_BOUND, 0);
static MYSQL_SYSVAR_ULONGLONG(objstore_local_cache_max, opt_local_cache_max,
                              PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                              "No effect: there is no object store", nullptr, nullptr, 0, 0, NO_BOUND, 0);
static MYSQL_SYSVAR_ULONG(objstore_max_concurrent_uploads, opt_concurrent_uploads,
                          PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG, "No effect: there is no object store",
                          nullptr, nullptr, 0, 0, UINT_MAX32, 0);
static MYSQL_SYSVAR_ULONG(objstore_max_concurrent_downloads, opt_concurrent_downloads,
                          PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG, "No effect: there is no object store",
                          nullptr, nullptr, 0, 0, UINT_MAX32, 0);
static MYSQL_SYSVAR_STR(
    data_home_dir, opt_data_home_dir, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
    "Directory of the store; default: #tidesdb in the data directory where it exists, else "
    "tidesdb_data next to it",
    nullptr, nullptr, nullptr);
static MYSQL_SYSVAR_STR(replace_missing_store, opt_replace_missing_store,
                        PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
                        "Identity of a store that is lost, as the error log names it: a start makes a new "
                        "store in its place. The "
                        "new one has another identity, so this happens once",
                        nullptr, nullptr, "");
static MYSQL_SYSVAR_BOOL(finish_compactions_on_close, opt_finish_compactions_on_close, PLUGIN_VAR_OPCMDARG,
                         "Shutdown waits for running and pending merges of files", nullptr,
                         update_finish_compactions_on_close, FALSE);
static MYSQL_SYSVAR_BOOL(fast_shutdown, opt_fast_shutdown, PLUGIN_VAR_OPCMDARG,
                         "Shutdown leaves what is in memory to the log; OFF: it is written to files, so that "
                         "the next start has nothing to replay",
                         nullptr, update_fast_shutdown, FALSE);

/* --- of the server --- */

static MYSQL_SYSVAR_BOOL(
    pessimistic_locking, opt_pessimistic_locking, PLUGIN_VAR_OPCMDARG,
    "ON: writers wait for each other; OFF: optimistic, a conflict shows at the statement (1213). "
    "A transaction keeps the mode in which it began",
    nullptr, nullptr, TRUE);
static MYSQL_SYSVAR_BOOL(print_all_conflicts, opt_print_all_conflicts, PLUGIN_VAR_OPCMDARG,
                         "Every conflict and deadlock goes to the error log with its statements", nullptr,
                         nullptr, FALSE);

static MYSQL_SYSVAR_BOOL(
    cluster, opt_cluster, PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG,
    "Galera replicates rows of TidesDB tables; OFF: where wsrep_on is ON, they cannot be "
    "changed",
    nullptr, nullptr, FALSE);

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

static MYSQL_THDVAR_SET(
    backup_options, PLUGIN_VAR_RQCMDARG,
    "Of backups that the session takes. AT_STAGE: the moment is another connection's FLUSH ENGINE LOGS in "
    "BACKUP STAGE BLOCK_COMMIT, as of mariadb-backup; the statement waits for it. WITHOUT_DAMAGED: damaged "
    "tables are left out and named in warnings, in place of an error",
    nullptr, nullptr, 0, &backup_options_type);
static MYSQL_THDVAR_ULONGLONG(backup_rate, PLUGIN_VAR_RQCMDARG,
                              "Bytes that a backup of the session copies in a second at most; 0: no limit",
                              nullptr, nullptr, 0, 0, NO_BOUND, 0);
static MYSQL_THDVAR_STR(
    backup_base, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
    "Directory of an earlier backup of this store: table files that are in both are hard links to its files "
    "in backups of the session",
    nullptr, nullptr, "");
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
static MYSQL_THDVAR_ENUM(foreign_keys, PLUGIN_VAR_RQCMDARG,
                         "FOREIGN KEY in a table's definition: ENFORCE keeps it and checks rows, WARN drops "
                         "it with a warning, ERROR "
                         "refuses it",
                         nullptr, nullptr, FOREIGN_KEYS_ENFORCE, &foreign_keys_type);

/* Optimistic transactions have no other way than to compare. */
static int check_snapshot_conflicts(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  my_bool *on = static_cast<my_bool *>(save);
  if (!read_bool(value, on)) return 1;
  if (!*on && !opt_pessimistic_locking)
    push_warning(thd, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR,
                 "TidesDB: tidesdb_snapshot_conflicts=OFF has no effect while tidesdb_pessimistic_locking is "
                 "OFF");
  return 0;
}
static MYSQL_THDVAR_BOOL(
    snapshot_conflicts, PLUGIN_VAR_OPCMDARG,
    "At REPEATABLE READ a statement that locks or changes a row newer than the transaction's snapshot: ON: "
    "gets 1020; OFF: takes the newest version, as with innodb_snapshot_isolation=OFF",
    check_snapshot_conflicts, nullptr, INNODB_SNAPSHOT_ISOLATION);

/*
  The variable's name until November 2026, an option of the server alone. A program that takes what SHOW
  VARIABLES LIKE 't%_isolation' answers first for the server's isolation level would set it. What can be SET
  is shown, so SET does not know it.
*/
static MYSQL_SYSVAR_BOOL(snapshot_isolation, opt_snapshot_isolation,
                         PLUGIN_VAR_NOSYSVAR | PLUGIN_VAR_OPCMDARG, "Old name of tidesdb_snapshot_conflicts",
                         nullptr, nullptr, NOT_GIVEN);

namespace {

struct st_mysql_sys_var *own_variables[] = {MYSQL_SYSVAR(flush_threads),
                                            MYSQL_SYSVAR(compaction_threads),
                                            MYSQL_SYSVAR(max_concurrent_flushes),
                                            MYSQL_SYSVAR(log_level),
                                            MYSQL_SYSVAR(log_to_file),
                                            MYSQL_SYSVAR(log_truncation_at),
                                            MYSQL_SYSVAR(block_cache_size),
                                            MYSQL_SYSVAR(max_open_sstables),
                                            MYSQL_SYSVAR(direct_reads),
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
                                            MYSQL_SYSVAR(cluster),
                                            MYSQL_SYSVAR(procedure_concurrency),
                                            MYSQL_SYSVAR(backup_dir),
                                            MYSQL_SYSVAR(checkpoint_dir),
                                            MYSQL_SYSVAR(backup_options),
                                            MYSQL_SYSVAR(backup_rate),
                                            MYSQL_SYSVAR(backup_base),
                                            MYSQL_SYSVAR(ttl),
                                            MYSQL_SYSVAR(skip_unique_check),
                                            MYSQL_SYSVAR(single_delete_primary),
                                            MYSQL_SYSVAR(backpressure_wait_timeout_ms),
                                            MYSQL_SYSVAR(lock_wait_timeout_ms),
                                            MYSQL_SYSVAR(foreign_keys),
                                            MYSQL_SYSVAR(snapshot_conflicts),
                                            MYSQL_SYSVAR(snapshot_isolation),
                                            MYSQL_SYSVAR(s3_multipart_threshold),
                                            MYSQL_SYSVAR(s3_multipart_part_size),
                                            MYSQL_SYSVAR(objstore_local_cache_max),
                                            MYSQL_SYSVAR(objstore_max_concurrent_uploads),
                                            MYSQL_SYSVAR(objstore_max_concurrent_downloads)};

}  // namespace

struct st_mysql_sys_var
    *variables[std::size(own_variables) + TABLE_VARIABLES + full_text::VARIABLES + unbuilt::VARIABLES + 1];

namespace {

/* The server takes one list. */
bool join_variables() {
  st_mysql_sys_var **next = std::copy(std::begin(own_variables), std::end(own_variables), variables);
  for (size_t number = 0; number < TABLE_VARIABLES; number++) *next++ = table_variable(number);
  for (size_t number = 0; number < full_text::VARIABLES; number++) *next++ = full_text::variable(number);
  for (size_t number = 0; number < unbuilt::VARIABLES; number++) *next++ = unbuilt::variable(number);
  return true;
}
const bool variables_joined = join_variables();

void note_backup_at_start(const char *name, const char *value) {
  if (value && *value)
    sql_print_warning("TidesDB: tidesdb_%s='%s' takes no backup at the start of the server; use SET GLOBAL",
                      name, value);
}

/* Of both names given, the new one counts where it is not at its default. */
void take_old_names() {
  my_bool &now = THDVAR(nullptr, snapshot_conflicts);
  if (opt_snapshot_isolation == NOT_GIVEN) return;
  if (now == INNODB_SNAPSHOT_ISOLATION) now = opt_snapshot_isolation;
  sql_print_information(
      "TidesDB: tidesdb_snapshot_isolation is the old name of tidesdb_snapshot_conflicts, which is %s now",
      now ? "ON" : "OFF");
}

void note_variables_without_effect() {
  note_backup_at_start("backup_dir", opt_backup_dir);
  note_backup_at_start("checkpoint_dir", opt_checkpoint_dir);
  if (!THDVAR(nullptr, snapshot_conflicts) && !opt_pessimistic_locking)
    sql_print_information(
        "TidesDB: tidesdb_snapshot_conflicts=OFF has no effect while tidesdb_pessimistic_locking is OFF");
  note_no_effect(FLUSH_THREADS, opt_flush_threads, 4UL);
  note_no_effect(CONCURRENT_FLUSHES, opt_max_concurrent_flushes, 0UL);
  note_no_effect(UNIFIED_MEMTABLE, opt_unified_memtable, static_cast<my_bool>(TRUE));
  note_no_effect(UNIFIED_SKIP_LIST_MAX_LEVEL, opt_unified_skip_list_max_level, 0UL);
  if (opt_unified_skip_list_probability < 1) opt_unified_skip_list_probability *= 100;
  note_no_effect(UNIFIED_SKIP_LIST_PROBABILITY, opt_unified_skip_list_probability, 0.0);
  note_no_effect(MULTIPART_THRESHOLD, opt_multipart_threshold, 0ULL);
  note_no_effect(MULTIPART_PART_SIZE, opt_multipart_part_size, 0ULL);
  note_no_effect(LOCAL_CACHE_MAX, opt_local_cache_max, 0ULL);
  note_no_effect(CONCURRENT_UPLOADS, opt_concurrent_uploads, 0UL);
  note_no_effect(CONCURRENT_DOWNLOADS, opt_concurrent_downloads, 0UL);
  note_table_variables();
}

}  // namespace

bool fill_store_options(tidesdb_options *options) {
  const bool refused = unbuilt::refuse_variables() | full_text::refuse_variables();
  if (refuse_table_variables() || refused) return true;
  take_old_names();
  note_variables_without_effect();
  /* The variable keeps its 0; the status variable memory_limit has the bound in force. */
  tidesdb_memory_plan plan;
  if (choose_memory_sizes(opt_max_memory_usage, opt_block_cache_size, opt_unified_write_buffer_size, &plan))
    return true;
  note_sizes_of_start(plan);
  opt_block_cache_size = plan.block_cache_size;
  opt_unified_write_buffer_size = plan.write_buffer_size;
  options->max_memory = plan.max_memory;
  options->cache_grows = plan.cache_grows;
  options->write_buffer_size = opt_unified_write_buffer_size;
  options->block_cache_size = opt_block_cache_size;
  options->sync_interval_us = opt_unified_sync_interval;
  options->sync_mode = static_cast<uint8_t>(opt_unified_sync_mode);
  options->direct_reads = static_cast<uint8_t>(opt_direct_reads);
  options->max_open_files = static_cast<uint32_t>(opt_max_open_sstables);
  options->compaction_threads = static_cast<uint32_t>(opt_compaction_threads);
  options->finish_compactions_on_close = opt_finish_compactions_on_close;
  options->flush_on_close = !opt_fast_shutdown;
  options->new_format = 2;
  options->log_level = static_cast<int>(opt_log_level);
  /* The server takes a number for the name in that place; 1 is the full setting of InnoDB and MyRocks. */
  if (opt_unified_sync_mode == TIDESDB_SYNC_INTERVAL)
    sql_print_warning(
        "TidesDB: tidesdb_unified_memtable_sync_mode is INTERVAL: a power cut may take the commits of the "
        "last "
        "%llu ms. FULL syncs each commit. As numbers, 0 is NONE, 1 INTERVAL, 2 FULL",
        opt_unified_sync_interval / 1000);
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
bool cluster() { return opt_cluster; }
bool pessimistic_locking() { return opt_pessimistic_locking; }
bool print_all_conflicts() { return opt_print_all_conflicts; }
ulong procedure_concurrency() { return opt_procedure_concurrency; }
ulonglong write_buffer_size() { return opt_unified_write_buffer_size; }
uint sync_mode() { return static_cast<uint>(opt_unified_sync_mode); }
const char *sync_mode_name(uint mode) { return sync_mode_names[mode]; }

ulonglong ttl(THD *thd) { return THDVAR(thd, ttl); }
ulonglong backup_options(THD *thd) { return THDVAR(thd, backup_options); }
ulonglong backup_rate(THD *thd) { return THDVAR(thd, backup_rate); }
const char *backup_base(THD *thd) {
  const char *base = THDVAR(thd, backup_base);
  return base ? base : "";
}
bool skip_unique_check(THD *thd) { return THDVAR(thd, skip_unique_check); }
bool single_delete_primary(THD *thd) { return THDVAR(thd, single_delete_primary); }
ulonglong backpressure_wait_timeout_ms(THD *thd) { return THDVAR(thd, backpressure_wait_timeout_ms); }
ulonglong lock_wait_timeout_ms(THD *thd) { return THDVAR(thd, lock_wait_timeout_ms); }
bool snapshot_conflicts(THD *thd) { return THDVAR(thd, snapshot_conflicts); }
ForeignKeys foreign_keys(THD *thd) { return static_cast<ForeignKeys>(THDVAR(thd, foreign_keys)); }

}  // namespace sysvars
}  // namespace tidesdb

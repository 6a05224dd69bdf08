/*
  The plugin's variables (SHOW VARIABLES LIKE 'tidesdb%') and the options of tables and indexes that take
  their defaults from them. What each means stands in the manual; here each has its effect.
*/
#ifndef TIDESDB_SYSVARS_H
#define TIDESDB_SYSVARS_H

#include "key/sql_headers.h"
#include "tidesdb.h"

struct st_mysql_sys_var;

/* Values of a table's options, as the server keeps them in TABLE_SHARE::option_struct. */
struct ha_table_option_struct {
  ulonglong write_buffer_size;
  ulonglong level_size_ratio;
  ulonglong min_levels;
  ulonglong bloom_fpr;
  ulonglong l1_file_count_trigger;
  ulonglong l0_queue_stall_threshold;
  ulonglong tombstone_density_trigger;
  ulonglong tombstone_density_min_entries;
  ulonglong skip_list_max_level;
  ulonglong index_sample_ratio;
  ulonglong block_index_prefix_len;
  ulonglong klog_value_threshold;
  ulonglong dividing_level_offset;
  ulonglong min_disk_space;
  ulonglong sync_interval_us;
  ulonglong ttl; /* seconds; 0: rows do not expire */
  ulonglong encryption_key_id;
  char *skip_list_probability; /* percent, or a fraction of 1 */
  uint compression;
  uint sync_mode;
  uint isolation_level;
  bool bloom_filter;
  bool use_btree;
  bool block_indexes;
  bool object_lazy_compaction;
  bool object_prefetch_compaction;
  bool encrypted;
};

struct ha_index_option_struct {
  bool use_btree;
};

struct ha_field_option_struct {
  bool ttl; /* the column holds its row's seconds to live */
};

namespace tidesdb {
namespace sysvars {

enum ForeignKeys { FOREIGN_KEYS_ERROR = 0, FOREIGN_KEYS_WARN = 1, FOREIGN_KEYS_ENFORCE = 2 };

/* Filled when the library is loaded. */
extern struct st_mysql_sys_var *variables[];
extern ha_create_table_option table_options[];
extern ha_create_table_option index_options[];
extern ha_create_table_option field_options[];

/* Most seconds that a row may be given to live, by whatever says so. */
constexpr ulonglong MAX_TTL = UINT_MAX32;

/* Whether the option of this name is on the closed list of those without effect, and not at its default in
   `options`. */
bool option_has_no_effect(const LEX_CSTRING &name, const ha_table_option_struct &options);
/* The error log's line for it; there is one for each name, at the first time. */
void log_option_without_effect(const LEX_CSTRING &name);

/* Percent of a probability that is given in percent or as a fraction of 1; negative: it is neither. */
double probability_percent(const char *text);

/* Reads the variables set at start into the store's options. true: they contradict each other, or ask for
   what is not there; the error log says which. */
bool fill_store_options(tidesdb_options *options);

const char *data_home_dir();
/* Never null. */
const char *replace_missing_store();
int log_level();
bool log_to_file();
ulonglong log_truncation_at();
bool cluster();
bool pessimistic_locking();
bool print_all_conflicts();
/* 0: as many as there are cores. */
ulong procedure_concurrency();
ulonglong write_buffer_size();
/* TIDESDB_SYNC_* of the store. */
uint sync_mode();
const char *sync_mode_name(uint mode);

/* BACKUP_*, together. */
enum BackupOption { BACKUP_AT_STAGE = 1, BACKUP_WITHOUT_DAMAGED = 2 };
ulonglong backup_options(THD *thd);
/* Bytes a second; 0: no limit. */
ulonglong backup_rate(THD *thd);
/* Never null. */
const char *backup_base(THD *thd);
bool skip_unique_check(THD *thd);
/* Seconds; 0: the table's option counts. */
ulonglong ttl(THD *thd);
bool single_delete_primary(THD *thd);
ulonglong backpressure_wait_timeout_ms(THD *thd);
/* 0: no limit. */
ulonglong lock_wait_timeout_ms(THD *thd);
ForeignKeys foreign_keys(THD *thd);
bool snapshot_conflicts(THD *thd);

}  // namespace sysvars
}  // namespace tidesdb
#endif

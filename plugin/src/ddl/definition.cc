#include "ddl/definition.h"

#include <string>

#include "create_options.h"
#include "sql_class.h"

#include "delete_rights.h"
#include "errors.h"
#include "foreign/declaration.h"
#include "foreign/mode.h"
#include "row/row_ttl.h"
#include "server.h"
#include "store/store.h"
#include "sysvars.h"
#include "unbuilt_features.h"

namespace tidesdb {

namespace {

bool refuse(const std::string &what) {
  my_error(ER_CHECK_NOT_IMPLEMENTED, MYF(0), what.c_str());
  return true;
}

std::string quoted(const LEX_CSTRING &name) { return "`" + std::string(name.str, name.length) + "`"; }

/* The server parses foreign keys and leaves them to the engine, whether it knows of them or not. */
bool refuse_foreign_keys(THD *thd, const HA_CREATE_INFO *info) {
  const sysvars::ForeignKeys mode = foreign::mode(thd);
  if (!info->alter_info || mode == sysvars::FOREIGN_KEYS_ENFORCE) return false;
  std::string names;
  List_iterator_fast<Key> keys(info->alter_info->key_list);
  while (Key *key = keys++) {
    if (key->type != Key::FOREIGN_KEY || key->old) continue;
    const Foreign_key *foreign = static_cast<const Foreign_key *>(key);
    if (!names.empty()) names += ", ";
    if (foreign->constraint_name.str && foreign->constraint_name.length)
      names += quoted(foreign->constraint_name) + " ";
    else if (key->name.str && key->name.length)
      names += quoted(key->name) + " ";
    names += "REFERENCES " + quoted(foreign->ref_table);
  }
  if (names.empty()) return false;
  if (mode == sysvars::FOREIGN_KEYS_ERROR)
    return refuse(
        "FOREIGN KEY: " + names +
        " (tidesdb_foreign_keys=ERROR refuses foreign keys; ENFORCE keeps them, WARN drops them with a "
        "warning)");
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR,
                      "TidesDB: foreign keys were dropped, as tidesdb_foreign_keys=WARN asks: %s",
                      names.c_str());
  if (!foreign::log_warn_mode(thd))
    return refuse("FOREIGN KEY: " + names +
                  " (replicas cannot be told that tidesdb_foreign_keys=WARN drops it with "
                  "binlog_alter_two_phase=ON and another engine before; SET binlog_alter_two_phase=OFF)");
  return false;
}

bool refuse_indexes(const TABLE *form) {
  TABLE_SHARE *share = form->s;
  if (has_vector_index(share)) return refuse("VECTOR indexes");
  for (uint number = 0; number < share->keys; number++) {
    const KEY &key = form->key_info[number];
    if (key.algorithm == HA_KEY_ALG_RTREE || (key.flags & SPATIAL_KEY)) return refuse("SPATIAL indexes");
  }
  return false;
}

bool refuse_options(const TABLE_SHARE *share) {
  const ha_table_option_struct *options = share->option_struct;
  if (!options) return false;
  if (const char *feature = unbuilt::refused_option(*options)) return refuse(feature);
  const char *probability = options->skip_list_probability;
  if (!probability || sysvars::probability_percent(probability) > 0) return false;
  my_error(ER_BAD_OPTION_VALUE, MYF(0), probability, "SKIP_LIST_PROBABILITY");
  return true;
}

bool refuse_lifetime(const TABLE *form) {
  const Field *first = nullptr;
  for (Field **f = form->field; *f; f++) {
    const Field *field = *f;
    if (!field->option_struct || !field->option_struct->ttl) continue;
    const std::string name = "TTL of the column " + quoted(field->field_name);
    if (!can_hold_lifetime(*field))
      return refuse(name + ": the column that holds a row's seconds to live is stored and an integer");
    if (first) return refuse(name + ": " + quoted(first->field_name) + " has it, and a row lives once");
    first = field;
  }
  return false;
}

/* The column with the option TTL; empty: none. */
std::string column_of_lifetimes(const TABLE *table) {
  const int number = lifetime_column(table);
  return number < 0 ? std::string() : quoted(table->field[number]->field_name);
}

ulonglong lifetime_option(const TABLE *table) {
  return table->s->option_struct ? table->s->option_struct->ttl : 0;
}

/*
  Lifetimes as the statement defines them. Who gives them to the rows that others write takes these rows away.
  Those that a table has are not given anew by another ALTER of it.
*/
bool refuse_new_lifetime(THD *thd, const TABLE *form, const HA_CREATE_INFO *info) {
  const int command = thd_sql_command(thd);
  const bool alters = command == SQLCOM_ALTER_TABLE;
  if (!foreign::rows_may_expire(form) || (command != SQLCOM_CREATE_TABLE && !alters)) return false;
  if (form->versioned())
    return refuse("TTL of a table WITH SYSTEM VERSIONING (its rows would go without a history)");
  const TABLE_LIST *named = thd->lex->query_tables;
  const TABLE *before = alters && named ? named->table : nullptr;
  if (info->tmp_table() || (before && before->s->tmp_table != NO_TMP_TABLE)) return false;
  if (before && before->file->partition_ht() == plugin.hton &&
      lifetime_option(before) == lifetime_option(form) &&
      column_of_lifetimes(before) == column_of_lifetimes(form))
    return false;
  return lacks_delete_right(thd, named, GivenBy::STATEMENT);
}

void note(THD *thd, const std::string &what) {
  note_once(thd, ER_ILLEGAL_HA_CREATE_OPTION, "TidesDB: " + what);
}

void note_without_effect(THD *thd, const char *option) { note(thd, option + std::string(" has no effect")); }

void note_options_without_effect(THD *thd, const TABLE_SHARE *share, const HA_CREATE_INFO *info) {
  for (const engine_option_value *option = info->option_list; option; option = option->next) {
    if (!option->value.str || !share->option_struct ||
        !sysvars::option_has_no_effect(option->name, *share->option_struct))
      continue;
    sysvars::log_option_without_effect(option->name);
    note_without_effect(thd, option->name.str);
  }
  if (info->used_fields & HA_CREATE_USED_ROW_FORMAT) note_without_effect(thd, "ROW_FORMAT");
  if (info->used_fields & HA_CREATE_USED_KEY_BLOCK_SIZE && info->key_block_size)
    note_without_effect(thd, "KEY_BLOCK_SIZE");
}

/* The strictest mode of the store and of the changed tables decides when a commit is synced: a table with a
   weaker one changes nothing. */
void note_weak_sync_mode(THD *thd, const TABLE_SHARE *share) {
  const uint store = sysvars::sync_mode();
  if (!share->option_struct || share->option_struct->sync_mode >= store) return;
  note(thd, std::string("SYNC_MODE=") + sysvars::sync_mode_name(share->option_struct->sync_mode) +
                " has no effect while tidesdb_unified_memtable_sync_mode is " +
                sysvars::sync_mode_name(store) + ": the stricter of both decides when a commit is synced");
}

bool option_is_given(const engine_option_value *option, const char *name) {
  for (; option; option = option->next)
    if (option->value.str && option->name.length == strlen(name) &&
        !strncasecmp(option->name.str, name, strlen(name)))
      return true;
  return false;
}

bool threshold_is_given(const TABLE_SHARE *share, const HA_CREATE_INFO *info) {
  return option_is_given(info->option_list, "KLOG_VALUE_THRESHOLD") ||
         option_is_given(share->option_list, "KLOG_VALUE_THRESHOLD");
}

/* Shorter values cost more in files of their own than they save. */
constexpr ulonglong LEAST_VALUE_THRESHOLD = 4096;

/* A store of format version 1 keeps its values with their keys, unless the table asks: it never goes back. */
uint32_t value_threshold(const TABLE_SHARE *share, const HA_CREATE_INFO *info) {
  if (tidesdb_format(plugin.db) < 2 && !threshold_is_given(share, info)) return 0;
  const ulonglong threshold = std::max(share->option_struct->klog_value_threshold, LEAST_VALUE_THRESHOLD);
  return threshold < UINT_MAX32 ? static_cast<uint32_t>(threshold) : 0; /* no row is so long */
}

void note_later_threshold(THD *thd, const TABLE_SHARE *share, const HA_CREATE_INFO *info) {
  if (share->option_struct && tidesdb_format(plugin.db) < 2 && value_threshold(share, info) != 0)
    note(
        thd,
        "KLOG_VALUE_THRESHOLD has its effect from the next start of the server on: the store moves to format "
        "version 2 then, which older versions of the engine do not open");
}

}  // namespace

bool refuse_definition(THD *thd, const TABLE *form, const HA_CREATE_INFO *info) {
  if (info->data_file_name) return refuse("DATA DIRECTORY");
  if (info->index_file_name) return refuse("INDEX DIRECTORY");
  if (form->s->versioned == VERS_TRX_ID) return refuse("system versioning by transaction id");
  if (refuse_options(form->s) || refuse_lifetime(form)) return true;
  if (refuse_new_lifetime(thd, form, info)) return true;
  if (refuse_indexes(form) || refuse_foreign_keys(thd, info)) return true;
  note_options_without_effect(thd, form->s, info);
  note_weak_sync_mode(thd, form->s);
  note_later_threshold(thd, form->s, info);
  return false;
}

void fill_family_options(const TABLE_SHARE *share, const HA_CREATE_INFO *info, const KEY *key,
                         tidesdb_family_options *options) {
  tidesdb_family_options_init(options);
  /* A store of version 1 keeps the blocks that earlier builds read. */
  if (key && is_full_text(*key) && tidesdb_format(plugin.db) >= 2)
    options->block_codec = TIDESDB_CODEC_POSTINGS;
  const ha_table_option_struct *table = share->option_struct;
  if (!table) return;
  options->compression = static_cast<uint8_t>(table->compression);
  /* A table that says nothing goes by the sync mode of the one log. (A partition's options are in the share
     alone.) */
  const bool sync_is_given =
      option_is_given(info->option_list, "SYNC_MODE") || option_is_given(share->option_list, "SYNC_MODE");
  options->sync_mode = table->sync_mode == TIDESDB_SYNC_FULL && !sync_is_given
                           ? static_cast<uint8_t>(TIDESDB_SYNC_DEFAULT)
                           : static_cast<uint8_t>(table->sync_mode);
  if (table->sync_mode == TIDESDB_SYNC_INTERVAL) options->sync_interval_us = table->sync_interval_us;
  /* A filter answers for whole keys: nobody looks for one in an index with duplicates. */
  options->bloom_filter = table->bloom_filter && (!key || key->flags & HA_NOSAME);
  options->use_btree = table->use_btree || (key && key->option_struct && key->option_struct->use_btree);
  options->bloom_fpr = static_cast<uint32_t>(table->bloom_fpr);
  options->l0_compaction_trigger = static_cast<uint32_t>(table->l1_file_count_trigger);
  options->l0_stall_threshold = static_cast<uint32_t>(table->l0_queue_stall_threshold);
  options->level_size_ratio = static_cast<uint32_t>(table->level_size_ratio);
  options->min_levels = static_cast<uint32_t>(table->min_levels);
  options->tombstone_density_trigger = static_cast<uint32_t>(table->tombstone_density_trigger);
  options->tombstone_density_min_entries = table->tombstone_density_min_entries;
  if (!key) options->value_threshold = value_threshold(share, info);
}

}  // namespace tidesdb

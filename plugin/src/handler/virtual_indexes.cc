/*
  Indexes over virtual columns, where the values of the session or of the record are not those of the entries.

  Entries are computed under the settings of the index (row/virtual_columns.h). The server computes virtual
  columns under those of the session, and searches by what it has computed. So:
  - The optimizer does not get an index whose entries the session would compute otherwise. What it has noted
    of usable indexes is corrected when a statement begins, and again when it asks for the number of rows: it
    makes the notes anew in between.
  - Searches for the row of a record that is at hand (a duplicate's, that of an event of the binary log) go by
    the record's own entry. The server's key may be of another session's settings, or of the row before a
    trigger changed it.
  - HANDLER, which names its index, is refused.
*/
#include "handler/ha_tidesdb.h"

#include <my_bit.h>
#include <mysql/plugin.h>

#include <algorithm>
#include <atomic>

#include "sql_class.h"
#include "sql_lex.h"

#include "status.h"
#include "txn/applier.h"

using namespace tidesdb;

namespace {

std::atomic<ulonglong> passed_entries{0};

}  // namespace

ulonglong tidesdb::passed_index_entries() { return passed_entries.load(std::memory_order_relaxed); }

/* When a statement begins. */
int ha_tidesdb::enter_virtual_columns(THD *thd, bool may_write) {
  if (!virtual_columns_.has_any()) return 0;
  std::string why;
  const bool can_compute = virtual_columns_.prepare(thd, &why);
  if (!can_compute && may_write) return session_->refuse(why);
  hide_indexes();
  return 0;
}

void ha_tidesdb::hide_indexes() {
  if (!virtual_columns_.has_any() || !table->in_use) return;
  THD *thd = table->in_use;
  for (uint index = 0; index < table_share->keys; index++) {
    if (!virtual_columns_.index_has_any(index)) continue;
    const char *difference = virtual_columns_.difference(index, thd, opened_settings_);
    hidden_[index] = difference != nullptr;
    if (!difference) continue;
    for (key_map *usable : {&table->keys_in_use_for_query, &table->keys_in_use_for_group_by,
                            &table->keys_in_use_for_order_by, &table->covering_keys})
      usable->clear_bit(index);
    if (thd->lex->describe && hidden_noted_ != thd->query_id && session_) {
      hidden_noted_ = thd->query_id;
      push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR,
                          "TidesDB: the index '%s' is not used: its virtual columns depend on %s, which is "
                          "another one here than when the index was made",
                          table->key_info[index].name.str, difference);
    }
  }
}

/* HANDLER asks for an index by name. */
int ha_tidesdb::refuse_hidden_index(uint index) {
  if (!scan_.outlives_statement || index >= hidden_.size() || !hidden_[index]) return 0;
  return refuse_index_of_others(index, "read");
}

/* `use`: what cannot be done with a hidden index. */
int ha_tidesdb::refuse_index_of_others(uint index, const char *use) {
  std::string text =
      "the index '" + std::string(table->key_info[index].name.str) + "' cannot be " + use +
      ": its virtual columns depend on settings that are others here than when the index was made";
  if (const char *difference = virtual_columns_.difference(index, table->in_use, opened_settings_))
    text += std::string(" (") + difference + ")";
  return session_->refuse(text);
}

/*
  Where the server looks for the row of a record, puts the key of that row's entry in the place of the
  server's key, and says what append_search() would.
*/
bool ha_tidesdb::search_own_entry(const uchar *buf, key_part_map map, ha_rkey_function find,
                                  KeyCodec::Search *search) {
  if (!virtual_columns_.index_has_any(scan_.index) || find != HA_READ_KEY_EXACT || !changes_rows_)
    return false;
  if (buf == table->record[1] && writer_.duplicate_index() == scan_.index) {
    scan_.search.assign(writer_.duplicate_key());
    *search = {true, false};
    return true;
  }
  if (!is_applier(table->in_use) || buf != table->record[0]) return false;
  const uchar *row = virtual_columns_.row_with(scan_.index, table->record[0]);
  const std::vector<KeyPart> &parts = index_codecs_[scan_.index]->parts();
  const uint count = std::min<uint>(my_count_bits(map), table->key_info[scan_.index].user_defined_key_parts);
  scan_.search.clear();
  *search = {count == table->key_info[scan_.index].user_defined_key_parts, false};
  for (uint part = 0; part < count; part++) {
    append_part(parts[part], row, &scan_.search, &buffers_.entry_key);
    search->has_null = search->has_null || parts[part].is_null(row);
  }
  return true;
}

/* An entry of the snapshot leads to no row. InnoDB passes over such entries of virtual columns; those of
   other indexes tell of damage. */
bool ha_tidesdb::passes_over_entry() {
  if (!virtual_columns_.index_has_any(scan_.index)) return false;
  passed_entries.fetch_add(1, std::memory_order_relaxed);
  return true;
}

/* Expressions over JSON end with NULL when the statement is killed, and that is in no entry. */
bool ha_tidesdb::entries_may_be_cut_short() const {
  return virtual_columns_.has_any() && thd_kill_level(table->in_use) >= THD_ABORT_SOFTLY;
}

/* The record with the virtual columns that its entries have: for foreign keys, which search by them. BLOB
   columns are in no foreign key. */
const uchar *ha_tidesdb::with_indexed_columns(const uchar *record, ByteBuffer *buffer) {
  if (!record || !virtual_columns_.has_any()) return record;
  buffer->assign({record, table_share->reclength});
  for (uint index = 0; index < table_share->keys; index++) virtual_columns_.complete(index, buffer->data());
  return buffer->data();
}

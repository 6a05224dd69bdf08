#include "handler/bulk_load.h"

#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "ddl/table_path.h"
#include "ddl/tables.h"

#include "partition_info.h"

namespace tidesdb {

BulkLoad::BulkLoad(ha_tidesdb *handler) : handler_(handler) {}

int BulkLoad::begin() {
  /* Partitions are filled side by side. */
  const partition_info *partitions = handler_->table->part_info;
  const uint beside = partitions ? partitions->num_parts * std::max(1U, partitions->num_subparts) : 1;
  keys_.clear(handler_->table_share->keys + 1);
  cursors_.resize(handler_->table_share->keys + 1);
  const int status = load_.begin(handler_->table->in_use, beside);
  return status == TIDESDB_OK ? 0 : handler_->fail(status);
}

int BulkLoad::next_chunk() {
  reset_cursors();
  const int status = load_.next_chunk();
  return status == TIDESDB_OK ? 0 : handler_->fail(status);
}

void BulkLoad::reset_cursors() {
  for (const CursorHandle &cursor : cursors_)
    if (cursor) tidesdb_cursor_reset(cursor.get());
}

int BulkLoad::check_unique(uint place, tidesdb_family *family, Slice key, bool *duplicate) {
  *duplicate = false;
  if (keys_.is_above_all(place, key)) return 0;
  if (!cursors_[place]) {
    const int status = open_cursor(family, &cursors_[place]);
    if (status != TIDESDB_OK) return handler_->fail(status);
  }
  Slice value;
  const int status =
      tidesdb_cursor_get(cursors_[place].get(), txn(), key.data, key.size, TIDESDB_READ_LATEST, &value);
  if (status == TIDESDB_NOT_FOUND) return 0;
  if (status != TIDESDB_OK) return handler_->fail(status);
  *duplicate = true;
  return 0;
}

int BulkLoad::write(const uchar *record) {
  ha_tidesdb &handler = *handler_;
  const TABLE_SHARE *share = handler.table_share;
  if (!handler.has_primary_key())
    if (const int error = handler.next_row_number()) return error;
  handler.encode_primary(record, &handler.writer_.new_primary);
  handler.writer_.begin();
  handler.writer_.encode(*handler.row_codec_, record);
  handler.add_write(handler.open_table_->primary(), handler.writer_.new_primary.slice(),
                    handler.writer_.row_value.slice(), TIDESDB_PUT, false, share->primary_key);
  bool duplicate = false;
  if (handler.has_primary_key()) {
    if (const int error = check_unique(share->keys, handler.open_table_->primary(),
                                       handler.writer_.new_primary.slice(), &duplicate))
      return error;
    if (duplicate) {
      handler.session_->set_duplicate_key(share->primary_key);
      return HA_ERR_FOUND_DUPP_KEY;
    }
  }
  for (uint i = 0; i < share->keys; i++) {
    if (handler.is_primary(i)) continue;
    EntrySet &entries = handler.writer_.entries[i].after;
    handler.make_entries(i, record, handler.writer_.new_primary.slice(), &entries);
    for (const EntrySet::Entry &entry : entries) {
      if (entry.decides) {
        if (const int error = check_unique(i, handler.open_table_->index(i), entry.key.slice(), &duplicate))
          return error;
        if (duplicate) {
          handler.session_->set_duplicate_key(i);
          return HA_ERR_FOUND_DUPP_KEY;
        }
      }
      handler.add_write(handler.open_table_->index(i), entry.key.slice(), entry.value.slice(), TIDESDB_PUT,
                        false, i);
    }
  }
  if (const int error = handler.check_filled_row(txn(), record)) return error;
  if (handler.entries_may_be_cut_short()) return HA_ERR_ABORTED_BY_USER;
  const int status = load_.write(handler.writer_.ops().data(), handler.writer_.ops().size());
  if (status != TIDESDB_OK) return handler.fail(status);
  return load_.is_full() ? next_chunk() : 0;
}

/* CREATE TABLE ... SELECT leaves the table under its name; tables of an ALTER get theirs later. */
int BulkLoad::finish() {
  reset_cursors();
  if (thd_kill_level(handler_->table->in_use) >= THD_ABORT_SOFTLY) return HA_ERR_ABORTED_BY_USER;
  int status = load_.finish();
  const std::string &name = handler_->open_table_->name();
  if (status == TIDESDB_OK && !is_renamed_when_filled(name))
    set_update_time(handler_->open_table_->update_time());
  if (status == TIDESDB_OK && !is_temporary(name) && !is_renamed_when_filled(name))
    status = keep_older_snapshots_out(name);
  return status == TIDESDB_OK ? 0 : handler_->fail(status);
}

}  // namespace tidesdb

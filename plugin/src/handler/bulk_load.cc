#include "handler/bulk_load.h"

#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "errors.h"
#include "store/store.h"

#include "partition_info.h"

namespace tidesdb {

namespace {

/* Tables in the making take memory for each partition. */
constexpr uint MOST_LOADS_OF_TABLES = 16;

/* LIMIT ROWS EXAMINED ends a SELECT by a kill, too, and the rows before stay. */
bool is_killed(THD *thd) {
  return thd_kill_level(thd) >= THD_ABORT_SOFTLY && killed_mask_hard(thd->killed) != ABORT_QUERY;
}

}  // namespace

BulkLoad::BulkLoad(ha_tidesdb *handler) : handler_(handler) {}

int BulkLoad::begin() {
  /* Partitions are filled side by side. */
  const partition_info *partitions = handler_->table->part_info;
  beside_ = partitions ? partitions->num_parts * std::max(1U, partitions->num_subparts) : 1;
  keys_.clear(rows_place() + 1);
  cursors_.resize(rows_place() + 1);
  const int status = load_.begin(handler_->table->in_use, beside_);
  return status == TIDESDB_OK ? 0 : handler_->fail(status);
}

uint BulkLoad::rows_place() const { return handler_->table_share->keys; }

/* Asked with the first row: only then all of the statement is known. Entries of temporary tables are not as
   those of a load. */
bool BulkLoad::may_become_tables() const {
  const ha_tidesdb &handler = *handler_;
  return beside_ <= MOST_LOADS_OF_TABLES && size_t{beside_} * rows_place() <= most_entry_loads() &&
         !handler.is_temporary_ && !handler.inserts_.ignores_duplicates &&
         handler.server_checked_keys_.empty() &&
         !(handler.checks_foreign_keys() && handler.row_checks_->has_references());
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

tidesdb_txn *BulkLoad::reading_txn() {
  if (way_ == Way::TABLES) end_tables();
  return load_.txn();
}

int BulkLoad::find(uint place, tidesdb_family *family, Slice key, bool *found) {
  *found = false;
  if (!cursors_[place]) {
    const int status = open_cursor(family, &cursors_[place]);
    if (status != TIDESDB_OK) return handler_->fail(status);
  }
  Slice value;
  const int status =
      tidesdb_cursor_get(cursors_[place].get(), txn(), key.data, key.size, TIDESDB_READ_LATEST, &value);
  if (status == TIDESDB_NOT_FOUND) return 0;
  if (status != TIDESDB_OK) return handler_->fail(status);
  *found = true;
  return 0;
}

int BulkLoad::refuse_duplicate(uint index) {
  handler_->session_->set_duplicate_key(index);
  return HA_ERR_FOUND_DUPP_KEY;
}

int BulkLoad::write(const uchar *record) {
  ha_tidesdb &handler = *handler_;
  if (failed_ != 0) return failed_;
  if (way_ == Way::UNDECIDED && !may_become_tables()) way_ = Way::CHUNKS;
  if (!handler.has_primary_key())
    if (const int error = handler.next_row_number()) return error;
  handler.encode_primary(record, &handler.writer_.new_primary);
  handler.writer_.begin();
  handler.writer_.encode(*handler.row_codec_, record, handler.second_part_threshold());
  handler.add_write(handler.open_table_->primary(), handler.writer_.new_primary.slice(),
                    handler.writer_.row_value.slice(), TIDESDB_PUT, false, handler.table_share->primary_key);
  const bool ascends =
      !handler.has_primary_key() || keys_.is_above_all(rows_place(), handler.writer_.new_primary.slice());
  if (way_ == Way::UNDECIDED) {
    const size_t held = held_.size() + held_writes_.size() * sizeof(HeldWrite);
    if (!ascends) {
      end_holding();
    } else if (held + value_size(handler.writer_.ops()[0]) >= least_of_tables()) {
      if (const int error = begin_tables()) return error;
    }
  }
  if (way_ == Way::TABLES) {
    if (ascends) return write_in_order(record);
    if (const int error = end_tables()) return error;
  }
  return write_checked(record, ascends);
}

/* The row, and its entries, as a part of TABLES. */
int BulkLoad::write_in_order(const uchar *record) {
  ha_tidesdb &handler = *handler_;
  const int status = tables_.add(plugin.db, handler.writer_.ops().data(), handler.writer_.ops().size());
  if (status != TIDESDB_OK) return handler.fail(status);
  for (uint i = 0; i < entries_.size(); i++) {
    if (!entries_[i]) continue;
    if (const int error = entries_[i]->add_row(handler.row_of_index(i, record),
                                               handler.writer_.new_primary.slice(), handler.writer_.expiry))
      return error;
  }
  return handler.entries_may_be_cut_short() ? HA_ERR_ABORTED_BY_USER : 0;
}

/* The row, and its entries, in the transaction, after a look for duplicates. `new_row`: no other has its
   primary key. */
int BulkLoad::write_checked(const uchar *record, bool new_row) {
  ha_tidesdb &handler = *handler_;
  bool duplicate = false;
  if (!new_row) {
    if (const int error = find(rows_place(), handler.open_table_->primary(),
                               handler.writer_.new_primary.slice(), &duplicate))
      return error;
    if (duplicate) return refuse_duplicate(handler.table_share->primary_key);
  }
  for (uint i = 0; i < rows_place(); i++) {
    if (handler.is_primary(i)) continue;
    EntrySet &entries = handler.writer_.entries[i].after;
    handler.make_entries(i, record, handler.writer_.new_primary.slice(), &entries);
    for (const EntrySet::Entry &entry : entries) {
      if (entry.decides && !(knows_greatest_entries_ && keys_.is_above_all(i, entry.key.slice()))) {
        if (const int error = find(i, handler.open_table_->index(i), entry.key.slice(), &duplicate))
          return error;
        if (duplicate) return refuse_duplicate(i);
      }
      handler.add_write(handler.open_table_->index(i), entry.key.slice(), entry.value.slice(), TIDESDB_PUT,
                        false, i);
    }
  }
  if (const int error = handler.check_filled_row(txn(), record)) return error;
  if (handler.entries_may_be_cut_short()) return HA_ERR_ABORTED_BY_USER;
  const int status = load_.write(handler.writer_.ops().data(), handler.writer_.ops().size());
  if (status != TIDESDB_OK) return handler.fail(status);
  if (way_ == Way::UNDECIDED) {
    hold_writes();
    return 0;
  }
  return load_.is_full() ? next_chunk() : 0;
}

/* A row that went into the transaction may have to go into tables yet. */
void BulkLoad::hold_writes() {
  const RowWriter &writer = handler_->writer_;
  for (size_t i = 0; i < writer.ops().size(); i++) {
    const tidesdb_op &op = writer.ops()[i];
    held_.append(op.key);
    const size_t before = held_.size();
    if (op.flags & TIDESDB_OP_PIECES) {
      const auto *pieces = reinterpret_cast<const tidesdb_slice *>(op.value.data);
      for (size_t piece = 0; piece < op.value.size; piece++) held_.append(pieces[piece]);
    } else {
      held_.append(op.value);
    }
    held_writes_.push_back({i == 0 ? rows_place() : writer.index_of(i), op.key.size, held_.size() - before,
                            op.first_size, op.expiry});
  }
}

void BulkLoad::end_holding() {
  way_ = Way::CHUNKS;
  held_ = ByteBuffer();
  held_writes_ = {};
}

/* What the transaction has becomes the begin of the tables. */
int BulkLoad::begin_tables() {
  ha_tidesdb &handler = *handler_;
  ByteBuffer held;
  std::vector<HeldWrite> writes;
  std::swap(held, held_);
  std::swap(writes, held_writes_);
  way_ = Way::TABLES;
  reset_cursors();
  int status = load_.forget_chunk();
  if (status != TIDESDB_OK) return handler.fail(status);
  entries_.resize(rows_place());
  for (uint i = 0; i < rows_place(); i++) {
    if (handler.is_primary(i)) continue;
    EntryLoad::Owner owner{[&handler] { return is_killed(handler.table->in_use); },
                           [&handler](int failed) { return handler.fail(failed); },
                           [this, i](Slice key, Slice value) { return report_duplicate(i, key, value); }};
    entries_[i].reset(new EntryLoad(*handler.index_kinds_[i], size_t{beside_} * rows_place(), owner));
  }
  const uchar *at = held.data();
  for (const HeldWrite &write : writes) {
    const Slice key{at, write.key}, value{at + write.key, write.value};
    at += write.key + write.value;
    if (write.index != rows_place()) {
      if (const int error = entries_[write.index]->add(key, value, write.expiry)) return error;
      continue;
    }
    const tidesdb_op row{
        handler.open_table_->primary(), key, value, TIDESDB_PUT, 0, write.first_size, write.expiry};
    status = tables_.add(plugin.db, &row, 1);
    if (status != TIDESDB_OK) return handler.fail(status);
  }
  return 0;
}

/* What was loaded can be read from now on. After an error nothing more is written. */
int BulkLoad::end_tables() {
  way_ = Way::CHUNKS;
  knows_greatest_entries_ = false;
  failed_ = write_entries();
  return failed_;
}

int BulkLoad::write_entries() {
  ha_tidesdb &handler = *handler_;
  /* The row of a duplicate is read. */
  int status = tables_.finish();
  if (status != TIDESDB_OK) return handler.fail(status);
  for (uint i = 0; i < entries_.size(); i++) {
    if (!entries_[i]) continue;
    const int error = entries_[i]->write(handler.table->in_use, handler.open_table_->index(i), &tables_);
    entries_[i].reset();
    if (error != 0) return error;
  }
  status = tables_.finish();
  return status == TIDESDB_OK ? 0 : handler.fail(status);
}

/* The client is told of it here: nothing of the row is left when the server could ask. */
int BulkLoad::report_duplicate(uint index, Slice key, Slice value) {
  ha_tidesdb &handler = *handler_;
  TABLE *const table = handler.table;
  RowReader reader(*handler.row_codec_);
  CursorHandle cursor;
  Slice primary_key, row;
  if (!reader.choose(nullptr)) return HA_ERR_OUT_OF_MEM;
  if (!handler.index_kinds_[index]->primary_key(key, value, &primary_key)) return HA_ERR_CRASHED;
  int status = open_cursor(handler.open_table_->primary(), &cursor);
  if (status == TIDESDB_OK)
    status = tidesdb_cursor_get(cursor.get(), txn(), primary_key.data, primary_key.size, TIDESDB_READ_LATEST,
                                &row);
  if (status == TIDESDB_NOT_FOUND) { /* it has expired meanwhile */
    my_error(ER_DUP_UNKNOWN_IN_INDEX, MYF(0), table->key_info[index].name.str);
    return ERROR_IS_GIVEN;
  }
  if (status != TIDESDB_OK) return handler.fail(status);
  if (!reader.read(primary_key, row, table->record[0])) return handler.undecodable_row(row);
  handler.virtual_columns_.complete(index, table->record[0]);
  print_keydup_error(table, &table->key_info[index], MYF(0));
  return ERROR_IS_GIVEN;
}

/* CREATE TABLE ... SELECT leaves the table under its name; tables of an ALTER get theirs later. */
int BulkLoad::finish() {
  if (failed_ != 0) return failed_;
  reset_cursors();
  if (is_killed(handler_->table->in_use)) return HA_ERR_ABORTED_BY_USER;
  if (way_ == Way::TABLES)
    if (const int error = end_tables()) return error;
  int status = load_.finish();
  const std::string &name = handler_->open_table_->name();
  if (status == TIDESDB_OK && !is_renamed_when_filled(name))
    set_update_time(handler_->open_table_->update_time());
  if (status == TIDESDB_OK && !is_temporary(name) && !is_renamed_when_filled(name))
    status = keep_older_snapshots_out(name);
  return status == TIDESDB_OK ? 0 : handler_->fail(status);
}

}  // namespace tidesdb

/*
  Index entries of a row that is written: those of a new row come, those of a deleted one go, and an UPDATE is
  the difference between the two sets, with what is written again although it is equal (key/entry_set.h).

  The kind of an index says which entries a row has (key/index_kind.h). They go into the row's one call of the
  engine (handler/row_writer.h).
*/
#include "handler/ha_tidesdb.h"

#include "row/same_value.h"
#include "sql_class.h"

using namespace tidesdb;

void ha_tidesdb::make_entries(uint index, const uchar *record, Slice primary_key, EntrySet *entries) {
  if (virtual_columns_.index_has_any(index)) record = virtual_columns_.row_with(index, record);
  index_kinds_[index]->entries(record, primary_key, entries);
}

/*
  Whether the row's key or entries in an index may be others. The server's set of columns that are written
  is not all that is asked: where it opens the tables of an UPDATE anew, it does not mark them again (see
  get_parent_foreign_key_list(); triggers bring other tables, too). Of virtual columns the stored ones are
  compared from which they are computed.
*/
bool ha_tidesdb::may_change(uint index, const uchar *old_record, const uchar *new_record) const {
  if (bitmap_is_overlapping(&index_columns_[index], table->write_set)) return true;
  const my_ptrdiff_t to_old = old_record - table->record[0], to_new = new_record - table->record[0];
  const KEY &key = table->key_info[index];
  for (uint part = 0; part < key.user_defined_key_parts; part++) {
    const Field *field = table->field[key.key_part[part].fieldnr - 1];
    if (field->stored_in_db() && !has_same_value(field, to_old, to_new)) return true;
  }
  if (!virtual_columns_.index_has_any(index)) return false;
  for (const Field *field : virtual_columns_.sources(index))
    if (!has_same_value(field, to_old, to_new)) return true;
  return false;
}

void ha_tidesdb::insert_entry(uint index, const EntrySet::Entry &entry, int kind) {
  add_write(open_table_->index(index), entry.key.slice(), entry.value.slice(), kind, true, index);
}

/* The row's old entry in an index, unless it is another row's by now. */
int ha_tidesdb::delete_entry(uint index, const EntrySet::Entry &entry, Slice primary_key) {
  const Slice key = entry.key.slice();
  bool is_others = false;
  if (entry.decides)
    if (const int error = find_other_owner(index, key, primary_key, &is_others)) return error;
  if (!is_others)
    add_write(open_table_->index(index), key, {nullptr, 0}, TIDESDB_DELETE, entry.decides, index);
  return 0;
}

/* An entry that the row had before, and may have to be written again. `primary_key`: of the old row. */
int ha_tidesdb::rewrite_entry(uint index, const RowChange &change, const EntrySet::Entry &before,
                              const EntrySet::Entry &after, Slice primary_key) {
  const Rewrite why = why_rewrite(change, before, after);
  if (why == Rewrite::NONE) return 0;
  if (why == Rewrite::RENEWED && after.decides)
    if (const int error = check_renewed_entry(index, after.key.slice(), primary_key)) return error;
  const bool keeps = why == Rewrite::PAST_SNAPSHOT;
  const int kind = keeps ? TIDESDB_KEEP_ENTRY : after.decides ? TIDESDB_PUT : TIDESDB_PUT_ENTRY;
  add_write(open_table_->index(index), after.key.slice(), after.value.slice(), kind, !keeps, index, true);
  return 0;
}

/* Of a new row, whose key is in the writer. */
void ha_tidesdb::insert_entries(const uchar *record) {
  for (uint i = 0; i < table_share->keys; i++) {
    if (is_primary(i) || (i < put_off_words_.size() && put_off_words_[i])) continue;
    EntrySet &entries = writer_.entries[i].after;
    make_entries(i, record, writer_.new_primary.slice(), &entries);
    for (const EntrySet::Entry &entry : entries)
      insert_entry(i, entry, entry.decides ? insertion(i, entry.key.slice()) : TIDESDB_PUT_ENTRY);
  }
}

/* `keys_differ`: the primary key's columns may have other bytes. One of other bytes but the same weights does
   not move the row, yet its entries hold those bytes. */
int ha_tidesdb::update_entries(const RowChange &change, const uchar *old_record, Slice old_key,
                               const uchar *new_record, Slice new_key, bool keys_differ) {
  for (uint i = 0; i < table_share->keys; i++) {
    if (is_primary(i)) continue;
    if (!keys_differ && !change.rewrites_equal() && !may_change(i, old_record, new_record)) continue;
    RowWriter::IndexEntries &entries = writer_.entries[i];
    make_entries(i, old_record, old_key, &entries.before);
    make_entries(i, new_record, new_key, &entries.after);
    const int error = for_each_difference(
        entries.before, entries.after,
        [&](const EntrySet::Entry &gone) { return delete_entry(i, gone, old_key); },
        [&](const EntrySet::Entry &before, const EntrySet::Entry &after) {
          return rewrite_entry(i, change, before, after, old_key);
        },
        [&](const EntrySet::Entry &comes) {
          insert_entry(i, comes, comes.decides ? TIDESDB_INSERT : TIDESDB_PUT_ENTRY);
          return 0;
        });
    if (error) return error;
  }
  return 0;
}

/* Of a row that is deleted, whose key is in the writer. */
int ha_tidesdb::delete_entries(const uchar *record) {
  const Slice primary_key = writer_.old_primary.slice();
  for (uint i = 0; i < table_share->keys; i++) {
    if (is_primary(i)) continue;
    EntrySet &entries = writer_.entries[i].before;
    make_entries(i, record, primary_key, &entries);
    for (const EntrySet::Entry &entry : entries)
      if (const int error = delete_entry(i, entry, primary_key)) return error;
  }
  return 0;
}

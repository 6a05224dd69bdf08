/*
  REPAIR TABLE. The server makes the table anew from its rows, indexes included, where they do not fit. The
  result says before it where they did not.

  The server copies with IGNORE: it would leave out rows that the new table cannot take. Such rows are found
  first, and the table stays as it is then: the client says which of them go. A table of old types is copied
  without asking repair(): the copy itself looks for rows that fulfil no CHECK.
*/
#include <vector>

#include "handler/ha_tidesdb.h"

#include "ha_partition.h"
#include "key.h"
#include "partition_info.h"
#include "sql_class.h"

#include "ddl/merge_sort.h"
#include "handler/admin_result.h"
#include "handler/snapshot_reader.h"
#include "row/row_end.h"
#include "store/store.h"

using namespace tidesdb;

namespace {

/* Bytes that the sort of an index's keys takes in memory. */
constexpr size_t SORT_MEMORY = 1024 * 1024;

struct IndexState {
  EntrySum expected, found;
  bool unreadable = false;
  ulonglong lacking = 0, other = 0;
  std::unique_ptr<MergeSort> keys; /* of rows that exclude each other where they are the same */

  bool differs() const {
    return !unreadable && (expected.entries != found.entries || expected.hashes != found.hashes);
  }
  bool fits() const { return !unreadable && !differs(); }
};

/* Entries of an index that can be read; false: not all of them can. */
bool sum_entries(tidesdb_family *index, tidesdb_txn *txn, THD *thd, EntrySum *sum) {
  CursorHandle entries;
  int status = open_cursor(index, &entries);
  if (status == TIDESDB_OK) status = seek_snapshot(entries.get(), txn, {nullptr, 0}, TIDESDB_SEEK_FIRST);
  for (; status == TIDESDB_OK; status = tidesdb_cursor_next(entries.get())) {
    const tidesdb_row &entry = entries->rows[entries->position];
    sum->add({entry.key, entry.key_size}, {entry.value, entry.value_size});
    if (sum->entries % 1024 == 0 && thd_kill_level(thd) >= THD_ABORT_SOFTLY) break;
  }
  return status == TIDESDB_NOT_FOUND;
}

/* The first CHECK that a row does not fulfil; nullptr: it fulfils all that the session asks for. */
const Virtual_column_info *failing_check(TABLE *table) {
  if (!table->check_constraints || is_history_row(table, table->record[0]) ||
      (table->in_use->variables.option_bits & OPTION_NO_CHECK_CONSTRAINT_CHECKS))
    return nullptr;
  for (Virtual_column_info **check = table->check_constraints; *check; check++)
    if (!(*check)->expr->val_bool() && !(*check)->expr->null_value) return *check;
  return nullptr;
}

bool has_no_partition(partition_info *partitions) {
  uint32 number;
  longlong value;
  return partitions && partitions->get_partition_id(partitions, &number, &value) == HA_ERR_NO_PARTITION_FOUND;
}

int worse(int result, int than) {
  for (const int bad : {HA_ADMIN_CORRUPT, HA_ADMIN_FAILED})
    if (result == bad || than == bad) return bad;
  return result == HA_ADMIN_OK ? than : result;
}

}  // namespace

/*
  Where rows and indexes do not fit the answer asks for a new table; it is OPTIMIZE's answer elsewhere, and
  the server's note about it names OPTIMIZE. Of a partitioned table the server asks one partition after the
  other for that: the first that does not fit speaks for those after it, and for the rows of those before it.
*/
int ha_tidesdb::repair(THD *thd, HA_CHECK_OPT *options) {
  int found = say_differences(thd);
  if (found == HA_ADMIN_OK && !is_partition() && ha_check_for_upgrade(options) != HA_ADMIN_OK)
    return HA_ADMIN_NOT_IMPLEMENTED; /* the server makes it anew */
  if (found == HA_ADMIN_TRY_ALTER) {
    handler *whole[] = {this, nullptr};
    handler **parts = is_partition() ? static_cast<ha_partition *>(table->file)->get_child_handlers() : whole;
    bool is_later = false;
    for (; *parts; parts++) {
      ha_tidesdb *part = static_cast<ha_tidesdb *>(*parts);
      if (part->is_left_out_of_statement()) continue;
      if (is_later) found = worse(found, part->say_differences(thd));
      found = worse(found, part->say_unfit_rows(thd));
      is_later |= part == this;
    }
  }
  if (found == HA_ADMIN_CORRUPT) say(thd, table, "repair", "error", "rows: %s", tidesdb_last_error());
  return found;
}

/* HA_ADMIN_OK: rows and indexes fit; HA_ADMIN_TRY_ALTER: they do not; HA_ADMIN_CORRUPT: the rows cannot be
   read; HA_ADMIN_FAILED: two rows have one key, or the statement was ended. */
int ha_tidesdb::say_differences(THD *thd) {
  SnapshotReader reader;
  if (reader.begin() != TIDESDB_OK) return HA_ADMIN_CORRUPT;
  std::vector<IndexState> indexes(table_share->keys);
  EntrySet own;
  ulonglong rows = 0;
  const auto sum_row = [&](Slice primary_key) {
    rows++;
    for (uint i = 0; i < table_share->keys; i++) {
      if (is_primary(i)) continue;
      make_entries(i, table->record[0], primary_key, &own);
      for (const EntrySet::Entry &entry : own)
        indexes[i].expected.add(entry.key.slice(), entry.value.slice());
    }
    return static_cast<int>(TIDESDB_OK);
  };
  const int summed = look_at_rows(reader.txn(), sum_row);
  if (summed == TIDESDB_INTERRUPTED || summed == ERROR_IS_GIVEN) return HA_ADMIN_FAILED;
  if (summed != TIDESDB_OK) return HA_ADMIN_CORRUPT;
  bool fits = true;
  for (uint i = 0; i < table_share->keys; i++) {
    if (is_primary(i)) continue;
    indexes[i].unreadable = !sum_entries(open_table_->index(i), reader.txn(), thd, &indexes[i].found);
    fits &= indexes[i].fits();
  }
  if (thd_kill_level(thd) >= THD_ABORT_SOFTLY) return HA_ADMIN_FAILED;
  if (fits) return HA_ADMIN_OK;

  std::vector<CursorHandle> entries(table_share->keys);
  for (uint i = 0; i < table_share->keys; i++) {
    if (is_primary(i) || indexes[i].fits()) continue;
    if (open_cursor(open_table_->index(i), &entries[i]) != TIDESDB_OK) return HA_ADMIN_CORRUPT;
    if (index_kinds_[i]->is_unique() || is_checked_by_server(i))
      indexes[i].keys.reset(
          new MergeSort(plugin.db, SORT_MEMORY, [thd] { return thd_kill_level(thd) >= THD_ABORT_SOFTLY; }));
  }
  bool is_sorted = true;
  const auto look_up = [&](Slice primary_key) {
    for (uint i = 0; i < table_share->keys; i++) {
      if (is_primary(i) || indexes[i].fits()) continue;
      IndexState &index = indexes[i];
      const bool is_checked = is_checked_by_server(i);
      const bool excludes = is_checked && is_excluding(i, table->record[0]);
      make_entries(i, table->record[0], primary_key, &own);
      for (const EntrySet::Entry &entry : own) {
        if (index.keys && (is_checked ? excludes : entry.decides))
          is_sorted &= index.keys->add(entry.key.slice(), primary_key);
        if (index.unreadable) continue;
        Slice found;
        const int got = tidesdb_cursor_get(entries[i].get(), reader.txn(), entry.key.data(), entry.key.size(),
                                           TIDESDB_READ_SNAPSHOT, &found);
        if (got == TIDESDB_NOT_FOUND)
          index.lacking++;
        else if (got != TIDESDB_OK)
          index.unreadable = true;
        else if (!same_bytes(found, entry.value.slice()))
          index.other++;
      }
    }
    return static_cast<int>(is_sorted ? TIDESDB_OK : TIDESDB_NO_MEMORY);
  };
  const int looked = look_at_rows(reader.txn(), look_up);
  if (looked != TIDESDB_OK) return looked == TIDESDB_CORRUPTION ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;

  int result = HA_ADMIN_TRY_ALTER;
  for (uint i = 0; i < table_share->keys; i++) {
    const IndexState &index = indexes[i];
    if (is_primary(i) || index.fits()) continue;
    const char *name = table->key_info[i].name.str;
    if (index.unreadable)
      say(thd, table, "repair", "note", "index %s: it cannot be read; it is made anew from %llu rows", name,
          rows);
    else
      say(thd, table, "repair", "note",
          "index %s: %llu of %llu rows have no entry, %llu another one, %llu entries have no row; it is made "
          "anew",
          name, index.lacking, rows, index.other,
          index.found.entries - (index.expected.entries - index.lacking));
    if (index.keys) result = worse(result, say_duplicates(thd, i, reader.txn(), index.keys.get()));
  }
  return result;
}

bool ha_tidesdb::is_checked_by_server(uint index) const {
  for (const uint checked : server_checked_keys_)
    if (checked == index) return true;
  return false;
}

/* Whether the server, which checks this index itself, lets no other row be equal there. */
bool ha_tidesdb::is_excluding(uint index, const uchar *record) {
  return (is_long_unique(index) || !is_history_row(table, record)) &&
         !index_codecs_[index]->has_null(row_of_index(index, record));
}

/*
  Rows with the key of another, in order of the keys. Those of a key that the server checks stand by the hash
  of the columns, or by the end of the period: neighbours are compared as rows.
*/
int ha_tidesdb::say_duplicates(THD *thd, uint index, tidesdb_txn *txn, MergeSort *keys) {
  RowReader row_reader(*row_codec_), other_reader(*row_codec_);
  CursorHandle row_cursor, other_cursor;
  if (!row_reader.choose(nullptr) || !other_reader.choose(nullptr)) return HA_ADMIN_FAILED;
  if (open_cursor(open_table_->primary(), &row_cursor) != TIDESDB_OK ||
      open_cursor(open_table_->primary(), &other_cursor) != TIDESDB_OK || !keys->begin_reading())
    return HA_ADMIN_FAILED;
  std::vector<uchar> other(table->record[0], table->record[0] + table_share->rec_buff_length);
  const auto read = [&](RowReader *reader, tidesdb_cursor *cursor, Slice primary_key, uchar *record) {
    Slice value;
    return tidesdb_cursor_get(cursor, txn, primary_key.data, primary_key.size, TIDESDB_READ_SNAPSHOT,
                              &value) == TIDESDB_OK &&
           reader->read(primary_key, value, record);
  };
  const bool decides = !is_checked_by_server(index);
  ByteBuffer last_key, last_primary_key;
  ulonglong duplicates = 0;
  String first;
  for (bool is_first = true;; is_first = false) {
    Slice key, primary_key;
    bool found;
    if (!keys->next(&key, &primary_key, &found)) return HA_ADMIN_FAILED;
    if (!found) break;
    if (thd_kill_level(thd) >= THD_ABORT_SOFTLY) return HA_ADMIN_FAILED;
    bool is_same = !is_first && (!decides || same_bytes(key, last_key.slice()));
    if (is_same && (!decides || duplicates == 0)) {
      if (!read(&other_reader, other_cursor.get(), last_primary_key.slice(), other.data()) ||
          !read(&row_reader, row_cursor.get(), primary_key, table->record[0]))
        return HA_ADMIN_CORRUPT;
      virtual_columns_.complete(index, other.data());
      is_same = decides || is_same_value(index, table->record[0], other.data());
    }
    if (is_same && duplicates++ == 0) {
      virtual_columns_.complete(index, table->record[0]);
      KEY *const info = &table->key_info[index];
      if (is_long_unique(index)) setup_keyinfo_hash(info);
      key_unpack(&first, table, info);
      if (is_long_unique(index)) re_setup_keyinfo_hash(info);
    }
    last_key.assign(key);
    last_primary_key.assign(primary_key);
  }
  if (duplicates == 0) return HA_ADMIN_OK;
  say(thd, table, "repair", "error",
      "index %s: rows that have the key of another: %llu, the first '%s'. REPAIR leaves out no row: change "
      "or "
      "delete them, or let ALTER IGNORE TABLE %s FORCE, ALGORITHM=COPY leave them out",
      table->key_info[index].name.str, duplicates, first.c_ptr_safe(), table_share->table_name.str);
  return HA_ADMIN_FAILED;
}

int ha_tidesdb::count_unfit_rows(UnfitRows *unfit) {
  SnapshotReader reader;
  if (const int status = reader.begin()) return status;
  MY_BITMAP *const read_before = table->read_set, *const write_before = table->write_set;
  table->use_all_columns();
  const int looked = look_at_rows(reader.txn(), [&](Slice) -> int {
    if (table->vfield && table->update_virtual_fields(this, VCOL_UPDATE_FOR_READ)) return TIDESDB_CORRUPTION;
    unfit->homeless += has_no_partition(table->part_info);
    if (const Virtual_column_info *check = failing_check(table))
      if (unfit->failing++ == 0) unfit->check.assign(check->name.str, check->name.length);
    return TIDESDB_OK;
  });
  table->column_bitmaps_set(read_before, write_before);
  return looked;
}

std::vector<std::pair<uint, std::string>> ha_tidesdb::UnfitRows::complaints() const {
  std::vector<std::pair<uint, std::string>> said;
  if (failing > 0)
    said.emplace_back(ER_CONSTRAINT_FAILED,
                      "CHECK " + check +
                          ": rows that do not fulfil it, or another: " + std::to_string(failing) +
                          ". REPAIR leaves out no row: change or delete them, or keep them by SET "
                          "check_constraint_checks=OFF before REPAIR");
  if (homeless > 0)
    said.emplace_back(ER_NO_PARTITION_FOR_GIVEN_VALUE,
                      "rows that belong to no partition: " + std::to_string(homeless) +
                          ". REPAIR leaves out no row: add a partition for them");
  return said;
}

int ha_tidesdb::say_unfit_rows(THD *thd) {
  if (!has_conditions_on_rows()) return HA_ADMIN_OK;
  UnfitRows unfit;
  const int looked = count_unfit_rows(&unfit);
  if (looked != TIDESDB_OK) return looked == TIDESDB_CORRUPTION ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
  const auto said = unfit.complaints();
  for (const auto &complaint : said) say(thd, table, "repair", "error", "%s", complaint.second.c_str());
  return said.empty() ? HA_ADMIN_OK : HA_ADMIN_FAILED;
}

/*
  The same where the copy begins to read: the server copies a table of old types without asking repair(). The
  copy locks the table to read it, REPAIR's first step to write. It begins with all partitions, in order: the
  first looks at all.
*/
int ha_tidesdb::refuse_unfit_rows() {
  if (thd_sql_command(table->in_use) != SQLCOM_REPAIR || get_lock_type() != F_RDLCK ||
      !has_conditions_on_rows())
    return 0;
  handler *whole[] = {this, nullptr};
  handler **parts = is_partition() ? static_cast<ha_partition *>(table->file)->get_child_handlers() : whole;
  if (*parts != this) return 0;
  UnfitRows unfit;
  int status = TIDESDB_OK;
  for (; status == TIDESDB_OK && *parts; parts++)
    status = static_cast<ha_tidesdb *>(*parts)->count_unfit_rows(&unfit);
  if (status != TIDESDB_OK) return fail(status);
  const auto said = unfit.complaints();
  for (const auto &complaint : said) my_printf_error(complaint.first, "%s", MYF(0), complaint.second.c_str());
  return said.empty() ? 0 : ERROR_IS_GIVEN;
}

/* The safety net: a duplicate that the pass above did not see ends the copy, and the table stays. */
bool ha_tidesdb::is_fatal_error(int error, uint flags) {
  if (thd_sql_command(ha_thd()) == SQLCOM_REPAIR) flags &= ~HA_CHECK_DUP;
  return handler::is_fatal_error(error, flags);
}

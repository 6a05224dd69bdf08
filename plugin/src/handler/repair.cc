/*
  REPAIR TABLE. The server makes the table anew from its rows, indexes included. The result says before it
  where indexes and rows did not fit.
*/
#include <vector>

#include "handler/ha_tidesdb.h"

#include "ha_partition.h"
#include "sql_class.h"

#include "handler/admin_result.h"
#include "handler/snapshot_reader.h"
#include "store/store.h"

using namespace tidesdb;

namespace {

struct IndexState {
  EntrySum expected, found;
  bool unreadable = false;
  ulonglong lacking = 0, other = 0;

  bool differs() const {
    return !unreadable && (expected.entries != found.entries || expected.hashes != found.hashes);
  }
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

}  // namespace

/*
  Where rows and indexes do not fit the answer asks for a new table; it is OPTIMIZE's answer elsewhere, and
  the server's note about it names OPTIMIZE. (To "not implemented" 11.8 makes a plain table anew, 10.11 does
  nothing, and neither does anything for a partitioned one.) Of that the server asks one partition after the
  other: the first that does not fit speaks for those after it.
*/
int ha_tidesdb::repair(THD *thd, HA_CHECK_OPT *) {
  int found = say_differences(thd);
  if (found == HA_ADMIN_OK) return HA_ADMIN_NOT_IMPLEMENTED;
  handler *none = nullptr, **next = &none;
  if (is_partition()) next = static_cast<ha_partition *>(table->file)->get_child_handlers();
  while (*next && *next++ != this) {
  }
  for (; found != HA_ADMIN_CORRUPT && *next; next++) {
    ha_tidesdb *partition = static_cast<ha_tidesdb *>(*next);
    if (!partition->is_left_out_of_statement() && partition->say_differences(thd) == HA_ADMIN_CORRUPT)
      found = HA_ADMIN_CORRUPT;
  }
  if (found == HA_ADMIN_CORRUPT) say(thd, table, "repair", "error", "rows: %s", tidesdb_last_error());
  return found;
}

/* HA_ADMIN_OK: rows and indexes fit, or the statement was ended; HA_ADMIN_TRY_ALTER: they do not;
   HA_ADMIN_CORRUPT: the rows cannot be read. */
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
  if (summed != TIDESDB_OK) return summed == TIDESDB_INTERRUPTED ? HA_ADMIN_OK : HA_ADMIN_CORRUPT;
  bool differs = false, unreadable = false;
  for (uint i = 0; i < table_share->keys; i++) {
    if (is_primary(i)) continue;
    indexes[i].unreadable = !sum_entries(open_table_->index(i), reader.txn(), thd, &indexes[i].found);
    differs |= indexes[i].differs();
    unreadable |= indexes[i].unreadable;
  }
  if (thd_kill_level(thd) >= THD_ABORT_SOFTLY) return HA_ADMIN_OK;

  std::vector<CursorHandle> entries(table_share->keys);
  const auto look_up = [&](Slice primary_key) {
    for (uint i = 0; i < table_share->keys; i++) {
      if (is_primary(i) || !indexes[i].differs()) continue;
      make_entries(i, table->record[0], primary_key, &own);
      for (const EntrySet::Entry &entry : own) {
        Slice found;
        const int got = tidesdb_cursor_get(entries[i].get(), reader.txn(), entry.key.data(), entry.key.size(),
                                           TIDESDB_READ_SNAPSHOT, &found);
        if (got == TIDESDB_NOT_FOUND)
          indexes[i].lacking++;
        else if (got != TIDESDB_OK)
          return got;
        else if (!same_bytes(found, entry.value.slice()))
          indexes[i].other++;
      }
    }
    return static_cast<int>(TIDESDB_OK);
  };
  for (uint i = 0; i < table_share->keys; i++)
    if (!is_primary(i) && open_cursor(open_table_->index(i), &entries[i]) != TIDESDB_OK)
      return HA_ADMIN_CORRUPT;
  if (differs && look_at_rows(reader.txn(), look_up) != TIDESDB_OK) return HA_ADMIN_TRY_ALTER;

  for (uint i = 0; i < table_share->keys; i++) {
    const IndexState &index = indexes[i];
    const char *name = table->key_info[i].name.str;
    if (!is_primary(i) && index.unreadable)
      say(thd, table, "repair", "note", "index %s: it cannot be read; it is made anew from %llu rows", name,
          rows);
    if (is_primary(i) || !index.differs()) continue;
    const ulonglong without_row = index.found.entries - (index.expected.entries - index.lacking);
    say(thd, table, "repair", "note",
        "index %s: %llu of %llu rows have no entry, %llu another one, %llu entries have no row; it is made "
        "anew",
        name, index.lacking, rows, index.other, without_row);
  }
  return differs || unreadable ? HA_ADMIN_TRY_ALTER : HA_ADMIN_OK;
}

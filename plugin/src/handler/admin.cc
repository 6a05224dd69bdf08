/*
  CHECK, ANALYZE and OPTIMIZE TABLE; REPAIR is in repair.cc.
*/
#include "handler/ha_tidesdb.h"

#include <mysql/plugin.h>

#include "protocol.h"
#include "sql_class.h"
#include "sql_lex.h"

#include "errors.h"
#include "handler/admin_result.h"
#include "handler/index_sample.h"
#include "handler/snapshot_reader.h"
#include "store/store.h"

using namespace tidesdb;

namespace {

/* Rows between two looks at KILL: with EXTENDED each takes a search in every index. */
constexpr uint64_t ROWS_BETWEEN_LOOKS = 128;

}  // namespace

namespace tidesdb {
void say(THD *thd, const TABLE *table, const char *operation, const char *level, const char *format, ...) {
  char text[MYSQL_ERRMSG_SIZE];
  va_list arguments;
  va_start(arguments, format);
  my_vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  char name[NAME_LEN * 2 + 2];
  const size_t name_length =
      static_cast<size_t>(strxmov(name, table->s->db.str, ".", table->s->table_name.str, NullS) - name);
  Protocol *protocol = thd->protocol;
  protocol->prepare_for_resend();
  protocol->store(name, name_length, system_charset_info);
  protocol->store(operation, strlen(operation), system_charset_info);
  protocol->store(level, strlen(level), system_charset_info);
  protocol->store(text, strlen(text), system_charset_info);
  protocol->write();
}
}  // namespace tidesdb

/* Counts the rows, all of them: a table of an earlier build is not counted before. The indexes are sampled.
 */
/* FLUSH TABLES ... FOR EXPORT, DISCARD and IMPORT TABLESPACE: with the server's number, and the way that
 * there is. */
int ha_tidesdb::refuse_own_files() {
  my_printf_error(
      ER_ILLEGAL_HA,
      "Storage engine TidesDB of the table `%s`.`%s` doesn't have this option: tables share their "
      "files. mariadb-dump copies a table, SET GLOBAL tidesdb_backup_dir='DIR' all of the store",
      MYF(0), table_share->db.str, table_share->table_name.str);
  return ERROR_IS_GIVEN;
}

int ha_tidesdb::discard_or_import_tablespace(my_bool) { return refuse_own_files(); }

int ha_tidesdb::analyze(THD *thd, HA_CHECK_OPT *) {
  SnapshotReader reader;
  int status = reader.begin();
  uint64_t rows = 0;
  if (status == TIDESDB_OK) status = tidesdb_count_rows(open_table_->primary(), session_->txn(), &rows);
  RowsPerKey result;
  if (status == TIDESDB_OK) status = sample_indexes(reader.txn(), rows, LARGE_SAMPLE, &result);
  if (status == TIDESDB_INTERRUPTED) return HA_ADMIN_FAILED;
  if (status == TIDESDB_OK) status = open_table_->set_statistics(rows, std::move(result));
  if (status != TIDESDB_OK) {
    say(thd, table, "analyze", "error", "%s", tidesdb_last_error());
    return HA_ADMIN_FAILED;
  }
  info(HA_STATUS_CONST | HA_STATUS_VARIABLE);
  return HA_ADMIN_OK;
}

int ha_tidesdb::optimize(THD *thd, HA_CHECK_OPT *) {
  int status = TIDESDB_OK;
  for (const OpenTable::Family &of_table : open_table_->families())
    if (status == TIDESDB_OK) status = tidesdb_compact(of_table.get(), session_->txn());
  if (status == TIDESDB_OK) return HA_ADMIN_OK;
  if (status == TIDESDB_INTERRUPTED) return HA_ADMIN_FAILED;
  say(thd, table, "optimize", "error", "%s", tidesdb_last_error());
  return HA_ADMIN_FAILED;
}

/*
  Every block of every family; then, in one snapshot, the entries that the rows should have and those that the
  indexes have: their number and the sum of their hashes. Only where these differ, or with EXTENDED, each
  entry is looked up, which takes ten times as long and says which row it is.
*/
int ha_tidesdb::check(THD *thd, HA_CHECK_OPT *options) {
  const auto damaged = [&](const char *where) {
    say(thd, table, "check", "error", "%s: %s", where, tidesdb_last_error());
    return HA_ADMIN_CORRUPT;
  };
  const std::vector<OpenTable::Family> &families = open_table_->families();
  for (size_t n = 1; n <= families.size(); n++) {
    const OpenTable::Family &of_table = families[n % families.size()]; /* the rows last */
    const int status = tidesdb_verify(of_table.get(), session_->txn());
    if (status == TIDESDB_INTERRUPTED) return HA_ADMIN_FAILED;
    if (status != TIDESDB_OK)
      return damaged(of_table.has_rows() ? "rows" : table->key_info[of_table.key].name.str);
  }

  SnapshotReader reader;
  if (reader.begin() != TIDESDB_OK) return damaged("snapshot");
  thd_progress_init(thd, 1 + table_share->keys);
  const bool is_extended = options->flags & T_EXTEND;
  int result = compare_with_indexes(thd, reader.txn(), is_extended);
  if (result == HA_ADMIN_OK && is_extended) result = list_orphans(thd, reader.txn());
  thd_progress_end(thd);
  return result;
}

/*
  Rows that refer to none: foreign_key_checks=0 lets them be written, and nobody looks at them later. They are
  no damage: the table is OK. Of each key the first are named, and all are counted.
*/
int ha_tidesdb::list_orphans(THD *thd, tidesdb_txn *txn) {
  constexpr ulonglong MOST_NAMED = 20;
  if (is_temporary_ || foreign::keys_of(open_table_->name()).empty()) return HA_ADMIN_OK;
  RowChecks checks(table, open_table_->name());
  checks.refresh();
  const size_t count = checks.reference_count();
  std::vector<ulonglong> orphans(count);
  for (size_t i = 0; i < count; i++) {
    bool is_there;
    if (checks.resolve_reference(i, &is_there)) return HA_ADMIN_FAILED;
    if (is_there) continue;
    const ForeignKey &key = checks.reference(i);
    const std::string parent = quoted_table(thd, key.parent_database, key.parent_table);
    TableDefinition definition;
    const bool is_others = definition.read(thd, key.parent) == TableDefinition::Read::OF_OTHER_ENGINE;
    say(thd, table, "check", "warning", "foreign key %s: the table %s %s", key.name.c_str(), parent.c_str(),
        is_others ? "has another engine: each new reference to it is refused"
                  : "is not there, or has no index of the columns: each new reference to it is refused");
  }
  const int status = look_at_rows(txn, [&](Slice) {
    for (uint key = 0; key < table_share->keys; key++) compute_indexed_columns(key, table->record[0]);
    for (size_t i = 0; i < count; i++) {
      bool orphan;
      const int looked = checks.is_orphan(i, txn, table->record[0], &orphan);
      if (looked != TIDESDB_OK) return looked;
      if (!orphan || ++orphans[i] > MOST_NAMED) continue;
      std::string values;
      for (Field *field : checks.reference_fields(i)) {
        String text;
        field->val_str(&text);
        values += (values.empty() ? "" : ", ") + std::string(text.ptr(), text.length());
      }
      const ForeignKey &key = checks.reference(i);
      say(thd, table, "check", "warning", "foreign key %s: a row refers to (%s), which %s does not have",
          key.name.c_str(), values.c_str(), quoted_table(thd, key.parent_database, key.parent_table).c_str());
    }
    return static_cast<int>(TIDESDB_OK);
  });
  for (size_t i = 0; i < count; i++)
    if (orphans[i] > MOST_NAMED)
      say(thd, table, "check", "warning", "foreign key %s: %llu rows refer to what is not there",
          checks.reference(i).name.c_str(), orphans[i]);
  if (status == TIDESDB_OK) return HA_ADMIN_OK;
  if (status != TIDESDB_INTERRUPTED && status != ERROR_IS_GIVEN)
    say(thd, table, "check", "error", "foreign keys: %s", tidesdb_last_error());
  return status == TIDESDB_CORRUPTION ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
}

int ha_tidesdb::look_at_rows(tidesdb_txn *txn, const std::function<int(Slice)> &look) {
  RowReader whole_rows(*row_codec_);
  if (!whole_rows.choose(nullptr)) return TIDESDB_NO_MEMORY;
  CursorHandle rows;
  uint64_t steps = 0;
  int status = open_cursor(open_table_->primary(), &rows);
  if (status == TIDESDB_OK) status = seek_snapshot(rows.get(), txn, {nullptr, 0}, TIDESDB_SEEK_FIRST);
  for (; status == TIDESDB_OK; status = tidesdb_cursor_next(rows.get())) {
    if (++steps % ROWS_BETWEEN_LOOKS == 0 && thd_kill_level(ha_thd()) >= THD_ABORT_SOFTLY)
      return TIDESDB_INTERRUPTED;
    const tidesdb_row &row = rows->rows[rows->position];
    const Slice value{row.value, row.value_size};
    if (!whole_rows.read({row.key, row.key_size}, value, table->record[0])) {
      const std::string layout = row_codec_->unknown_layout(value);
      if (layout.empty()) return TIDESDB_CORRUPTION;
      const bool repairs = thd_sql_command(ha_thd()) == SQLCOM_REPAIR;
      say(ha_thd(), table, repairs ? "repair" : "check", "error", "%s", layout.c_str());
      return ERROR_IS_GIVEN;
    }
    if (const int looked = look({row.key, row.key_size})) return looked;
  }
  return status == TIDESDB_NOT_FOUND ? static_cast<int>(TIDESDB_OK) : status;
}

int ha_tidesdb::compare_with_indexes(THD *thd, tidesdb_txn *txn, bool each_entry) {
  const auto damaged = [&](const char *where) {
    say(thd, table, "check", "error", "%s: %s", where, tidesdb_last_error());
    return HA_ADMIN_CORRUPT;
  };
  uint64_t steps = 0;
  const auto killed = [&] {
    return ++steps % ROWS_BETWEEN_LOOKS == 0 && thd_kill_level(thd) >= THD_ABORT_SOFTLY;
  };
  RowReader whole_rows(*row_codec_);
  if (!whole_rows.choose(nullptr)) return HA_ADMIN_INTERNAL_ERROR;
  CursorHandle rows;
  std::vector<CursorHandle> entries(table_share->keys);
  if (open_cursor(open_table_->primary(), &rows) != TIDESDB_OK) return damaged("rows");
  for (uint i = 0; i < table_share->keys; i++)
    if (!is_primary(i) && open_cursor(open_table_->index(i), &entries[i]) != TIDESDB_OK)
      return damaged(table->key_info[i].name.str);

  uchar *record = table->record[0];
  std::vector<EntrySum> expected(table_share->keys);
  ByteBuffer key;
  EntrySet own;
  int status = seek_snapshot(rows.get(), txn, {nullptr, 0}, TIDESDB_SEEK_FIRST);
  for (uint64_t row_number = 1; status == TIDESDB_OK;
       row_number++, status = tidesdb_cursor_next(rows.get())) {
    if (killed()) return HA_ADMIN_FAILED;
    const tidesdb_row &row = rows->rows[rows->position];
    const Slice primary_key{row.key, row.key_size};
    const Slice value{row.value, row.value_size};
    if (!whole_rows.read(primary_key, value, record)) {
      const std::string layout = row_codec_->unknown_layout(value);
      say(thd, table, "check", "error", "row %llu in order of the primary key cannot be decoded%s%s",
          static_cast<ulonglong>(row_number), layout.empty() ? "" : ": ", layout.c_str());
      return layout.empty() ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
    }
    if (has_primary_key()) {
      key.clear();
      primary_codec_->append_columns(record, &key);
      if (!same_bytes(key.slice(), primary_key)) {
        say(thd, table, "check", "error", "row %llu does not stand under its primary key",
            static_cast<ulonglong>(row_number));
        return HA_ADMIN_CORRUPT;
      }
    }
    for (uint i = 0; i < table_share->keys; i++) {
      if (is_primary(i)) continue;
      make_entries(i, record, primary_key, &own);
      for (const EntrySet::Entry &entry : own) {
        expected[i].add(entry.key.slice(), entry.value.slice());
        if (!each_entry) continue;
        Slice found;
        const int got = tidesdb_cursor_get(entries[i].get(), txn, entry.key.data(), entry.key.size(),
                                           TIDESDB_READ_SNAPSHOT, &found);
        if (got == TIDESDB_OK && same_bytes(found, entry.value.slice())) continue;
        if (got != TIDESDB_OK && got != TIDESDB_NOT_FOUND) return damaged(table->key_info[i].name.str);
        say(thd, table, "check", "error", "index %s: %s for row %llu", table->key_info[i].name.str,
            got == TIDESDB_OK ? "another entry" : "no entry", static_cast<ulonglong>(row_number));
        return HA_ADMIN_CORRUPT;
      }
    }
  }
  if (status != TIDESDB_NOT_FOUND) return damaged("rows");

  for (uint i = 0; i < table_share->keys; i++) {
    if (is_primary(i)) continue;
    thd_progress_next_stage(thd);
    EntrySum found;
    status = seek_snapshot(entries[i].get(), txn, {nullptr, 0}, TIDESDB_SEEK_FIRST);
    for (; status == TIDESDB_OK; status = tidesdb_cursor_next(entries[i].get())) {
      if (killed()) return HA_ADMIN_FAILED;
      const tidesdb_row &entry = entries[i]->rows[entries[i]->position];
      found.add({entry.key, entry.key_size}, {entry.value, entry.value_size});
    }
    if (status != TIDESDB_NOT_FOUND) return damaged(table->key_info[i].name.str);
    if (found.entries == expected[i].entries && found.hashes == expected[i].hashes) continue;
    if (!each_entry) return compare_with_indexes(thd, txn, true);
    /* No row lacks its entry, that would have been said above: there are entries without a row. */
    say(thd, table, "check", "error", "index %s has %llu entries for %llu rows", table->key_info[i].name.str,
        static_cast<ulonglong>(found.entries), static_cast<ulonglong>(expected[i].entries));
    return HA_ADMIN_CORRUPT;
  }
  return HA_ADMIN_OK;
}

#include "ddl/partitioned_drop.h"

#include <fcntl.h>

#include "log.h"
#include "my_sys.h"
#include "sql_class.h"
#include "sql_table.h"

#include "ddl/server_files.h"
#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "store/store.h"
#include "txn/session.h"

namespace tidesdb {

namespace {

constexpr char PARTITION_FILE[] = ".par";

std::string partition_file(const std::string &table) { return "./" + table + PARTITION_FILE; }

/* `db/table`; without a table the directory, `db/`. */
std::string canonical(const char *database, const char *table) {
  char path[FN_REFLEN + 1];
  build_table_filename(path, sizeof(path) - 1, database, table, "", 0);
  return *table ? canonical_table(path) : canonical_database(path);
}

/* The file is written aside first: one that was cut off would be worse than none. The next start removes what
   a crash leaves there. */
bool write_partition_file(const std::string &table, const std::string &bytes) {
  const size_t name = table.find('/') + 1;
  const std::string aside = partition_file(table.substr(0, name) + "#sql-kept-" + table.substr(name));
  const File file = my_create(aside.c_str(), 0, O_WRONLY | O_TRUNC, MYF(0));
  if (file < 0) return false;
  const bool written =
      my_write(file, reinterpret_cast<const uchar *>(bytes.data()), bytes.size(), MYF(MY_NABP)) == 0 &&
      my_sync(file, MYF(0)) == 0;
  const bool closed = my_close(file, MYF(0)) == 0;
  if (written && closed && !my_rename(aside.c_str(), partition_file(table).c_str(), MYF(MY_SYNC_DIR)))
    return true;
  my_delete(aside.c_str(), MYF(0));
  return false;
}

}  // namespace

void PartitionedDrop::begin_statement(THD *thd) {
  if (statement_ == thd->query_id) return;
  statement_ = thd->query_id;
  database_noted_ = false;
  files_.clear();
  last_.clear();
}

void PartitionedDrop::note_file(const std::string &table) {
  std::string bytes;
  if (files_.count(table) || !read_file(partition_file(table), &bytes)) return;
  files_.emplace(table, std::move(bytes));
  /* CREATE OR REPLACE drops the old table, and the new one where it fails. */
  if (last_ == table) last_.clear();
}

void PartitionedDrop::note_files(THD *thd) {
  begin_statement(thd);
  if (thd_sql_command(thd) == SQLCOM_DROP_DB) {
    if (database_noted_ || !thd->lex->name.str) return;
    database_noted_ = true;
    std::string name(thd->lex->name.str, thd->lex->name.length);
    if (lower_case_table_names == 1) {
      char lower[NAME_LEN * 2 + 1];
      name.assign(lower, files_charset_info->casedn(name.data(), name.size(), lower, sizeof(lower)));
    }
    const std::string database = canonical(name.c_str(), "");
    for (const std::string &file : names_in("./" + database))
      if (ends_with(file, PARTITION_FILE))
        note_file(database + file.substr(0, file.size() - sizeof(PARTITION_FILE) + 1));
    return;
  }
  /* CREATE ... SELECT takes the new table from the list of the statement's tables while it makes it. */
  const bool creates = thd_sql_command(thd) != SQLCOM_DROP_TABLE;
  if (const TABLE_LIST *made = creates ? thd->lex->create_last_non_select_table : nullptr)
    if (made->db.str && made->table_name.str) note_file(canonical(made->db.str, made->table_name.str));
  for (const TABLE_LIST *table = thd->lex->query_tables; table; table = table->next_global)
    if (table->db.str && table->table_name.str) note_file(canonical(table->db.str, table->table_name.str));
}

bool PartitionedDrop::is_under_way(THD *thd, const std::string &table) const {
  if (statement_ != thd->query_id) return false;
  if (last_ == table) return true;
  return files_.count(table) && my_access(partition_file(table).c_str(), F_OK) != 0;
}

int PartitionedDrop::drop(THD *thd, const std::string &table) {
  if (last_ == table) return last_error_;
  const auto noted = files_.find(table);
  const std::string bytes = std::move(noted->second);
  files_.erase(noted);
  last_ = table;
  last_error_ = drop_partitions(thd, table);
  if (last_error_ != 0 && last_error_ != HA_ERR_NO_SUCH_TABLE && !write_partition_file(table, bytes))
    sql_print_error(
        "TidesDB: DROP TABLE failed, and %s cannot be written back (errno %d): the table has all of its "
        "rows, and cannot be opened until the file is there. A backup has it",
        partition_file(table).c_str(), my_errno);
  return last_error_;
}

void note_partition_files(THD *thd) {
  if (!thd || !thd->lex || !plugin.ddl_recovery_done) return;
  switch (thd_sql_command(thd)) {
    case SQLCOM_DROP_TABLE:
    case SQLCOM_DROP_DB:
    case SQLCOM_CREATE_TABLE:
    case SQLCOM_CREATE_SEQUENCE:
      if (Session *session = Session::get(thd)) session->partitioned_drop().note_files(thd);
      break;
    default:
      break;
  }
}

}  // namespace tidesdb

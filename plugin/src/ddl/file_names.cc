#include "ddl/file_names.h"

#include "sql_class.h"
#include "sql_lex.h"
#include "sql_table.h"

namespace tidesdb {

static bool names_file(const char *name, const char *file) {
  return name && check_mysql50_prefix(name) && !strcmp(name + MYSQL50_TABLE_NAME_PREFIX_LENGTH, file);
}

bool is_named_by_file(THD *thd, const std::string &table) {
  const size_t slash = table.rfind('/');
  if (!thd || !thd->lex || slash == std::string::npos) return false;
  const std::string database = table.substr(0, slash);
  const char *file = table.c_str() + slash + 1;
  for (const TABLE_LIST *named = thd->lex->query_tables; named; named = named->next_global) {
    if (!names_file(named->table_name.str, file)) continue;
    char directory[FN_REFLEN];
    tablename_to_filename(named->db.str, directory, sizeof(directory));
    if (database == directory) return true;
  }
  /* ALTER TABLE ... RENAME */
  return thd->lex->sql_command == SQLCOM_ALTER_TABLE && names_file(thd->lex->name.str, file);
}

bool refuse_file_name(THD *thd, const std::string &table) {
  const size_t slash = table.rfind('/');
  const std::string file = table.substr(slash == std::string::npos ? 0 : slash + 1);
  if (file.find('#') == std::string::npos || !is_named_by_file(thd, table)) return false;
  my_error(ER_WRONG_TABLE_NAME, MYF(0), (MYSQL50_TABLE_NAME_PREFIX + file).c_str());
  return true;
}

}  // namespace tidesdb

#include "foreign/mode.h"

#include <cstring>
#include <string>

#include "log.h"
#include "sql_class.h"

#include "txn/applier.h"

namespace tidesdb {
namespace foreign {

namespace {

/* The parser of a server that passes over the comment writes a space for the '!'. */
constexpr char STARTS[][4] = {"/*!", "/* "};
constexpr char REST[] = "999999 tidesdb_foreign_keys=WARN */ ";

bool has_comment(const THD *thd) {
  constexpr size_t start = sizeof(STARTS[0]) - 1, rest = sizeof(REST) - 1;
  const char *text = thd->query();
  if (!text || thd->query_length() < start + rest || strncmp(text + start, REST, rest)) return false;
  return !strncmp(text, STARTS[0], start) || !strncmp(text, STARTS[1], start);
}

bool declares_keys(const Alter_info &statement) {
  List<Key> declared(statement.key_list);
  List_iterator_fast<Key> keys(declared);
  while (const Key *key = keys++)
    if (key->type == Key::FOREIGN_KEY && !key->old) return true;
  return false;
}

}  // namespace

sysvars::ForeignKeys mode(THD *thd) {
  if (has_comment(thd)) return sysvars::FOREIGN_KEYS_WARN;
  if (is_applier(thd) || thd->variables.pseudo_slave_mode) return sysvars::FOREIGN_KEYS_ENFORCE;
  return sysvars::foreign_keys(thd);
}

void log_warn_mode(THD *thd) {
  if (!mysql_bin_log.is_open() || !thd->query() || has_comment(thd)) return;
  const std::string text = std::string(STARTS[0]) + REST + std::string(thd->query(), thd->query_length());
  char *copy = thd->strmake(text.data(), text.size());
  if (copy) thd->set_query(copy, text.size(), thd->query_charset());
}

void log_warn_mode_of_alter(THD *thd) {
  if (thd->lex->sql_command != SQLCOM_ALTER_TABLE ||
      (thd->lex->create_info.used_fields & HA_CREATE_USED_ENGINE))
    return;
  if (declares_keys(thd->lex->alter_info) && mode(thd) == sysvars::FOREIGN_KEYS_WARN) log_warn_mode(thd);
}

}  // namespace foreign
}  // namespace tidesdb

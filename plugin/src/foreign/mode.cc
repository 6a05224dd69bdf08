#include "foreign/mode.h"

#include <string>

#include "log.h"
#include "sql_class.h"

#include "txn/applier.h"

namespace tidesdb {
namespace foreign {

namespace {

/* A parser that passes over the comment writes a space for the '!', and clients cut out what is left. */
constexpr char START[] = "/*!", PASSED_START[] = "/* ";
constexpr char REST[] = "999999 tidesdb_foreign_keys=WARN */";
constexpr size_t START_SIZE = sizeof(START) - 1, REST_SIZE = sizeof(REST) - 1;

bool begins_with(const std::string &text, const char *start) {
  return !text.compare(0, START_SIZE, start) && !text.compare(START_SIZE, REST_SIZE, REST);
}

std::string text_of(const THD *thd) {
  return thd->query() ? std::string(thd->query(), thd->query_length()) : std::string();
}

/* CREATE TABLE ... SELECT is logged with a text of the server's, and the comment among the keys. Texts of the
   statement itself have no line ends that are not escaped. */
std::string among_keys(const char *start) { return std::string("\n  ") + start + REST; }

bool has_comment_among_keys(const std::string &text) {
  return text.find(among_keys(START)) != std::string::npos ||
         text.find(among_keys(PASSED_START)) != std::string::npos;
}

bool comes_from_a_log(const THD *thd) { return is_applier(thd) || thd->variables.pseudo_slave_mode; }

bool declares_keys(const Alter_info &statement) {
  List<Key> declared(statement.key_list);
  List_iterator_fast<Key> keys(declared);
  while (const Key *key = keys++)
    if (key->type == Key::FOREIGN_KEY && !key->old) return true;
  return false;
}

void set_comment(THD *thd) {
  std::string text = text_of(thd);
  if (!mysql_bin_log.is_open() || text.empty() || begins_with(text, START)) return;
  const bool is_passed_on = begins_with(text, PASSED_START);
  text = is_passed_on ? START + text.substr(START_SIZE) : std::string(START) + REST + " " + text;
  char *copy = thd->strmake(text.data(), text.size());
  if (copy) thd->set_query(copy, text.size(), thd->query_charset());
}

}  // namespace

std::string comment_among_keys() { return among_keys(START); }

sysvars::ForeignKeys mode(THD *thd) {
  const std::string text = text_of(thd);
  if (begins_with(text, START) || begins_with(text, PASSED_START)) return sysvars::FOREIGN_KEYS_WARN;
  if (!comes_from_a_log(thd)) return sysvars::foreign_keys(thd);
  return has_comment_among_keys(text) ? sysvars::FOREIGN_KEYS_WARN : sysvars::FOREIGN_KEYS_ENFORCE;
}

bool log_warn_mode(THD *thd) {
  const bool is_logged = mysql_bin_log.is_open() && (thd->variables.option_bits & OPTION_BIN_LOG);
  const bool is_begun = thd->lex->sql_command == SQLCOM_ALTER_TABLE && thd->variables.binlog_alter_two_phase;
  if (is_logged && is_begun && !comes_from_a_log(thd) && !begins_with(text_of(thd), START)) return false;
  set_comment(thd);
  return true;
}

void log_warn_mode_of_alter(THD *thd) {
  if (thd->lex->sql_command == SQLCOM_ALTER_TABLE && declares_keys(thd->lex->alter_info) &&
      mode(thd) == sysvars::FOREIGN_KEYS_WARN)
    set_comment(thd);
}

}  // namespace foreign
}  // namespace tidesdb

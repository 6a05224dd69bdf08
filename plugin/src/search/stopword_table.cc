#include "search/stopword_table.h"

#include <functional>
#include <set>

#include "sql_base.h"
#include "sql_class.h"
#include "sql_lex.h"
#include "transaction.h"

#include "search/settings.h"
#include "server.h"

namespace tidesdb {
namespace full_text {

namespace {

constexpr LEX_CSTRING COLUMN = {"value", 5};

/* Rows between two looks at KILL. */
constexpr ulonglong ROWS_BETWEEN_LOOKS = 1024;

/* Keeps what the server would tell the client. */
class Messages : public Internal_error_handler {
 public:
  explicit Messages(THD *thd) : thd_(thd) { thd->push_internal_handler(this); }
  ~Messages() override { thd_->pop_internal_handler(); }
  bool handle_condition(THD *, uint, const char *, Sql_condition::enum_warning_level *level,
                        const char *message, Sql_condition **condition) override {
    if (*level == Sql_condition::WARN_LEVEL_ERROR && first.empty()) first = message;
    *condition = nullptr;
    return true;
  }
  std::string first;

 private:
  THD *thd_;
};

/* The statement is an autocommitted SELECT meanwhile, which takes no row locks at any level of isolation. */
class PlainSelect {
 public:
  explicit PlainSelect(THD *thd)
      : thd_(thd),
        options_(thd->variables.option_bits),
        isolation_(thd->tx_isolation),
        locked_at_(thd->utime_after_lock) {
    thd->lex->reset_n_backup_query_tables_list(&tables_);
    thd->lex->sql_command = SQLCOM_SELECT;
    thd->variables.option_bits &= ~(OPTION_TABLE_LOCK | OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
    thd->tx_isolation = ISO_READ_COMMITTED;
  }
  ~PlainSelect() {
    thd_->tx_isolation = isolation_;
    thd_->variables.option_bits = options_;
    thd_->utime_after_lock = locked_at_;
    thd_->lex->restore_backup_query_tables_list(&tables_);
  }

 private:
  THD *const thd_;
  const ulonglong options_;
  const enum_tx_isolation isolation_;
  const ulonglong locked_at_;
  Query_tables_list tables_;
};

bool split_name(const std::string &name, std::string *database, std::string *table) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return false;
  *database = name.substr(0, slash);
  *table = name.substr(slash + 1);
  for (std::string *part : {database, table}) {
    if (part->empty() || part->size() > NAME_LEN || part->find('\0') != std::string::npos) return false;
    if (lower_case_table_names == 0) continue;
    char lower[NAME_LEN * 2 + 1];
    *part = std::string(lower, files_charset_info->casedn(&(*part)[0], part->size(), lower, sizeof(lower)));
  }
  return table->find('/') == std::string::npos;
}

/* Whether its values are texts of a character set. */
bool has_text(const Field &field) {
  switch (field.real_type()) {
    case MYSQL_TYPE_STRING:
    case MYSQL_TYPE_VARCHAR:
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
      return field.charset() != &my_charset_bin;
    default:
      return false;
  }
}

Field *column_of_words(const TABLE *table) {
  for (Field **field = table->field; *field; field++)
    if (same_name((*field)->field_name, COLUMN)) return has_text(**field) ? *field : nullptr;
  return nullptr;
}

/* Opens the table, and gives its column to `use`. */
bool with_column(THD *thd, const std::string &name, std::string *why,
                 const std::function<bool(TABLE *, Field *)> &use) {
  std::string database, table;
  if (!split_name(name, &database, &table)) {
    *why = "it is no name of the form database/table";
    return false;
  }
  Messages messages(thd);
  bool done = false;
  {
    start_new_trans transaction(thd);
    const PlainSelect select(thd);
    const LEX_CSTRING database_name{database.c_str(), database.size()};
    const LEX_CSTRING table_name{table.c_str(), table.size()};
    TABLE_LIST named;
    named.init_one_table(&database_name, &table_name, nullptr, TL_READ);
    named.open_type = OT_BASE_ONLY;
    named.required_type = TABLE_TYPE_NORMAL;
    DML_prelocking_strategy prelocking;
    if (!open_and_lock_tables(thd, DDL_options(), &named, false,
                              MYSQL_OPEN_IGNORE_FLUSH | MYSQL_OPEN_IGNORE_LOGGING_FORMAT, &prelocking)) {
      TABLE *const opened = named.table;
      opened->use_all_columns();
      if (Field *column = column_of_words(opened))
        done = use(opened, column);
      else
        *why = "the table has no column `value` of type CHAR, VARCHAR or TEXT";
      thd->commit_whole_transaction_and_close_tables();
    }
  }
  if (!done && why->empty()) *why = !messages.first.empty() ? messages.first : "the table cannot be read";
  return done;
}

using Words = std::set<std::string>;

bool is_past_bounds(const Words &words, size_t bytes) {
  return words.size() > MOST_STOPWORDS || bytes > MOST_STOPWORD_BYTES;
}

int read_words(THD *thd, TABLE *table, Field *column, Words *words, size_t *bytes) {
  handler *const file = table->file;
  int error = file->ha_rnd_init_with_error(true);
  if (error != 0) return error;
  for (ulonglong rows = 0; !is_past_bounds(*words, *bytes); rows++) {
    if (rows % ROWS_BETWEEN_LOOKS == 0 && thd_kill_level(thd) >= THD_ABORT_SOFTLY) {
      error = HA_ERR_ABORTED_BY_USER;
      break;
    }
    error = file->ha_rnd_next(table->record[0]);
    if (error == HA_ERR_RECORD_DELETED) continue;
    if (error != 0) break;
    if (column->is_null() || (table->versioned() && !table->vers_end_field()->is_max())) continue;
    String buffer, text;
    uint errors = 0;
    const String *const value = column->val_str(&buffer, &buffer);
    if (!value ||
        text.copy(value->ptr(), value->length(), value->charset(), &my_charset_utf8mb4_bin, &errors))
      continue;
    const std::string word(text.ptr(), text.length());
    /* No word of an index has such a byte. */
    if (word.empty() || errors != 0 || word.find('\0') != std::string::npos) continue;
    if (words->insert(word).second) *bytes += word.size() + 1;
  }
  file->ha_rnd_end();
  return error == HA_ERR_END_OF_FILE ? 0 : error;
}

}  // namespace

bool read_stopwords(THD *thd, const std::string &name, std::string *list, std::string *why) {
  list->clear();
  return with_column(thd, name, why, [&](TABLE *table, Field *column) {
    Words words;
    size_t bytes = 0;
    if (const int error = read_words(thd, table, column, &words, &bytes)) {
      table->file->print_error(error, MYF(0));
      return false;
    }
    if (is_past_bounds(words, bytes)) {
      *why = "the table has more than " + std::to_string(MOST_STOPWORDS) + " different words, or more than " +
             std::to_string(MOST_STOPWORD_BYTES) + " bytes of them";
      return false;
    }
    list->reserve(bytes);
    for (const std::string &word : words) list->append(word).push_back('\0');
    return true;
  });
}

bool has_stopwords(THD *thd, const std::string &name, std::string *why) {
  return with_column(thd, name, why, [](TABLE *, Field *) { return true; });
}

}  // namespace full_text
}  // namespace tidesdb

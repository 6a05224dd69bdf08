#include "search/stopword_table.h"

#include <functional>
#include <new>
#include <set>

#include "sql_base.h"
#include "sql_class.h"
#include "sql_lex.h"
#include "sql_parse.h"
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
  bool handle_condition(THD *, uint number, const char *, Sql_condition::enum_warning_level *level,
                        const char *message, Sql_condition **condition) override {
    *condition = nullptr;
    if (*level != Sql_condition::WARN_LEVEL_ERROR || first_number != 0) return true;
    first_number = number;
    try {
      first = message;
    } catch (const std::bad_alloc &) {
    }
    return true;
  }
  uint first_number = 0;
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
        locked_at_(thd->utime_after_lock),
        rollback_request_(thd->transaction_rollback_request) {
    thd->lex->reset_n_backup_query_tables_list(&tables_);
    thd->lex->sql_command = SQLCOM_SELECT;
    thd->variables.option_bits &= ~(OPTION_TABLE_LOCK | OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
    thd->tx_isolation = ISO_READ_COMMITTED;
  }
  ~PlainSelect() {
    thd_->transaction_rollback_request = rollback_request_;
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
  const bool rollback_request_;
  Query_tables_list tables_;
};

/* A table's metadata lock, in the transaction under way. In a cluster the server lets an applier go before
   others there, and not in the other transaction, which is none of the cluster's. */
class SharedLock {
 public:
  explicit SharedLock(THD *thd) : thd_(thd), before_(thd->mdl_context.mdl_savepoint()) {}
  ~SharedLock() { thd_->mdl_context.rollback_to_savepoint(before_); }
  bool lock(const std::string &database, const std::string &table) {
    MDL_request request;
    MDL_REQUEST_INIT(&request, MDL_key::TABLE, database.c_str(), table.c_str(), MDL_SHARED_READ,
                     MDL_TRANSACTION);
    return !thd_->mdl_context.acquire_lock(&request, static_cast<double>(thd_->variables.lock_wait_timeout));
  }

 private:
  THD *const thd_;
  const MDL_savepoint before_;
};

/* Calls `end` at the end of a block, also by an exception. */
template <class End>
class AtEnd {
 public:
  explicit AtEnd(End end) : end_(end) {}
  AtEnd(const AtEnd &) = delete;
  ~AtEnd() { end_(); }

 private:
  const End end_;
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

using Use = std::function<bool(TABLE *, Field *)>;

/* In a transaction of its own. */
bool open_and_use(THD *thd, const std::string &database, const std::string &table, bool as_user,
                  std::string *why, const Use &use) {
  const start_new_trans transaction(thd);
  const PlainSelect select(thd);
  const LEX_CSTRING database_name{database.c_str(), database.size()};
  const LEX_CSTRING table_name{table.c_str(), table.size()};
  TABLE_LIST named;
  named.init_one_table(&database_name, &table_name, nullptr, TL_READ);
  named.open_type = OT_BASE_ONLY;
  named.required_type = TABLE_TYPE_NORMAL;
  if (as_user && check_table_access(thd, SELECT_ACL, &named, false, UINT_MAX, false)) return false;
  DML_prelocking_strategy prelocking;
  if (open_and_lock_tables(thd, DDL_options(), &named, false,
                           MYSQL_OPEN_IGNORE_FLUSH | MYSQL_OPEN_IGNORE_LOGGING_FORMAT, &prelocking))
    return false;
  const AtEnd close([thd] { thd->commit_whole_transaction_and_close_tables(); });
  TABLE *const opened = named.table;
  opened->use_all_columns();
  if (Field *column = column_of_words(opened)) return use(opened, column);
  *why = "the table has no column `value` of type CHAR, VARCHAR or TEXT";
  return false;
}

/* Errors of the statement that say nothing of the table. */
bool goes_to_client(uint number) {
  return number == ER_LOCK_WAIT_TIMEOUT || number == ER_LOCK_DEADLOCK || number == ER_QUERY_INTERRUPTED;
}

/* Opens the table, and gives its column to `use`. */
bool with_column(THD *thd, const std::string &name, bool as_user, std::string *why, uint *code,
                 const Use &use) {
  *code = 0;
  Messages messages(thd);
  try {
    std::string database, table;
    if (!split_name(name, &database, &table)) {
      *why = "it is no name of the form database/table";
      return false;
    }
    SharedLock shared(thd);
    if (shared.lock(database, table) && open_and_use(thd, database, table, as_user, why, use)) return true;
    if (why->empty()) *why = !messages.first.empty() ? messages.first : "the table cannot be read";
    if (thd_kill_level(thd) >= THD_ABORT_SOFTLY)
      *code = ER_QUERY_INTERRUPTED;
    else if (goes_to_client(messages.first_number))
      *code = messages.first_number;
  } catch (const std::bad_alloc &) {
    *why = "out of memory";
  }
  return false;
}

using Words = std::set<std::string>;

bool is_past_bounds(const Words &words, size_t bytes) {
  return words.size() > MOST_STOPWORDS || bytes > MOST_STOPWORD_BYTES;
}

int read_words(THD *thd, TABLE *table, Field *column, Words *words, size_t *bytes) {
  handler *const file = table->file;
  int error = file->ha_rnd_init_with_error(true);
  if (error != 0) return error;
  const AtEnd end([file] { file->ha_rnd_end(); });
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
  return error == HA_ERR_END_OF_FILE ? 0 : error;
}

}  // namespace

bool read_stopwords(THD *thd, const std::string &name, std::string *list, std::string *why, uint *code) {
  list->clear();
  return with_column(thd, name, false, why, code, [&](TABLE *table, Field *column) {
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

bool has_stopwords(THD *thd, const std::string &name, std::string *why, uint *code) {
  return with_column(thd, name, true, why, code, [](TABLE *, Field *) { return true; });
}

}  // namespace full_text
}  // namespace tidesdb

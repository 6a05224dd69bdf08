#include "search/variables.h"

#include <mysql/plugin.h>

#include <iterator>
#include <mutex>

#include "key/sql_headers.h"

#include "log.h"
#include "set_var.h"
#include "sql_class.h"

#include "search/conditions.h"
#include "search/stopword_table.h"
#include "search/words.h"
#include "txn/session.h"

namespace tidesdb {
namespace full_text {

namespace {

constexpr ulonglong MOST_CHARACTERS = 84;
/* Bytes of the characters that blend. */
constexpr size_t MOST_BLEND = 255;

ulonglong opt_min_word_len, opt_max_word_len;
ulonglong opt_ngram_token_size;
double opt_bm25_k1, opt_bm25_b;
char *opt_blend_chars, *opt_stopword_table;

/* Characters that are words' own, and spaces, blend nothing. */
bool can_blend(const char *text, size_t size) {
  if (size > MOST_BLEND) return false;
  CHARSET_INFO *utf8 = &my_charset_utf8mb4_bin;
  const WordRules rules(utf8, FullTextSettings());
  const uchar *at = reinterpret_cast<const uchar *>(text), *const end = at + size;
  for (size_t bytes; at < end; at += bytes) {
    my_wc_t character;
    if (*at <= ' ' || utf8->cset->mb_wc(utf8, &character, at, end) <= 0 ||
        rules.kind_of(at, end, &bytes) != WordRules::Kind::OTHER)
      return false;
  }
  return true;
}

constexpr char WRONG_BLEND[] =
    "TidesDB: tidesdb_fts_blend_chars='%s': at most %zu bytes of characters that are neither letters, "
    "digits, '_' nor "
    "spaces";

int check_blend_chars(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  char buffer[MOST_BLEND + 1];
  int length = sizeof(buffer);
  const char *wanted = value->val_str(value, buffer, &length);
  if (!wanted) {
    my_error(ER_WRONG_VALUE_FOR_VAR, MYF(0), "tidesdb_fts_blend_chars", "NULL");
    return 1;
  }
  if (!can_blend(wanted, static_cast<size_t>(length))) {
    my_printf_error(ER_WRONG_VALUE_FOR_VAR, WRONG_BLEND, MYF(0), wanted, MOST_BLEND);
    return 1;
  }
  *static_cast<const char **>(save) = thd->strmake(wanted, static_cast<size_t>(length));
  return 0;
}

std::string stopword_table_refusal(const std::string &table, const std::string &why) {
  return "TidesDB: tidesdb_ft_stopword_table='" + table + "': " + why;
}

/* Later the table may be another, or none: it is read when an index is made. */
int check_stopword_table(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  char buffer[2 * NAME_LEN + 2];
  int length = sizeof(buffer);
  const char *wanted = value->val_str(value, buffer, &length);
  try {
    const std::string table = wanted ? std::string(wanted, static_cast<size_t>(length)) : std::string();
    std::string why;
    uint code = 0;
    if (!table.empty() && !has_stopwords(thd, table, &why, &code)) {
      Refusal{code != 0 ? code : ER_WRONG_VALUE_FOR_VAR, stopword_table_refusal(table, why)}.tell();
      return 1;
    }
    *static_cast<const char **>(save) = thd->strmake(table.data(), table.size());
    return 0;
  } catch (const std::bad_alloc &) {
    my_error(ER_OUT_OF_RESOURCES, MYF(0));
    return 1;
  }
}

}  // namespace

static MYSQL_SYSVAR_ULONGLONG(fts_min_word_len, opt_min_word_len, PLUGIN_VAR_RQCMDARG,
                              "Characters of the shortest word in FULLTEXT indexes that are made from now on",
                              nullptr, nullptr, 3, 1, MOST_CHARACTERS, 0);
static MYSQL_SYSVAR_ULONGLONG(fts_max_word_len, opt_max_word_len, PLUGIN_VAR_RQCMDARG,
                              "Characters of the longest word in FULLTEXT indexes that are made from now on",
                              nullptr, nullptr, MOST_CHARACTERS, 1, MOST_CHARACTERS, 0);
static MYSQL_SYSVAR_DOUBLE(fts_bm25_k1, opt_bm25_k1, PLUGIN_VAR_RQCMDARG,
                           "How much a word's repetition in a row adds to its score (BM25's k1)", nullptr,
                           nullptr, 1.2, 0, 1000, 0);
static MYSQL_SYSVAR_DOUBLE(fts_bm25_b, opt_bm25_b, PLUGIN_VAR_RQCMDARG,
                           "How much a row's length lowers its score, from 0 to 1 (BM25's b)", nullptr,
                           nullptr, 0.75, 0, 1, 0);
static MYSQL_SYSVAR_STR(
    fts_blend_chars, opt_blend_chars, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
    "Characters that join words: a word with one of them stands in FULLTEXT indexes that are "
    "made from now on whole and in its parts",
    check_blend_chars, nullptr, "");
static MYSQL_SYSVAR_STR(
    ft_stopword_table, opt_stopword_table, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
    "Table (database/table) with a column `value` of words that FULLTEXT indexes that are made from now on "
    "leave out; empty: InnoDB's list",
    check_stopword_table, nullptr, "");
static MYSQL_SYSVAR_ULONGLONG(ngram_token_size, opt_ngram_token_size, PLUGIN_VAR_RQCMDARG,
                              "Characters of the ngrams of FULLTEXT indexes WITH PARSER ngram that are made "
                              "from now on",
                              nullptr, nullptr, 2, LEAST_NGRAM, MOST_NGRAM, 0);

namespace {

st_mysql_sys_var *const all[] = {
    MYSQL_SYSVAR(fts_min_word_len), MYSQL_SYSVAR(fts_max_word_len), MYSQL_SYSVAR(fts_bm25_k1),
    MYSQL_SYSVAR(fts_bm25_b),       MYSQL_SYSVAR(fts_blend_chars),  MYSQL_SYSVAR(ft_stopword_table),
    MYSQL_SYSVAR(ngram_token_size),
};
static_assert(std::size(all) == VARIABLES);

}  // namespace

struct st_mysql_sys_var *variable(size_t number) {
  return all[number];
}

bool refuse_variables() {
  if (!opt_blend_chars || can_blend(opt_blend_chars, strlen(opt_blend_chars))) return false;
  sql_print_error(WRONG_BLEND, opt_blend_chars, MOST_BLEND);
  return true;
}

namespace {

std::string value_of(char *const &variable) {
  mysql_mutex_lock(&LOCK_global_system_variables);
  const std::string value = variable ? variable : "";
  mysql_mutex_unlock(&LOCK_global_system_variables);
  return value;
}

/* Read once for a statement: an ALTER plans twice, and each partition does. */
bool take_stopwords(THD *thd, const std::string &table, FullTextSettings *settings, Refusal *refusal) {
  Session *session = Session::get(thd);
  if (!session) {
    *refusal = {ER_UNKNOWN_ERROR, stopword_table_refusal(table, "out of memory")};
    return false;
  }
  Session::StopwordTable &read = session->stopword_table();
  if (read.statement != thd->query_id || read.name != table) {
    std::string list, why;
    uint code = 0;
    if (!read_stopwords(thd, table, &list, &why, &code)) {
      *refusal = {code != 0 ? code : ER_UNKNOWN_ERROR, stopword_table_refusal(table, why)};
      return false;
    }
    read = {thd->query_id, table, std::move(list)};
  }
  settings->stopwords = read.list.empty() ? Stopwords::NONE : Stopwords::OWN;
  settings->stopword_list = read.list;
  return true;
}

}  // namespace

void Refusal::tell() const {
  /* As the server's own victims do. */
  if (code == ER_LOCK_DEADLOCK) current_thd->mark_transaction_to_rollback(true);
  if (code == ER_CHECK_NOT_IMPLEMENTED)
    my_error(code, MYF(0), text.c_str());
  else
    my_printf_error(code, "%s", MYF(0), text.c_str());
}

bool settings_of_new(THD *thd, const LEX_CSTRING &index, const std::string &parser,
                     FullTextSettings *settings, Refusal *refusal) {
  *settings = FullTextSettings();
  settings->parser = parser;
  const std::string name = "the FULLTEXT index `" + std::string(index.str, index.length) + "`";
  const std::string table = value_of(opt_stopword_table);
  if (settings->cuts_ngrams()) {
    settings->least_characters = settings->most_characters = static_cast<uint8_t>(opt_ngram_token_size);
    /* Of InnoDB's list "a" and "i" alone would leave little of a text in Latin letters. */
    if (table.empty()) settings->stopwords = Stopwords::NONE;
  } else if (!parser.empty()) {
    *refusal = {ER_CHECK_NOT_IMPLEMENTED,
                "WITH PARSER " + parser + " of " + name + " (" + NGRAM_PARSER + " is the one that it takes)"};
    return false;
  } else {
    settings->least_characters = static_cast<uint8_t>(opt_min_word_len);
    settings->most_characters = static_cast<uint8_t>(opt_max_word_len);
    settings->blend = value_of(opt_blend_chars);
    if (settings->least_characters > settings->most_characters) {
      *refusal = {ER_CHECK_NOT_IMPLEMENTED,
                  name + " (tidesdb_fts_min_word_len is above tidesdb_fts_max_word_len)"};
      return false;
    }
  }
  return table.empty() || take_stopwords(thd, table, settings, refusal);
}

Bm25 scoring() {
  Bm25 scoring;
  scoring.k1 = opt_bm25_k1;
  scoring.b = opt_bm25_b;
  return scoring;
}

}  // namespace full_text
}  // namespace tidesdb

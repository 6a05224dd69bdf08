#include "search/ngram_parser.h"

#include <mysql/plugin.h>
#include <mysql/plugin_ftparser.h>

#include "sql_class.h"
#include "sql_plugin.h"

#include "search/settings.h"
#include "search/words.h"

namespace tidesdb {
namespace full_text {

namespace {

using Param = MYSQL_FTPARSER_PARAM;
using Info = MYSQL_FTPARSER_BOOLEAN_INFO;
using AddWord = int (*)(Param *, const char *, int, Info *);

ulonglong opt_token_size;

FullTextSettings settings() {
  FullTextSettings settings;
  settings.parser = NGRAM_PARSER;
  settings.least_characters = settings.most_characters = static_cast<uint8_t>(opt_token_size);
  return settings;
}

const Info WORD = {FT_TOKEN_WORD, 0, 0, 0, 0, ' ', nullptr};
const Info REQUIRED_WORD = {FT_TOKEN_WORD, 1, 0, 0, 0, ' ', nullptr};

struct Parsing {
  WordRules rules;
  AddWord add_word;
  /* Parentheses that are open, from one with `-` on. */
  uint excluding = 0;

  /* Ngrams of a text. `whole`: a text that is shorter than they are is one. */
  int add_ngrams(Param *param, Slice text, bool whole, const Info &like) const {
    int error = 0;
    bool is_any = false;
    const auto add = [&](Slice word) {
      Info info = like;
      if (error == 0)
        error =
            add_word(param, reinterpret_cast<const char *>(word.data), static_cast<int>(word.size), &info);
    };
    rules.for_each(text, 0, [&](const WordRules::Word &word) {
      is_any = true;
      add(word.text);
    });
    if (whole && !is_any) rules.for_each_run(text, [&](Slice run, size_t) { add(run); });
    return error;
  }

  /* A row has to have all ngrams of a query's word: InnoDB loses rows of a phrase. A word that no row may
     have is a phrase, so that rows with all ngrams and without the word stay. */
  int add_term(Param *param, Slice word, const Info &like) const {
    size_t ngrams = 0;
    rules.for_each(word, 0, [&](const WordRules::Word &) { ngrams++; });
    if (ngrams == 0) return add_beginning(param, word, like);
    Info around = like;
    around.trunc = 0;
    if (ngrams == 1) return add_ngrams(param, word, false, around);
    around.type = FT_TOKEN_LEFT_PAREN;
    around.quot = excluding != 0 || like.yesno < 0 ? reinterpret_cast<char *>(1) : nullptr;
    int error = add_word(param, nullptr, 0, &around);
    if (error == 0) error = add_ngrams(param, word, false, REQUIRED_WORD);
    around.type = FT_TOKEN_RIGHT_PAREN;
    return error == 0 ? add_word(param, nullptr, 0, &around) : error;
  }

  /* A word without ngrams: with `*` its last run is the beginning of some, else it is left out. */
  int add_beginning(Param *param, Slice word, const Info &like) const {
    Slice last{};
    rules.for_each_run(word, [&](Slice run, size_t) { last = run; });
    if (!like.trunc || last.size == 0 || last.data + last.size != word.data + word.size) return 0;
    Info info = like;
    return add_word(param, reinterpret_cast<const char *>(last.data), static_cast<int>(last.size), &info);
  }
};

/* The engine's own parser reads the operators, and calls this for each word. */
int add_word_of_query(Param *param, const char *word, int size, Info *info) {
  Parsing &parsing = *static_cast<Parsing *>(param->ftparser_state);
  if (info->type != FT_TOKEN_WORD && info->type != FT_TOKEN_STOPWORD) {
    if (info->type == FT_TOKEN_LEFT_PAREN && (parsing.excluding != 0 || info->yesno < 0)) parsing.excluding++;
    if (info->type == FT_TOKEN_RIGHT_PAREN && parsing.excluding != 0) parsing.excluding--;
    return parsing.add_word(param, word, size, info);
  }
  info->type = FT_TOKEN_WORD;
  const Slice text{reinterpret_cast<const uchar *>(word), static_cast<size_t>(size)};
  return info->quot ? parsing.add_ngrams(param, text, true, *info) : parsing.add_term(param, text, *info);
}

int parse(Param *param) {
  try {
    Parsing parsing{WordRules(const_cast<CHARSET_INFO *>(param->cs), settings()), param->mysql_add_word};
    if (param->mode != MYSQL_FTPARSER_FULL_BOOLEAN_INFO)
      return parsing.add_ngrams(
          param, {reinterpret_cast<const uchar *>(param->doc), static_cast<size_t>(param->length)},
          param->mode == MYSQL_FTPARSER_WITH_STOPWORDS, WORD);
    void *const state = param->ftparser_state;
    param->ftparser_state = &parsing;
    param->mysql_add_word = add_word_of_query;
    const int error = param->mysql_parse(param, param->doc, param->length);
    param->mysql_add_word = parsing.add_word;
    param->ftparser_state = state;
    return error;
  } catch (const std::bad_alloc &) {
    return 1;
  }
}

}  // namespace

struct st_mysql_ftparser ngram_parser = {MYSQL_FTPARSER_INTERFACE_VERSION, parse, nullptr, nullptr};

static MYSQL_SYSVAR_ULONGLONG(
    token_size, opt_token_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "Characters of the ngrams of FULLTEXT indexes WITH PARSER ngram of engines other "
    "than TidesDB, whose indexes keep tidesdb_ngram_token_size",
    nullptr, nullptr, 2, LEAST_NGRAM, MOST_NGRAM, 0);
struct st_mysql_sys_var *ngram_variables[] = {MYSQL_SYSVAR(token_size), nullptr};

std::string parser_of(const KEY &key) {
  if (!key.parser) return "";
  if (plugin_decl(key.parser)->info == &ngram_parser) return NGRAM_PARSER;
  const LEX_CSTRING &name = *plugin_name(key.parser);
  return "`" + std::string(name.str, name.length) + "`";
}

}  // namespace full_text
}  // namespace tidesdb

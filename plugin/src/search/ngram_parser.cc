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
const Info WORD_OF_PHRASE = {FT_TOKEN_WORD, 1, 0, 0, 0, ' ', nullptr};

struct Parsing {
  WordRules rules;
  AddWord add_word;

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

  /* A word of a query is the phrase of its ngrams; a shorter one with `*` stays. */
  int add_term(Param *param, Slice word, Info *info) const {
    size_t characters = 0;
    rules.for_each_run(word, [&](Slice, size_t of_run) { characters += of_run; });
    if (characters <= rules.ngram())
      return add_word(param, reinterpret_cast<const char *>(word.data), static_cast<int>(word.size), info);
    Info around = *info;
    around.type = FT_TOKEN_LEFT_PAREN;
    around.trunc = 0;
    around.quot = reinterpret_cast<char *>(1);
    int error = add_word(param, nullptr, 0, &around);
    if (error == 0) error = add_ngrams(param, word, false, WORD_OF_PHRASE);
    around.type = FT_TOKEN_RIGHT_PAREN;
    return error == 0 ? add_word(param, nullptr, 0, &around) : error;
  }
};

/* The engine's own parser reads the operators, and calls this for each word. */
int add_word_of_query(Param *param, const char *word, int size, Info *info) {
  const Parsing &parsing = *static_cast<const Parsing *>(param->ftparser_state);
  if (info->type != FT_TOKEN_WORD && info->type != FT_TOKEN_STOPWORD)
    return parsing.add_word(param, word, size, info);
  info->type = FT_TOKEN_WORD;
  const Slice text{reinterpret_cast<const uchar *>(word), static_cast<size_t>(size)};
  return info->quot ? parsing.add_ngrams(param, text, true, *info) : parsing.add_term(param, text, info);
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

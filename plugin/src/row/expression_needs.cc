#include "row/expression_needs.h"

#include <cctype>
#include <map>

namespace tidesdb {

namespace {

/* What a word says of its expression. */
enum WordKind : uint32_t {
  PLAIN = 0,
  DATE_WORD = 1,        /* reads a date, or makes one */
  TIME_WORD = 2,        /* reads a time of day, or makes one; of a date as well */
  ZONE_WORD = 4,        /* goes from or to seconds since 1970 */
  PATTERN_WORD = 8,     /* a regular expression */
  COLLATION_WORD = 16,  /* may take a character set's default collation */
  TEXT_CHECK_WORD = 32, /* looks whether bytes are text */
  GROWING_WORD = 64,    /* its text may be longer than its arguments */
  NAME_FOLLOWS = 128,   /* of a character set or collation */
  MAKES_TIME = 256,     /* its value may be a TIME */
  MIXES = 512           /* compares values of several types, or takes one of them */
};

const std::map<std::string, uint32_t> &words() {
  static const std::map<std::string, uint32_t> known = [] {
    std::map<std::string, uint32_t> all;
    const auto add = [&all](uint32_t kind, std::initializer_list<const char *> list) {
      for (const char *word : list) all[word] |= kind;
    };
    add(PLAIN, {"and",
                "or",
                "xor",
                "not",
                "is",
                "null",
                "true",
                "false",
                "unknown",
                "between",
                "in",
                "like",
                "escape",
                "case",
                "when",
                "then",
                "else",
                "end",
                "as",
                "if",
                "ifnull",
                "nullif",
                "nvl",
                "nvl2",
                "coalesce",
                "least",
                "greatest",
                "decode",
                "decode_oracle",
                "div",
                "mod",
                "abs",
                "ceiling",
                "ceil",
                "floor",
                "round",
                "truncate",
                "sign",
                "sqrt",
                "pow",
                "power",
                "exp",
                "ln",
                "log",
                "log2",
                "log10",
                "sin",
                "cos",
                "tan",
                "cot",
                "asin",
                "acos",
                "atan",
                "atan2",
                "degrees",
                "radians",
                "pi",
                "crc32",
                "crc32c",
                "bit_count",
                "conv",
                "bin",
                "oct",
                "ascii",
                "ord",
                "char_length",
                "character_length",
                "length",
                "octet_length",
                "bit_length",
                "lower",
                "upper",
                "lcase",
                "ucase",
                "trim",
                "ltrim",
                "rtrim",
                "leading",
                "trailing",
                "both",
                "from",
                "left",
                "right",
                "mid",
                "substr",
                "substring",
                "substring_index",
                "locate",
                "instr",
                "position",
                "find_in_set",
                "field",
                "elt",
                "reverse",
                "soundex",
                "md5",
                "sha",
                "sha1",
                "sha2",
                "strcmp",
                "signed",
                "unsigned",
                "integer",
                "decimal",
                "double",
                "float",
                "for",
                "hash",
                "hash_mariadb_100403",
                "x",
                "b",
                "isnull",
                "inet_aton",
                "inet_ntoa",
                "inet6_aton",
                "inet6_ntoa",
                "is_ipv4",
                "is_ipv6",
                "uncompressed_length",
                "json_value",
                "json_query",
                "json_extract",
                "json_valid",
                "json_length",
                "json_depth",
                "json_type",
                "json_keys",
                "json_exists",
                "json_contains",
                "json_contains_path",
                "json_equals",
                "json_unquote",
                "json_search",
                "json_overlaps",
                "json_normalize"});
    add(GROWING_WORD, {"concat",
                       "concat_ws",
                       "concat_operator_oracle",
                       "repeat",
                       "space",
                       "lpad",
                       "rpad",
                       "replace",
                       "insert",
                       "make_set",
                       "export_set",
                       "hex",
                       "unhex",
                       "quote",
                       "to_base64",
                       "from_base64",
                       "format",
                       "compress",
                       "uncompress",
                       "json_array",
                       "json_object",
                       "json_array_append",
                       "json_array_insert",
                       "json_insert",
                       "json_replace",
                       "json_set",
                       "json_merge",
                       "json_merge_patch",
                       "json_merge_preserve",
                       "json_remove",
                       "json_compact",
                       "json_detailed",
                       "json_pretty",
                       "json_loose",
                       "json_quote",
                       "binary"});
    add(GROWING_WORD | COLLATION_WORD | TEXT_CHECK_WORD, {"cast", "convert", "char", "nchar", "varchar"});
    add(NAME_FOLLOWS | COLLATION_WORD | TEXT_CHECK_WORD, {"charset", "using", "collate"});
    add(PATTERN_WORD | GROWING_WORD, {"regexp", "rlike", "regexp_replace", "regexp_instr", "regexp_substr"});
    add(MIXES, {"between", "in", "if", "ifnull", "nullif", "nvl", "nvl2", "coalesce", "least", "greatest",
                "decode", "decode_oracle", "case"});
    add(TIME_WORD, {"hour", "minute", "second", "microsecond", "time_to_sec", "time_format"});
    add(TIME_WORD | MAKES_TIME,
        {"time", "sec_to_time", "maketime", "timediff", "addtime", "subtime", "str_to_date"});
    add(DATE_WORD, {"date",
                    "datetime",
                    "year",
                    "month",
                    "day",
                    "dayofmonth",
                    "dayofweek",
                    "dayofyear",
                    "weekday",
                    "week",
                    "yearweek",
                    "quarter",
                    "to_days",
                    "to_seconds",
                    "from_days",
                    "last_day",
                    "makedate",
                    "datediff",
                    "timestampdiff",
                    "timestampadd",
                    "timestamp",
                    "date_add",
                    "date_sub",
                    "adddate",
                    "subdate",
                    "str_to_date",
                    "date_format",
                    "extract",
                    "interval",
                    "period_add",
                    "period_diff",
                    "add_months",
                    "day_hour",
                    "day_minute",
                    "day_second",
                    "day_microsecond",
                    "hour_minute",
                    "hour_second",
                    "hour_microsecond",
                    "minute_second",
                    "minute_microsecond",
                    "second_microsecond",
                    "year_month"});
    add(DATE_WORD | ZONE_WORD, {"from_unixtime", "unix_timestamp", "convert_tz"});
    return all;
  }();
  return known;
}

/* Where the quoted text that begins at `from` ends, after its closing mark. */
size_t end_of_quoted(const std::string &text, size_t from) {
  const char mark = text[from];
  for (size_t at = from + 1; at < text.size(); at++) {
    if (text[at] == '\\' && mark != '`') {
      at++;
    } else if (text[at] == mark) {
      if (at + 1 >= text.size() || text[at + 1] != mark) return at + 1;
      at++;
    }
  }
  return text.size();
}

bool is_of_word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

struct Found {
  uint32_t kinds = 0;
  bool subtracts = false, divides = false, has_unknown = false;
};

Found look(const std::string &text) {
  Found found;
  bool is_name = false;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '`' || c == '\'' || c == '"') {
      at = end_of_quoted(text, at);
      is_name = false;
    } else if (is_of_word(c)) {
      const size_t from = at;
      while (at < text.size() && is_of_word(text[at])) at++;
      std::string word = text.substr(from, at - from);
      for (char &letter : word) letter = static_cast<char>(tolower(static_cast<unsigned char>(letter)));
      const bool was_name = is_name;
      is_name = false;
      if (was_name || isdigit(static_cast<unsigned char>(word[0]))) continue;
      if (word[0] == '_') { /* the character set of a literal */
        found.kinds |= COLLATION_WORD;
        continue;
      }
      const auto known = words().find(word);
      if (known == words().end()) {
        found.has_unknown = true;
        continue;
      }
      found.kinds |= known->second;
      is_name = known->second & NAME_FOLLOWS;
    } else {
      found.subtracts = found.subtracts || c == '-';
      found.divides = found.divides || c == '/';
      if (c == '<' || c == '>' || c == '=') found.kinds |= MIXES;
      at++;
    }
  }
  return found;
}

}  // namespace

uint32_t needs_of_expression(const std::string &text, uint32_t columns) {
  const Found found = look(text);
  if (found.has_unknown) return NEEDS_ALL;
  constexpr uint32_t READ_DATES = DATE_COLUMN | TIMESTAMP_COLUMN;
  uint32_t needs = 0;
  if ((found.kinds & (DATE_WORD | TIME_WORD)) ||
      (columns & (READ_DATES | COMPUTED_DATE_COLUMN | TIME_COLUMN)))
    needs |= NEEDS_DATE_MODES;
  const bool has_time = (found.kinds & MAKES_TIME) || (columns & TIME_COLUMN);
  const bool asks_date = (found.kinds & DATE_WORD) || (columns & COMPUTED_DATE_COLUMN) ||
                         ((columns & READ_DATES) && (found.kinds & MIXES));
  if (has_time && asks_date) needs |= NEEDS_DAY;
  if ((needs & NEEDS_DATE_MODES) && (found.kinds & MIXES)) needs |= NEEDS_OPENING;
  if ((found.kinds & ZONE_WORD) || (columns & TIMESTAMP_COLUMN)) needs |= NEEDS_ZONE;
  if (columns & CHAR_COLUMN) needs |= NEEDS_PADDING;
  if (found.subtracts) needs |= NEEDS_SUBTRACTION;
  if (found.divides) needs |= NEEDS_DIVISION;
  if (found.kinds & PATTERN_WORD) needs |= NEEDS_PATTERNS;
  if (found.kinds & COLLATION_WORD) needs |= NEEDS_COLLATIONS;
  if (found.kinds & TEXT_CHECK_WORD) needs |= NEEDS_STRICTNESS;
  const bool repeats = text.find("repeat(") != std::string::npos ||
                       text.find("space(") != std::string::npos || text.find("pad(") != std::string::npos;
  if ((found.kinds & GROWING_WORD) && (repeats || (columns & LARGE_COLUMN))) needs |= NEEDS_PACKET;
  return needs;
}

}  // namespace tidesdb

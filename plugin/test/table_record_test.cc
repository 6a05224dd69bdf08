/*
  The dictionary record of a table, without a server: `make test-table-record`. A record that is written is
  read as it was, each of its parts with and without the others, and none that is cut is read. A row of a
  layout that the record does not explain is refused by its number.
*/
#include "ddl/table_record.h"

#include <cstdio>
#include <cstdlib>

#include "row/virtual_columns.h"
#include "search/ngram_parser.h"
#include "search/variables.h"

using namespace tidesdb;

namespace tidesdb {
/* Of an open table; not called. */
bool has_virtual_part(const TABLE *, const KEY &) { return false; }
ExpressionSettings ExpressionSettings::of(THD *, uint32_t) { return {}; }
namespace full_text {
bool settings_of_new(THD *, const LEX_CSTRING &, const std::string &, FullTextSettings *, Refusal *) {
  return false;
}
void Refusal::tell() const {}
std::string parser_of(const KEY &) { return ""; }
}  // namespace full_text
}  // namespace tidesdb

namespace {

#define CHECK(what)                                                      \
  do {                                                                   \
    if (!(what)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      exit(1);                                                           \
    }                                                                    \
  } while (false)

constexpr size_t FLAGS = 1; /* place of the byte */
constexpr uint8_t EXPRESSIONS = 8;

/* Of the last index: id, rule, least and most characters, stopwords, blend's size, blend. */
constexpr char BLEND[] = "-\xc3\xa9";
constexpr size_t BLEND_SIZE = sizeof(BLEND) - 1, FULL_TEXT_SIZE = 4 + 1 + 1 + 1 + 1 + 2 + BLEND_SIZE;
constexpr size_t RULE_FROM_END = FULL_TEXT_SIZE - 4, STOPWORDS_FROM_END = FULL_TEXT_SIZE - 7;

/* After them with a parser and stopwords of its own: their sizes, and they. */
const std::string STOPWORDS("of\0the\0", 7);
constexpr size_t WORDS_OF_ITS_OWN_SIZE = FULL_TEXT_SIZE + 2 + sizeof(NGRAM_PARSER) - 1 + 2 + 7;

enum Part : uint {
  DROPPED_KEYS = 1,
  SETTINGS = 2,
  EXPRESSIONS_KNOWN = 4,
  DEFINITION_KNOWN = 8,
  FULL_TEXT = 16,
  WORDS_OF_ITS_OWN = 32, /* with FULL_TEXT: parser and stopwords */
  ALL_PARTS = 63
};

TableRecord record_with(uint parts) {
  TableRecord record;
  record.table_id = 7;
  record.definition = std::string("0123456789abcde\0", 16);
  for (const char *name : {"id", "v"}) {
    ColumnRecord column;
    column.name = name;
    record.columns.push_back(column);
    record.history.column_ids.push_back(record.history.next_column_id++);
  }
  if (parts & DROPPED_KEYS) {
    ForeignKeyRecord key;
    key.name = "gone";
    record.dropped_keys.push_back(key);
  }
  for (uint32_t id = 1; id <= 3; id++) {
    IndexRecord index;
    index.id = id;
    index.name = "k" + std::to_string(id);
    index.rows_per_key = {100 * id};
    index.has_settings = (parts & SETTINGS) && id != 2;
    if (index.has_settings) index.settings.collations = "utf8mb4=utf8mb4_bin";
    if (index.has_settings && (parts & EXPRESSIONS_KNOWN) && id == 3) index.expressions = ~0ULL - 7;
    index.is_full_text = (parts & FULL_TEXT) && id == 2;
    if (index.is_full_text) {
      index.full_text.least_characters = 2;
      index.full_text.most_characters = 84;
      index.full_text.stopwords = Stopwords::NONE;
      index.full_text.blend = BLEND;
    }
    if (index.is_full_text && (parts & WORDS_OF_ITS_OWN)) {
      index.full_text.most_characters = 2;
      index.full_text.stopwords = Stopwords::OWN;
      index.full_text.parser = NGRAM_PARSER;
      index.full_text.stopword_list = STOPWORDS;
    }
    record.indexes.push_back(index);
  }
  if ((parts & SETTINGS) && (parts & EXPRESSIONS_KNOWN) && (parts & DEFINITION_KNOWN))
    record.expressions_of = std::string("\0fedcba987654321", 16);
  return record;
}

void a_record_is_read_as_it_was_written(uint parts) {
  const TableRecord record = record_with(parts);
  const std::vector<uint8_t> bytes = record.encode();
  TableRecord read;
  CHECK(read.decode(bytes));
  CHECK(read.encode() == bytes);
  CHECK(read.expressions_of == record.expressions_of);
  for (size_t i = 0; i < record.indexes.size(); i++) {
    CHECK(read.indexes[i].expressions == record.indexes[i].expressions);
    CHECK(read.indexes[i].has_settings == record.indexes[i].has_settings);
    CHECK(read.indexes[i].is_full_text == record.indexes[i].is_full_text);
    CHECK(read.indexes[i].full_text == record.indexes[i].full_text);
    CHECK(!read.indexes[i].is_stale);
  }
  for (size_t size = 0; size < bytes.size(); size++)
    CHECK(!read.decode(std::vector<uint8_t>(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size))));
}

/* A build that does not know them sees bytes after the end; one without them is the same as before. */
void the_flag_tells_of_expressions() {
  const uint parts = ALL_PARTS & ~(FULL_TEXT | WORDS_OF_ITS_OWN);
  std::vector<uint8_t> with = record_with(parts).encode();
  const std::vector<uint8_t> without = record_with(parts & ~EXPRESSIONS_KNOWN).encode();
  CHECK((with[FLAGS] & EXPRESSIONS) && !(without[FLAGS] & EXPRESSIONS));
  CHECK(with.size() == without.size() + 2 + 16 + 2 + 4 + 8);
  with[FLAGS] &= static_cast<uint8_t>(~EXPRESSIONS);
  TableRecord read;
  CHECK(!read.decode(with));
}

/* A build without full text, or without parsers, refuses the version; one without it is the same as before.
 */
void full_text_has_a_version_of_its_own() {
  for (uint parts = 0; parts <= ALL_PARTS; parts++) {
    const bool has = parts & FULL_TEXT;
    const uint8_t version = record_with(parts).encode()[0];
    CHECK(has == (version >= 5));
    CHECK((has && (parts & WORDS_OF_ITS_OWN)) == (version == 6));
    CHECK(has || (version == 4) == ((parts & SETTINGS) != 0));
  }
}

void a_rule_of_words_that_is_not_known_is_refused() {
  for (const size_t from_end : {RULE_FROM_END, STOPWORDS_FROM_END}) {
    std::vector<uint8_t> bytes = record_with(FULL_TEXT).encode();
    uint8_t &value = bytes[bytes.size() - from_end];
    CHECK(value == (from_end == RULE_FROM_END ? FULL_TEXT_RULE : static_cast<uint8_t>(Stopwords::NONE)));
    value = 2;
    CHECK(!TableRecord().decode(bytes));
    value = 1;
    CHECK(TableRecord().decode(bytes));
  }
}

void a_parser_or_stopwords_that_do_not_fit_are_refused() {
  const auto is_read = [](void (*change)(FullTextSettings *)) {
    TableRecord record = record_with(FULL_TEXT | WORDS_OF_ITS_OWN);
    change(&record.indexes[1].full_text);
    return TableRecord().decode(record.encode());
  };
  CHECK(is_read([](FullTextSettings *) {}));
  CHECK(is_read([](FullTextSettings *settings) { settings->parser.clear(); }));
  CHECK(!is_read([](FullTextSettings *settings) { settings->parser = "ngrams"; }));
  CHECK(!is_read([](FullTextSettings *settings) { settings->most_characters = 3; }));
  CHECK(!is_read([](FullTextSettings *settings) {
    settings->least_characters = settings->most_characters = MOST_NGRAM + 1;
  }));
  CHECK(!is_read(
      [](FullTextSettings *settings) { settings->least_characters = settings->most_characters = 0; }));
  CHECK(!is_read([](FullTextSettings *settings) { settings->stopwords = Stopwords::INNODB; }));
  CHECK(!is_read([](FullTextSettings *settings) { settings->stopword_list.clear(); }));
  CHECK(!is_read([](FullTextSettings *settings) { settings->stopwords = static_cast<Stopwords>(3); }));
  /* As long as a list may be. */
  CHECK(is_read([](FullTextSettings *settings) {
    settings->stopword_list.assign(MOST_STOPWORD_BYTES - 1, 'x');
    settings->stopword_list.push_back('\0');
  }));
}

/* Each byte of the part in turn has each value: the record is refused, or read as it stands. */
void a_damaged_part_of_full_text_is_read_as_it_stands_or_refused(uint parts, size_t size) {
  const std::vector<uint8_t> whole = record_with(parts).encode();
  for (size_t at = whole.size() - size - 2; at < whole.size(); at++)
    for (uint value = 0; value <= 255; value++) {
      std::vector<uint8_t> bytes = whole;
      bytes[at] = static_cast<uint8_t>(value);
      TableRecord read;
      if (!read.decode(bytes) || !read.indexes[1].is_full_text) continue;
      CHECK(read.encode() == bytes);
    }
}

void what_is_stale_is_not_written() {
  TableRecord record = record_with(ALL_PARTS);
  const std::vector<uint8_t> before = record.encode();
  record.indexes[2].is_stale = true;
  CHECK(record.encode() == before);
}

void a_layout_that_the_record_does_not_explain_is_named() {
  RowHistory history;
  history.version = 3;
  history.older.resize(2);
  history.older[0].version = 1;
  history.older[1].version = 2;
  const auto refusal = [&](std::vector<uchar> row) {
    return unknown_layout({row.data(), row.size()}, history);
  };
  for (const uchar known : {1, 2, 3}) CHECK(refusal({known, 0}).empty());
  CHECK(refusal({}).empty());
  CHECK(refusal({0x80}).empty());
  /* In parts. */
  CHECK(refusal({0, 1, 3}).empty());
  CHECK(refusal({0}).empty());
  CHECK(refusal({0, 1, 4}).find("layout 4, ") != std::string::npos);
  CHECK(refusal({0, 2, 3}).find("form 2, ") != std::string::npos);
  CHECK(refusal({0, 2, 3}).find("a later release of TidesDB") != std::string::npos);
  CHECK(refusal({4, 0}).find("layout 4, ") != std::string::npos);
  CHECK(refusal({4, 0}).find("layouts 1 to 3") != std::string::npos);
}

}  // namespace

int main() {
  for (uint parts = 0; parts <= ALL_PARTS; parts++) a_record_is_read_as_it_was_written(parts);
  the_flag_tells_of_expressions();
  full_text_has_a_version_of_its_own();
  a_rule_of_words_that_is_not_known_is_refused();
  a_parser_or_stopwords_that_do_not_fit_are_refused();
  a_damaged_part_of_full_text_is_read_as_it_stands_or_refused(FULL_TEXT, FULL_TEXT_SIZE);
  a_damaged_part_of_full_text_is_read_as_it_stands_or_refused(FULL_TEXT | WORDS_OF_ITS_OWN,
                                                              WORDS_OF_ITS_OWN_SIZE);
  what_is_stale_is_not_written();
  a_layout_that_the_record_does_not_explain_is_named();
  return 0;
}

/*
  The dictionary record of a table, without a server: `make test-table-record`. A record that is written is
  read as it was, each of its parts with and without the others, and none that is cut is read. A row of a
  layout that the record does not explain is refused by its number.
*/
#include "ddl/table_record.h"

#include <cstdio>
#include <cstdlib>

#include "row/virtual_columns.h"

using namespace tidesdb;

namespace tidesdb {
/* Of an open table; not called. */
bool has_virtual_part(const TABLE *, const KEY &) { return false; }
ExpressionSettings ExpressionSettings::of(THD *, uint32_t) { return {}; }
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

enum Part : uint {
  DROPPED_KEYS = 1,
  SETTINGS = 2,
  EXPRESSIONS_KNOWN = 4,
  DEFINITION_KNOWN = 8,
  ALL_PARTS = 15
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
    CHECK(!read.indexes[i].is_stale);
  }
  for (size_t size = 0; size < bytes.size(); size++)
    CHECK(!read.decode(std::vector<uint8_t>(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size))));
}

/* A build that does not know them sees bytes after the end; one without them is the same as before. */
void the_flag_tells_of_expressions() {
  std::vector<uint8_t> with = record_with(ALL_PARTS).encode();
  const std::vector<uint8_t> without = record_with(ALL_PARTS & ~EXPRESSIONS_KNOWN).encode();
  CHECK((with[FLAGS] & EXPRESSIONS) && !(without[FLAGS] & EXPRESSIONS));
  CHECK(with.size() == without.size() + 2 + 16 + 2 + 4 + 8);
  with[FLAGS] &= static_cast<uint8_t>(~EXPRESSIONS);
  TableRecord read;
  CHECK(!read.decode(with));
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
  what_is_stale_is_not_written();
  a_layout_that_the_record_does_not_explain_is_named();
  return 0;
}

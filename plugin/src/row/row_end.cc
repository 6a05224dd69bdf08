#include "row/row_end.h"

#include "sql_class.h"

namespace tidesdb {

namespace {

struct Bytes {
  explicit Bytes(uint32 seconds) {
    mi_int4store(bytes, seconds);
    mi_int3store(bytes + 4, TIME_MAX_SECOND_PART);
  }
  uchar bytes[ROW_END_SIZE];
};

}  // namespace

const uchar *greatest_row_end(bool before_2106) {
  static const Bytes now(static_cast<uint32>(TIMESTAMP_MAX_VALUE)), before(INT_MAX32);
  return (before_2106 ? before : now).bytes;
}

bool is_greatest_row_end(const uchar *bytes) {
  return !memcmp(bytes, greatest_row_end(), ROW_END_SIZE) ||
         !memcmp(bytes, greatest_row_end(true), ROW_END_SIZE);
}

bool is_history_row(const TABLE *table, const uchar *record) {
  if (!table->versioned()) return false;
  const Field *end = table->vers_end_field();
  return !is_greatest_row_end(record + end->offset(table->record[0]));
}

const uchar *moment_of_change(const TABLE *table, const uchar *old_record, const uchar *record) {
  if (!table->versioned() || !record) return nullptr;
  const my_ptrdiff_t start = table->vers_start_field()->offset(table->record[0]);
  if (is_history_row(table, record)) return record + table->vers_end_field()->offset(table->record[0]);
  return memcmp(old_record + start, record + start, ROW_END_SIZE) ? record + start : nullptr;
}

size_t find_row_end(const TABLE_SHARE &share, const std::vector<KeyPart> &parts) {
  size_t place = 0;
  while (place < parts.size() && (!share.versioned || parts[place].field_index != share.vers.end_fieldno))
    place++;
  return place;
}

}  // namespace tidesdb

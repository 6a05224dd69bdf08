#include "ddl/table_record.h"

namespace tidesdb {

namespace {

constexpr uint8_t FLAG_PRIMARY_KEY = 1;
constexpr uint8_t FLAG_UNIQUE = 1;
constexpr uint8_t FLAG_NULLABLE = 1;

class Writer {
 public:
  explicit Writer(std::vector<uint8_t> *out) : out_(out) {}
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) out_->push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
  void text(const std::string &value) {
    number(value.size(), 2);
    out_->insert(out_->end(), value.begin(), value.end());
  }

 private:
  std::vector<uint8_t> *out_;
};

class Reader {
 public:
  explicit Reader(const std::vector<uint8_t> &in) : in_(in) {}
  uint64_t number(int bytes) {
    if (in_.size() - at_ < static_cast<size_t>(bytes)) {
      good_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= static_cast<uint64_t>(in_[at_ + i]) << (8 * i);
    at_ += static_cast<size_t>(bytes);
    return value;
  }
  std::string text() {
    const size_t size = number(2);
    if (!good_ || in_.size() - at_ < size) {
      good_ = false;
      return "";
    }
    std::string value(reinterpret_cast<const char *>(in_.data() + at_), size);
    at_ += size;
    return value;
  }
  bool good() const { return good_; }
  bool at_end() const { return at_ == in_.size(); }

 private:
  const std::vector<uint8_t> &in_;
  size_t at_ = 0;
  bool good_ = true;
};

}  // namespace

std::vector<uint8_t> TableRecord::encode() const {
  std::vector<uint8_t> bytes;
  Writer out(&bytes);
  out.number(TABLE_RECORD_VERSION, 1);
  out.number(has_primary_key ? FLAG_PRIMARY_KEY : 0, 1);
  out.number(table_id, 8);
  out.number(create_id, 8);
  out.number(row_layout, 8);
  out.number(next_index_id, 4);
  out.number(analyzed_rows, 8);
  out.number(columns.size(), 2);
  for (const ColumnRecord &column : columns) {
    out.number(column.type, 1);
    out.number(column.nullable ? FLAG_NULLABLE : 0, 1);
    out.number(column.size, 4);
    out.text(column.name);
  }
  out.number(indexes.size(), 2);
  for (const IndexRecord &index : indexes) {
    out.number(index.id, 4);
    out.number(index.unique ? FLAG_UNIQUE : 0, 1);
    out.text(index.name);
    out.number(index.rows_per_key.size(), 2);
    for (const uint64_t rows : index.rows_per_key) out.number(rows, 8);
  }
  return bytes;
}

bool TableRecord::decode(const std::vector<uint8_t> &bytes) {
  Reader in(bytes);
  if (in.number(1) != TABLE_RECORD_VERSION) return false;
  *this = TableRecord();
  has_primary_key = in.number(1) & FLAG_PRIMARY_KEY;
  table_id = in.number(8);
  create_id = in.number(8);
  row_layout = in.number(8);
  next_index_id = static_cast<uint32_t>(in.number(4));
  analyzed_rows = in.number(8);
  const size_t column_count = in.number(2);
  for (size_t i = 0; i < column_count && in.good(); i++) {
    ColumnRecord column;
    column.type = static_cast<uint8_t>(in.number(1));
    column.nullable = in.number(1) & FLAG_NULLABLE;
    column.size = static_cast<uint32_t>(in.number(4));
    column.name = in.text();
    columns.push_back(std::move(column));
  }
  const size_t index_count = in.number(2);
  for (size_t i = 0; i < index_count && in.good(); i++) {
    IndexRecord index;
    index.id = static_cast<uint32_t>(in.number(4));
    index.unique = in.number(1) & FLAG_UNIQUE;
    index.name = in.text();
    const size_t parts = in.number(2);
    for (size_t part = 0; part < parts && in.good(); part++) index.rows_per_key.push_back(in.number(8));
    indexes.push_back(std::move(index));
  }
  return in.good() && in.at_end();
}

}  // namespace tidesdb

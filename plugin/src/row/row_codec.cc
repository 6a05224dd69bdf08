#include "row/row_codec.h"

#include <new>

namespace tidesdb {

namespace {

/* CHAR up to this size is kept with its trailing spaces: a length would save nothing. */
constexpr uint FIXED_CHAR_LIMIT = 8;

const uchar *blob_data(const uchar *at, uint length_bytes) {
  const uchar *data;
  memcpy(&data, at + length_bytes, sizeof data);
  return data;
}

size_t blob_size(const uchar *at, uint length_bytes) {
  size_t size = 0;
  for (uint i = length_bytes; i-- > 0;) size = size << 8 | at[i];
  return size;
}

}  // namespace

std::unique_ptr<RowCodec> RowCodec::make(TABLE *table, const KeyCodec *primary) {
  try {
    std::unique_ptr<RowCodec> codec(new RowCodec);
    codec->compile(table, primary);
    return codec;
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void RowCodec::compile(TABLE *table, const KeyCodec *primary) {
  primary_ = primary;
  null_bytes_ = table->s->null_bytes;
  for (uint i = 0; i < null_bytes_; i++) fixed_null_bits_.push_back(0);

  /* The primary key's first parts that give back their columns from constant places in the key. */
  std::vector<bool> in_key(table->s->fields, false);
  uint key_offset = 0;
  if (primary) {
    const std::vector<KeyPart> &parts = primary->parts();
    for (uint i = 0; i < parts.size() && part_is_self_contained(parts[i]); i++) {
      key_columns_.push_back({parts[i].field_index, i, key_offset});
      key_offset += parts[i].encoded_size;
      in_key[parts[i].field_index] = true;
    }
  }
  key_size_needed_ = key_offset;

  for (uint i = 0; i < table->s->fields; i++) {
    const Field *field = table->field[i];
    if (!field->stored_in_db() || in_key[i]) continue;
    const uint offset = static_cast<uint>(field->ptr - table->record[0]);
    const bool nullable = field->real_maybe_null();
    const uint null_offset = nullable ? static_cast<uint>(field->null_ptr - table->record[0]) : 0;
    const uchar null_bit = nullable ? field->null_bit : 0;

    VariableColumn variable{i, offset, 0, null_offset, null_bit, Variable::CHAR, field->charset()};
    const enum_field_types type = field->real_type();
    bool is_variable = true;
    if (field->flags & BLOB_FLAG) {
      variable.kind = Variable::BLOB;
      variable.size = field->pack_length() - portable_sizeof_char_ptr;
    } else if (type == MYSQL_TYPE_VARCHAR || type == MYSQL_TYPE_VARCHAR_COMPRESSED) {
      const uint length_bytes = static_cast<const Field_varstring *>(field)->length_bytes;
      variable.kind = length_bytes == 1 ? Variable::VARCHAR1 : Variable::VARCHAR2;
      variable.size = field->field_length;
    } else if (type == MYSQL_TYPE_STRING && field->type_handler() == &type_handler_string &&
               field->charset() != &my_charset_bin && field->pack_length() > FIXED_CHAR_LIMIT) {
      variable.size = field->pack_length();
    } else {
      is_variable = false;
    }
    if (is_variable) {
      variable_.push_back(variable);
      continue;
    }

    const uint size = field->pack_length_in_rec();
    if (size == 0) continue; /* BIT(1..7) within the NULL bits, CHAR(0) */
    const uint row_offset = static_cast<uint>(fixed_size_);
    fixed_.push_back({i, offset, row_offset, size, null_offset, null_bit});
    if (nullable) fixed_null_bits_[null_offset] |= null_bit;
    fixed_size_ += size;
    if (!runs_.empty() && runs_.back().record_offset + runs_.back().size == offset)
      runs_.back().size += size;
    else
      runs_.push_back({offset, size});
  }
  for (uint i = 0; i < null_bytes_; i++) fixed_nulls_ = fixed_nulls_ || fixed_null_bits_[i] != 0;
}

void RowCodec::encode(const uchar *record, ByteBuffer *out) const {
  out->clear();
  uchar *to = out->reserve(MAX_VARINT_SIZE + null_bytes_ + fixed_size_);
  to = write_varint(to, ROW_LAYOUT_VERSION);
  memcpy(to, record, null_bytes_);
  to += null_bytes_;

  uchar *const fixed = to;
  for (const Run &run : runs_) {
    memcpy(to, record + run.record_offset, run.size);
    to += run.size;
  }
  if (fixed_nulls_) {
    uchar any = 0;
    for (uint i = 0; i < null_bytes_; i++) any |= record[i] & fixed_null_bits_[i];
    if (any)
      for (const FixedColumn &column : fixed_)
        if (column.null_bit && (record[column.null_offset] & column.null_bit))
          memset(fixed + column.row_offset, 0, column.size);
  }
  out->set_end(to);

  for (const VariableColumn &column : variable_) {
    if (record[column.null_offset] & column.null_bit) continue;
    const uchar *at = record + column.record_offset;
    size_t size;
    switch (column.kind) {
      case Variable::CHAR:
        size = column.charset->lengthsp(reinterpret_cast<const char *>(at), column.size);
        break;
      case Variable::VARCHAR1:
        size = std::min<size_t>(*at, column.size);
        at += 1;
        break;
      case Variable::VARCHAR2:
        size = std::min<size_t>(uint2korr(at), column.size);
        at += 2;
        break;
      default:
        size = blob_size(at, column.size);
        at = blob_data(at, column.size);
    }
    to = out->reserve(MAX_VARINT_SIZE + size);
    to = write_varint(to, size);
    if (size != 0) memcpy(to, at, size);
    out->set_end(to + size);
  }
}

bool RowReader::choose(const MY_BITMAP *columns) {
  if (!columns) {
    if (chosen_ && all_) return true;
  } else if (chosen_ && !all_ &&
             memcmp(columns_.data(), columns->bitmap, columns_.size() * sizeof(my_bitmap_map)) == 0) {
    return true;
  }
  try {
    compile(columns);
    return true;
  } catch (const std::bad_alloc &) {
    chosen_ = false;
    return false;
  }
}

void RowReader::compile(const MY_BITMAP *columns) {
  chosen_ = false;
  all_ = columns == nullptr;
  columns_.clear();
  if (columns) columns_.assign(columns->bitmap, columns->bitmap + no_words_in_map(columns));
  copies_.clear();
  key_columns_.clear();
  wanted_.clear();
  variable_count_ = 0;
  blobs_ = false;

  const auto is_wanted = [&](uint field_index) { return !columns || bitmap_is_set(columns, field_index); };
  for (const RowCodec::FixedColumn &column : codec_.fixed_) {
    if (!is_wanted(column.field_index)) continue;
    if (!copies_.empty()) {
      Copy &last = copies_.back();
      if (last.record_offset + last.size == column.record_offset &&
          last.row_offset + last.size == column.row_offset) {
        last.size += column.size;
        continue;
      }
    }
    copies_.push_back({column.record_offset, column.row_offset, column.size});
  }
  for (size_t i = 0; i < codec_.variable_.size(); i++) {
    const bool wanted = is_wanted(codec_.variable_[i].field_index);
    wanted_.push_back(wanted);
    if (!wanted) continue;
    variable_count_ = i + 1;
    if (codec_.variable_[i].kind == RowCodec::Variable::BLOB) blobs_ = true;
  }
  for (uint i = 0; i < codec_.key_columns_.size(); i++)
    if (is_wanted(codec_.key_columns_[i].field_index)) key_columns_.push_back(i);
  chosen_ = true;
}

ulonglong RowReader::layout_version(Slice value) {
  const uchar *from = value.data;
  ulonglong version;
  return read_varint(&from, value.data + value.size, &version) ? version : 0;
}

bool RowReader::read(Slice key, Slice value, uchar *record) {
  const uchar *from = value.data, *const end = value.data + value.size;
  ulonglong version;
  if (!read_varint(&from, end, &version) || version != ROW_LAYOUT_VERSION) return false;
  if (static_cast<size_t>(end - from) < codec_.null_bytes_ + codec_.fixed_size_) return false;
  memcpy(record, from, codec_.null_bytes_);
  from += codec_.null_bytes_;
  for (const Copy &copy : copies_) memcpy(record + copy.record_offset, from + copy.row_offset, copy.size);
  from += codec_.fixed_size_;

  if (!key_columns_.empty()) {
    if (key.size < codec_.key_size_needed_) return false;
    for (const uint i : key_columns_) {
      const RowCodec::KeyColumn &column = codec_.key_columns_[i];
      decode_fixed_part(codec_.primary_->parts()[column.part], key.data + column.key_offset, record);
    }
  }
  if (variable_count_ == 0) return true;

  if (blobs_) {
    blob_memory_.clear();
    blob_memory_.reserve(value.size);
  }
  for (size_t i = 0; i < variable_count_; i++) {
    const RowCodec::VariableColumn &column = codec_.variable_[i];
    if (record[column.null_offset] & column.null_bit) continue;
    ulonglong size;
    if (!read_varint(&from, end, &size) || static_cast<size_t>(end - from) < size) return false;
    const uchar *const bytes = from;
    from += size;
    if (!wanted_[i]) continue;
    uchar *to = record + column.record_offset;
    switch (column.kind) {
      case RowCodec::Variable::CHAR:
        if (size > column.size) return false;
        memcpy(to, bytes, size);
        column.charset->fill(reinterpret_cast<char *>(to) + size, column.size - size, ' ');
        break;
      case RowCodec::Variable::VARCHAR1:
        if (size > column.size) return false;
        *to = static_cast<uchar>(size);
        memcpy(to + 1, bytes, size);
        break;
      case RowCodec::Variable::VARCHAR2:
        if (size > column.size) return false;
        int2store(to, size);
        memcpy(to + 2, bytes, size);
        break;
      default: {
        if (column.size < 8 && size >> (8 * column.size)) return false;
        for (uint b = 0; b < column.size; b++) to[b] = static_cast<uchar>(size >> (8 * b));
        /* reserve() above made room for all of them: the memory does not move. */
        const uchar *copy = blob_memory_.data() + blob_memory_.size();
        blob_memory_.append(bytes, size);
        memcpy(to + column.size, &copy, sizeof copy);
      }
    }
  }
  return true;
}

}  // namespace tidesdb

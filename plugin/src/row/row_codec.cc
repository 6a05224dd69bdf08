#include "row/row_codec.h"

#include <algorithm>
#include <new>

namespace tidesdb {

namespace {

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

std::unique_ptr<RowCodec> RowCodec::make(TABLE *table, const KeyCodec *primary, const RowHistory &history) {
  try {
    std::unique_ptr<RowCodec> codec(new RowCodec);
    codec->compile(table, primary, history);
    return codec;
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

const RowLayout *RowCodec::older(ulonglong version) const {
  for (const RowLayout &layout : history_->older)
    if (layout.version == version) return &layout;
  return nullptr;
}

void RowCodec::compile(TABLE *table, const KeyCodec *primary, const RowHistory &history) {
  primary_ = primary;
  history_ = &history;
  null_bytes_ = table->s->null_bytes;
  defaults_.assign(table->s->default_values, table->s->default_values + table->s->reclength);
  unset_nulls_.assign(table->s->default_values, table->s->default_values + null_bytes_);
  for (uint i = 0; i < null_bytes_; i++) fixed_null_bits_.push_back(0);

  /* The primary key's first parts that give back their columns from constant places in the key. */
  const std::vector<bool> in_key = columns_in_key(table, primary);
  uint key_offset = 0;
  if (primary) {
    const std::vector<KeyPart> &parts = primary->parts();
    for (uint i = 0; i < parts.size() && part_is_self_contained(parts[i]); i++) {
      key_columns_.push_back({parts[i].field_index, i, key_offset});
      key_offset += parts[i].encoded_size;
    }
  }
  key_size_needed_ = key_offset;

  for (uint i = 0; i < table->s->fields; i++) {
    const Field *field = table->field[i];
    const RowKind kind = row_kind(field);
    if (kind == RowKind::NONE || in_key[i]) continue;
    const uint32_t id = history.column_ids[i];
    const uint offset = static_cast<uint>(field->ptr - table->record[0]);
    const bool nullable = field->real_maybe_null();
    const uint null_offset = nullable ? static_cast<uint>(field->null_ptr - table->record[0]) : 0;
    const uchar null_bit = nullable ? field->null_bit : 0;

    has_blobs_ = has_blobs_ || kind == RowKind::BLOB;
    if (kind != RowKind::FIXED) {
      uint bound = field->pack_length();
      if (kind == RowKind::BLOB) bound -= portable_sizeof_char_ptr;
      if (kind == RowKind::VARCHAR1 || kind == RowKind::VARCHAR2) bound = field->field_length;
      variable_.push_back({id, i, offset, bound, null_offset, null_bit, kind, field->charset()});
      continue;
    }

    const uint size = field->pack_length_in_rec();
    const uint row_offset = static_cast<uint>(fixed_size_);
    fixed_.push_back({i, id, offset, row_offset, size, null_offset, null_bit});
    if (size == 0) continue; /* CHAR(0) */
    if (nullable) fixed_null_bits_[null_offset] |= null_bit;
    fixed_size_ += size;
    if (!runs_.empty() && runs_.back().record_offset + runs_.back().size == offset)
      runs_.back().size += size;
    else
      runs_.push_back({offset, size});
  }
  for (uint i = 0; i < null_bytes_; i++) fixed_nulls_ = fixed_nulls_ || fixed_null_bits_[i] != 0;
  compare_with_older_layouts();
}

/* In the second part BLOBs stand in the order of their layout's columns. Of a column that is gone nobody
   knows whether it was one; a text of another kind stays of that kind. */
void RowCodec::compare_with_older_layouts() {
  for (const RowLayout &layout : history_->older) {
    size_t next = 0;
    for (const LayoutColumn &column : layout.columns) {
      if (column.kind != LayoutColumn::VARIABLE) continue;
      const auto is_it = [&column](const VariableColumn &present) { return present.id == column.id; };
      const auto present = std::find_if(variable_.begin(), variable_.end(), is_it);
      if (present != variable_.end() && present->kind != RowKind::BLOB) continue;
      while (next < variable_.size() && variable_[next].id != column.id) next++;
      if (next == variable_.size()) keeps_all_rests_ = false;
    }
  }
}

bool RowCodec::can_keep(const std::vector<ColumnApart> &columns) const {
  for (size_t i = 0; i < columns.size(); i++) {
    const uint variable = columns[i].variable;
    if (variable == MAX_KEY || variable_[variable].kind != RowKind::BLOB) return false;
    if (i != 0 && variable <= columns[i - 1].variable) return false;
  }
  return !columns.empty();
}

Slice RowCodec::value_of(const ColumnApart &column, const uchar *record) const {
  const VariableColumn &variable = variable_[column.variable];
  const uchar *at = record + variable.record_offset;
  if (record[variable.null_offset] & variable.null_bit) return {nullptr, 0};
  return {blob_data(at, variable.size), blob_size(at, variable.size)};
}

bool RowCodec::has_other_long_blobs(const uchar *record, size_t threshold,
                                    const std::vector<ColumnApart> &columns) const {
  if (threshold == 0 || !has_blobs_) return false;
  auto known = columns.begin();
  for (uint i = 0; i < variable_.size(); i++) {
    const VariableColumn &column = variable_[i];
    if (known != columns.end() && known->variable == i) {
      ++known;
      continue;
    }
    if (column.kind == RowKind::BLOB && !(record[column.null_offset] & column.null_bit) &&
        blob_size(record + column.record_offset, column.size) >= threshold)
      return true;
  }
  return false;
}

void RowCodec::encode(const uchar *record, ByteBuffer *out, RowParts *parts) const {
  out->clear();
  if (parts) parts->blobs.clear();
  const bool in_parts = parts && (parts->kept || has_other_long_blobs(record, parts->threshold, {}));
  uchar *to = out->reserve(PARTS_HEAD_SIZE + MAX_VARINT_SIZE + null_bytes_ + fixed_size_);
  to = write_row_head(to, history_->version, in_parts);
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
  encode_variable(record, out, in_parts, parts);
  if (!parts) return;
  parts->first_size = in_parts ? out->size() : 0;
  for (RowParts::Blob &blob : parts->blobs)
    if (in_parts) blob.at = out->size();
}

void RowCodec::encode_variable(const uchar *record, ByteBuffer *out, bool in_parts, RowParts *parts) const {
  const ColumnApart *kept = nullptr, *kept_end = nullptr;
  if (parts && parts->kept) {
    kept = parts->kept->data();
    kept_end = kept + parts->kept->size();
  }
  for (uint i = 0; i < variable_.size(); i++) {
    const VariableColumn &column = variable_[i];
    if (record[column.null_offset] & column.null_bit) continue;
    if (kept != kept_end && kept->variable == i) {
      out->set_end(write_column_head(out->reserve(COLUMN_HEAD_SIZE), in_parts, kept->size, true));
      kept++;
      continue;
    }
    const uchar *at = record + column.record_offset;
    size_t size;
    switch (column.kind) {
      case RowKind::CHAR:
        size = column.charset->lengthsp(reinterpret_cast<const char *>(at), column.size);
        break;
      case RowKind::VARCHAR1:
        size = std::min<size_t>(*at, column.size);
        at += 1;
        break;
      case RowKind::VARCHAR2:
        size = std::min<size_t>(uint2korr(at), column.size);
        at += 2;
        break;
      default: {
        size = blob_size(at, column.size);
        at = blob_data(at, column.size);
        /* What is not apart stands in one piece with all before it. */
        const bool apart = in_parts && !parts->kept && size >= parts->threshold;
        if (apart || (parts && !in_parts && size > LARGE_ROW)) {
          out->set_end(write_column_head(out->reserve(COLUMN_HEAD_SIZE), in_parts, size, apart));
          parts->blobs.push_back({out->size(), {at, size}});
          continue;
        }
      }
    }
    uchar *to = out->reserve(COLUMN_HEAD_SIZE + size);
    to = write_column_head(to, in_parts, size, false);
    if (size != 0) memcpy(to, at, size);
    out->set_end(to + size);
  }
}

/* How rows of an older layout become records. */
struct RowReader::OlderPlan {
  ulonglong version;
  size_t null_bytes;
  size_t fixed_size = 0;
  struct NullMove {
    uint16_t from; /* 1 + bit of the old null area; 0: was NOT NULL */
    uint to_offset;
    uchar to_bit;
  };
  std::vector<NullMove> nulls;
  std::vector<Copy> copies;
  struct VariableMove {
    uint16_t null;
    const RowCodec::VariableColumn *to; /* nullptr: passed over */
    uint variable;                      /* its place now; MAX_KEY: the table has it no more */
  };
  std::vector<VariableMove> variables;
  size_t wanted = 0; /* of these, up to the last wanted one */
  struct FixedDefault {
    const RowCodec::FixedColumn *to;
    const ColumnDefault *value;
  };
  std::vector<FixedDefault> fixed_defaults;
  struct VariableDefault {
    const RowCodec::VariableColumn *to;
    const ColumnDefault *value;
  };
  std::vector<VariableDefault> variable_defaults;
};

RowReader::RowReader(const RowCodec &codec) : codec_(codec) {}

RowReader::~RowReader() = default;

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
  older_plans_.clear();
  columns_.clear();
  if (columns) columns_.assign(columns->bitmap, columns->bitmap + no_words_in_map(columns));
  copies_.clear();
  key_columns_.clear();
  wanted_.clear();
  variable_count_ = 0;
  blobs_ = false;

  for (const RowCodec::FixedColumn &column : codec_.fixed_) {
    if (column.size == 0 || !is_wanted(column.field_index)) continue;
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
    if (codec_.variable_[i].kind == RowKind::BLOB) blobs_ = true;
  }
  for (uint i = 0; i < codec_.key_columns_.size(); i++)
    if (is_wanted(codec_.key_columns_[i].field_index)) key_columns_.push_back(i);
  chosen_ = true;
}

ulonglong RowReader::layout_version(Slice value) {
  const uchar *from = value.data;
  ulonglong version;
  bool in_parts;
  return read_row_head(&from, value.data + value.size, &version, &in_parts) ? version : 0;
}

bool RowReader::is_wanted(uint field_index) const {
  if (all_) return true;
  constexpr uint bits = 8 * sizeof(my_bitmap_map);
  return columns_[field_index / bits] >> (field_index % bits) & 1;
}

void RowReader::end_statement() { blob_memory_.release_beyond(KEPT_ROW); }

void RowReader::reserve_blobs(size_t size) {
  if (!blobs_) return;
  blob_memory_.clear();
  blob_memory_.reserve(size);
}

bool RowReader::read_key_columns(Slice key, uchar *record) const {
  if (key_columns_.empty()) return true;
  if (key.size < codec_.key_size_needed_) return false;
  for (const uint i : key_columns_) {
    const RowCodec::KeyColumn &column = codec_.key_columns_[i];
    decode_fixed_part(codec_.primary_->parts()[column.part], key.data + column.key_offset, record);
  }
  return true;
}

inline bool RowReader::store_variable(const RowCodec::VariableColumn &column, const uchar *bytes, size_t size,
                                      uchar *record) {
  uchar *to = record + column.record_offset;
  switch (column.kind) {
    case RowKind::CHAR:
      if (size > column.size) return false;
      memcpy(to, bytes, size);
      column.charset->fill(reinterpret_cast<char *>(to) + size, column.size - size, ' ');
      return true;
    case RowKind::VARCHAR1:
      if (size > column.size) return false;
      *to = static_cast<uchar>(size);
      memcpy(to + 1, bytes, size);
      return true;
    case RowKind::VARCHAR2:
      if (size > column.size) return false;
      int2store(to, size);
      memcpy(to + 2, bytes, size);
      return true;
    default: {
      if (column.size < 8 && size >> (8 * column.size)) return false;
      for (uint b = 0; b < column.size; b++) to[b] = static_cast<uchar>(size >> (8 * b));
      /* reserve_blobs() made room for all of them: the memory does not move. */
      const uchar *copy = blob_memory_.data() + blob_memory_.size();
      blob_memory_.append(bytes, size);
      memcpy(to + column.size, &copy, sizeof copy);
      return true;
    }
  }
}

/*
  The bytes under a NULL are those of the table's default record, as with InnoDB: the server compares the
  bytes of both records when it looks whether an UPDATE changes a row, also where both are NULL.
*/
inline void RowReader::clear_fixed(uchar *record) const {
  uchar any = 0;
  for (uint i = 0; i < codec_.null_bytes_; i++) any |= record[i] & codec_.fixed_null_bits_[i];
  if (!any) return;
  for (const RowCodec::FixedColumn &column : codec_.fixed_)
    if (record[column.null_offset] & column.null_bit && is_wanted(column.field_index))
      memcpy(record + column.record_offset, codec_.defaults_.data() + column.record_offset, column.size);
}

inline void RowReader::clear_variable(const RowCodec::VariableColumn &column, uchar *record) const {
  uchar *to = record + column.record_offset;
  const uchar *const from = codec_.defaults_.data() + column.record_offset;
  switch (column.kind) {
    case RowKind::CHAR:
      memcpy(to, from, column.size);
      break;
    case RowKind::VARCHAR1:
      memcpy(to, from, 1 + std::min<size_t>(*from, column.size));
      break;
    case RowKind::VARCHAR2:
      memcpy(to, from, 2 + std::min<size_t>(uint2korr(from), column.size));
      break;
    default:
      memset(to, 0, column.size + sizeof(uchar *));
  }
}

void RowReader::store_unread(const RowCodec::VariableColumn &column, uchar *record) const {
  const uchar *const nowhere = &UNREAD_BLOB;
  uchar *const to = record + column.record_offset;
  memset(to, 0, column.size);
  memcpy(to + column.size, &nowhere, sizeof(nowhere));
}

bool RowReader::read(Slice key, Slice value, uchar *record, bool may_lack_rest) {
  const uchar *from = value.data, *const end = value.data + value.size;
  ulonglong version;
  apart_.clear();
  lacked_rest_ = false;
  may_lack_rest_ = may_lack_rest;
  if (!read_row_head(&from, end, &version, &in_parts_)) return false;
  if (unlikely(version != codec_.history_->version))
    return read_older(version, value, from, record) && read_key_columns(key, record);
  if (static_cast<size_t>(end - from) < codec_.null_bytes_ + codec_.fixed_size_) return false;
  memcpy(record, from, codec_.null_bytes_);
  from += codec_.null_bytes_;
  for (const Copy &copy : copies_) memcpy(record + copy.record_offset, from + copy.row_offset, copy.size);
  from += codec_.fixed_size_;
  if (codec_.fixed_nulls_) clear_fixed(record);

  if (!read_key_columns(key, record)) return false;
  if (variable_count_ == 0) return true;

  reserve_blobs(value.size);
  /* The second part is after all columns. */
  const size_t count = in_parts_ ? codec_.variable_.size() : variable_count_;
  for (uint i = 0; i < count; i++) {
    const RowCodec::VariableColumn &column = codec_.variable_[i];
    if (record[column.null_offset] & column.null_bit) {
      if (wanted_[i]) clear_variable(column, record);
      continue;
    }
    size_t size;
    bool apart;
    if (!read_column_head(&from, end, in_parts_, &size, &apart)) return false;
    if (apart) {
      apart_.push_back({i, size});
      continue;
    }
    const uchar *const bytes = from;
    from += size;
    if (wanted_[i] && !store_variable(column, bytes, size, record)) return false;
  }
  return !in_parts_ || read_rest(from, end, record);
}

/* The columns that stand apart; `from` is after all others. */
bool RowReader::read_rest(const uchar *from, const uchar *end, uchar *record) {
  const size_t size = size_apart(apart_);
  lacked_rest_ = from == end && size != 0;
  if (lacked_rest_ ? !may_lack_rest_ : static_cast<size_t>(end - from) != size) return false;
  for (const ColumnApart &apart : apart_) {
    const uchar *const bytes = from;
    if (!lacked_rest_) from += apart.size;
    if (apart.variable == MAX_KEY || !wanted_[apart.variable]) continue;
    const RowCodec::VariableColumn &column = codec_.variable_[apart.variable];
    if (lacked_rest_)
      store_unread(column, record);
    else if (!store_variable(column, bytes, apart.size, record))
      return false;
  }
  return true;
}

RowReader::OlderPlan *RowReader::older_plan(ulonglong version) {
  for (const std::unique_ptr<OlderPlan> &known : older_plans_)
    if (known->version == version) return known.get();
  const RowLayout *layout = codec_.older(version);
  if (!layout) return nullptr;
  try {
    std::unique_ptr<OlderPlan> plan(new OlderPlan);
    plan->version = version;
    plan->null_bytes = layout->null_bytes;
    const auto move_null = [&](uint16_t from, uint offset, uchar bit) {
      if (bit) plan->nulls.push_back({from, offset, bit});
    };
    const auto find = [](const auto &columns, uint32_t id) {
      for (const auto &column : columns)
        if (column.id == id) return &column;
      return static_cast<decltype(&columns[0])>(nullptr);
    };
    for (const LayoutColumn &column : layout->columns) {
      if (column.kind == LayoutColumn::VARIABLE) {
        const RowCodec::VariableColumn *to = find(codec_.variable_, column.id);
        if (to) move_null(column.null, to->null_offset, to->null_bit);
        const bool wanted = to && is_wanted(to->field_index);
        const uint place = to ? static_cast<uint>(to - codec_.variable_.data()) : MAX_KEY;
        plan->variables.push_back({column.null, wanted ? to : nullptr, place});
        if (wanted) plan->wanted = plan->variables.size();
        continue;
      }
      const RowCodec::FixedColumn *to = find(codec_.fixed_, column.id);
      if (to && to->size != column.size) return nullptr;
      if (to) move_null(column.null, to->null_offset, to->null_bit);
      if (to && to->size != 0 && is_wanted(to->field_index))
        plan->copies.push_back({to->record_offset, static_cast<uint>(plan->fixed_size), to->size});
      plan->fixed_size += column.size;
    }
    for (const ColumnDefault &value : codec_.history_->defaults) {
      if (find(layout->columns, value.id)) continue;
      if (const RowCodec::FixedColumn *to = find(codec_.fixed_, value.id)) {
        if (!value.null && value.value.size() != to->size) return nullptr;
        plan->fixed_defaults.push_back({to, &value});
      } else if (const RowCodec::VariableColumn *variable = find(codec_.variable_, value.id)) {
        plan->variable_defaults.push_back({variable, &value});
      }
    }
    older_plans_.push_back(std::move(plan));
    return older_plans_.back().get();
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

bool RowReader::read_older(ulonglong version, Slice value, const uchar *from, uchar *record) {
  const OlderPlan *plan = older_plan(version);
  const uchar *const end = value.data + value.size;
  if (!plan || static_cast<size_t>(end - from) < plan->null_bytes + plan->fixed_size) return false;
  const uchar *const nulls = from;
  const auto was_null = [nulls](uint16_t null) {
    return null && nulls[(null - 1) / 8] >> ((null - 1) % 8) & 1;
  };

  if (codec_.null_bytes_ != 0) memcpy(record, codec_.unset_nulls_.data(), codec_.null_bytes_);
  for (const OlderPlan::NullMove &move : plan->nulls) {
    if (was_null(move.from))
      record[move.to_offset] |= move.to_bit;
    else
      record[move.to_offset] &= static_cast<uchar>(~move.to_bit);
  }
  from += plan->null_bytes;
  for (const Copy &copy : plan->copies)
    memcpy(record + copy.record_offset, from + copy.row_offset, copy.size);
  from += plan->fixed_size;

  const auto set_null = [record](uint offset, uchar bit, bool null) {
    if (!bit) return !null;
    if (null)
      record[offset] |= bit;
    else
      record[offset] &= static_cast<uchar>(~bit);
    return true;
  };
  for (const OlderPlan::FixedDefault &fixed : plan->fixed_defaults) {
    if (!set_null(fixed.to->null_offset, fixed.to->null_bit, fixed.value->null)) return false;
    if (!is_wanted(fixed.to->field_index)) continue;
    memcpy(record + fixed.to->record_offset, fixed.value->value.data(), fixed.value->value.size());
  }
  if (codec_.fixed_nulls_) clear_fixed(record);
  size_t blob_bytes = value.size;
  for (const OlderPlan::VariableDefault &variable : plan->variable_defaults)
    blob_bytes += variable.value->value.size();
  reserve_blobs(blob_bytes);
  for (const OlderPlan::VariableDefault &variable : plan->variable_defaults) {
    if (!set_null(variable.to->null_offset, variable.to->null_bit, variable.value->null)) return false;
    if (!is_wanted(variable.to->field_index)) continue;
    if (variable.value->null) {
      clear_variable(*variable.to, record);
      continue;
    }
    const std::string &text = variable.value->value;
    if (!store_variable(*variable.to, reinterpret_cast<const uchar *>(text.data()), text.size(), record))
      return false;
  }
  const size_t count = in_parts_ ? plan->variables.size() : plan->wanted;
  for (size_t i = 0; i < count; i++) {
    const OlderPlan::VariableMove &move = plan->variables[i];
    if (was_null(move.null)) {
      if (move.to) clear_variable(*move.to, record);
      continue;
    }
    size_t size;
    bool apart;
    if (!read_column_head(&from, end, in_parts_, &size, &apart)) return false;
    if (apart) {
      apart_.push_back({move.variable, size});
      continue;
    }
    const uchar *const bytes = from;
    from += size;
    if (move.to && !store_variable(*move.to, bytes, size, record)) return false;
  }
  return !in_parts_ || read_rest(from, end, record);
}

}  // namespace tidesdb

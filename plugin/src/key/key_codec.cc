#include "key/key_codec.h"

#include <new>

namespace tidesdb {

namespace {

/* Number of leading parts that a search key gives. HA_WHOLE_KEY means the index without its extension. */
uint given_parts(key_part_map map, size_t index_parts) {
  if (map == HA_WHOLE_KEY) return static_cast<uint>(index_parts);
  uint count = 0;
  while (map & 1) {
    count++;
    map >>= 1;
  }
  return count;
}

bool spans_column(const KEY_PART_INFO &key_part, const TABLE_SHARE *share) {
  const Field *field = share->field[key_part.fieldnr - 1];
  return column_can_cover(field) && key_part.length == field->key_length();
}

}  // namespace

std::unique_ptr<KeyCodec> KeyCodec::make(TABLE *table, uint index, const KeyCodec *primary) {
  try {
    std::unique_ptr<KeyCodec> codec(new KeyCodec);
    codec->compile(table, index, primary);
    return codec;
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void KeyCodec::compile(TABLE *table, uint index, const KeyCodec *primary) {
  const KEY &key = table->key_info[index];
  table_ = table;
  index_ = index;
  primary_ = primary;
  unique_ = key.flags & HA_NOSAME;
  bool constant = true;
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    parts_.push_back(compile_key_part(table, key.key_part[i]));
    const KeyPart &part = parts_.back();
    covering_ = covering_ && part.covering;
    nullable_ = nullable_ || part.nullable;
    constant = constant && part.encoded_size != 0;
    fixed_size_ += part.encoded_size;
  }
  if (!constant) fixed_size_ = 0;
  if (!primary) return;

  bool reachable = true; /* by a search key that goes on into the primary key */
  for (const KeyPart &part : primary->parts_) {
    bool in_index = false;
    for (const KeyPart &own : parts_)
      in_index = in_index || (own.covering && own.field_index == part.field_index);
    primary_use_.push_back({part.covering && !in_index, part_has_unpack(part) && !in_index});

    uint offset = 0;
    bool found = false;
    for (uint j = 0; reachable && j < key.ext_key_parts; j++) {
      const KEY_PART_INFO &given = key.key_part[j];
      if (given.fieldnr == part.field_index + 1U && given.length == part.part_length) {
        primary_in_image_.push_back({offset, j + 1});
        found = true;
        break;
      }
      offset += given.store_length;
    }
    reachable = reachable && found;
  }
}

bool KeyCodec::can_cover(const Field *field) { return column_can_cover(field); }

bool KeyCodec::primary_key_can_cover(const TABLE_SHARE *share) {
  if (share->primary_key >= share->keys) return true;
  const KEY &key = share->key_info[share->primary_key];
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    if (!spans_column(key.key_part[i], share)) return false;
  return true;
}

bool KeyCodec::has_null(const uchar *record) const {
  if (!nullable_) return false;
  for (const KeyPart &part : parts_)
    if (part.is_null(record)) return true;
  return false;
}

void KeyCodec::append_columns(const uchar *record, ByteBuffer *out) const {
  for (const KeyPart &part : parts_) append_part(part, record, out, &scratch_);
}

void KeyCodec::add_entries(const uchar *record, Slice primary_key, EntrySet *entries) const {
  EntrySet::Entry &entry = entries->add();
  ByteBuffer *const key = &entry.key, *const value = &entry.value;
  append_columns(record, key);
  entry.decides = unique_ && !has_null(record);
  if (entry.decides) {
    uchar *to = value->reserve(MAX_VARINT_SIZE + primary_key.size);
    value->set_end(write_varint(to, primary_key.size));
    value->append(primary_key);
  } else {
    key->append(primary_key);
  }
  for (const KeyPart &part : parts_) append_unpack_part(part, record, value);
  for (size_t i = 0; i < primary_use_.size(); i++)
    if (primary_use_[i].unpack) append_unpack_part(primary_->parts_[i], record, value);
}

KeyCodec::Search KeyCodec::append_search(const uchar *key_image, key_part_map map, ByteBuffer *out) const {
  const uint given = given_parts(map, parts_.size());
  Search search{given >= parts_.size(), false};
  const uchar *image = key_image;
  for (uint i = 0; i < parts_.size() && i < given; i++) {
    if (append_image_part(parts_[i], image, out, &scratch_)) search.has_null = true;
    image += parts_[i].image_size;
  }
  if (given > parts_.size()) {
    for (size_t i = 0; i < primary_in_image_.size(); i++) {
      if (primary_in_image_[i].parts_needed > given) break;
      append_image_part(primary_->parts_[i], key_image + primary_in_image_[i].offset, out, &scratch_);
    }
  }
  return search;
}

bool KeyCodec::split_entry(Slice key, Slice value, const uchar **columns_end, Slice *primary,
                           Slice *unpack) const {
  const uchar *const end = key.data + key.size;
  bool alone = unique_; /* the key is the columns alone */
  const uchar *at = key.data;
  if (unique_ && !nullable_) {
    at = end;
  } else if (!unique_ && (!primary_ || primary_->fixed_size_ != 0)) {
    const size_t size = primary_ ? primary_->fixed_size_ : HIDDEN_KEY_SIZE;
    if (key.size < size) return false;
    at = end - size;
  } else {
    for (const KeyPart &part : parts_) {
      bool is_null;
      if (!skip_part(part, &at, end, &is_null)) return false;
      if (is_null) alone = false;
    }
  }
  *columns_end = at;
  if (!alone) {
    *primary = {at, static_cast<size_t>(end - at)};
    *unpack = value;
    return true;
  }
  const uchar *from = value.data, *const value_end = value.data + value.size;
  ulonglong size;
  if (at != end || !read_varint(&from, value_end, &size) || static_cast<size_t>(value_end - from) < size)
    return false;
  *primary = {from, static_cast<size_t>(size)};
  *unpack = {from + size, static_cast<size_t>(value_end - from - size)};
  return true;
}

bool KeyCodec::primary_key(Slice key, Slice value, Slice *primary_key) const {
  const uchar *columns_end;
  Slice unpack;
  return split_entry(key, value, &columns_end, primary_key, &unpack);
}

bool KeyCodec::decode_entry(Slice key, Slice value, const MY_BITMAP *columns, uchar *record) const {
  const uchar *columns_end;
  Slice primary, unpack;
  if (!split_entry(key, value, &columns_end, &primary, &unpack)) return false;
  const uchar *from = unpack.data, *const from_end = unpack.data + unpack.size;
  const uchar *at = key.data;

  const auto take = [&](const KeyPart &part, const uchar *end, bool wanted, bool has_unpack) {
    if (wanted && (!columns || bitmap_is_set(columns, part.field_index)))
      return decode_part(part, &at, end, &from, from_end, record);
    bool is_null;
    if (!skip_part(part, &at, end, &is_null)) return false;
    return is_null || !has_unpack || skip_unpack_part(part, &from, from_end);
  };

  for (const KeyPart &part : parts_)
    if (!take(part, columns_end, part.covering, part_has_unpack(part))) return false;
  if (!primary_) return true;
  at = primary.data;
  const uchar *const primary_end = primary.data + primary.size;
  for (size_t i = 0; i < primary_->parts_.size(); i++)
    if (!take(primary_->parts_[i], primary_end, primary_use_[i].decode, primary_use_[i].unpack)) return false;
  return at == primary_end && from == from_end;
}

uint KeyCodec::ref_length() const {
  return fixed_size_ ? static_cast<uint>(fixed_size_) : table_->key_info[index_].key_length;
}

void KeyCodec::make_ref(const uchar *record, uchar *ref) const {
  if (fixed_size_) {
    compare_[0].clear();
    append_columns(record, &compare_[0]);
    memcpy(ref, compare_[0].data(), fixed_size_);
    return;
  }
  const KEY &key = table_->key_info[index_];
  key_copy(ref, record, &key, key.key_length, true);
}

void KeyCodec::append_ref(const uchar *ref, ByteBuffer *out) const {
  if (fixed_size_) {
    out->append(ref, fixed_size_);
    return;
  }
  append_search(ref, make_prev_keypart_map(static_cast<uint>(parts_.size())), out);
}

int KeyCodec::compare_refs(const uchar *a, const uchar *b) const {
  if (fixed_size_) return memcmp(a, b, fixed_size_);
  compare_[0].clear();
  compare_[1].clear();
  append_ref(a, &compare_[0]);
  append_ref(b, &compare_[1]);
  return compare_bytes(compare_[0].slice(), compare_[1].slice());
}

}  // namespace tidesdb

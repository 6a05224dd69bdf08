/*
  The bytes of a key back to column values, and over them to the next part.
*/
#include "key/key_part.h"

#include "key/part_shape.h"
#include "key/units.h"

namespace tidesdb {

namespace {

template <typename Bits>
void decode_float(uchar *to, const uchar *from, bool negative_zero) {
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  Bits bits;
  copy_reversed(reinterpret_cast<uchar *>(&bits), from, sizeof bits);
  bits = (bits & sign) ? (bits & ~sign) : ~bits;
  if (negative_zero) bits = sign;
  memcpy(to, &bits, sizeof bits);
}

template <uint UNIT>
bool skip_level(const uchar **at, const uchar *end, uchar mask, bool filled, bool pad, uint space) {
  return unlikely(filled) ? skip_filled_units<UNIT>(at, end, mask, space)
                          : skip_units<UNIT>(at, end, mask, pad, space);
}

/* After the value, which is not NULL. */
bool skip_value(const KeyPart &part, const uchar **at, const uchar *end) {
  if (!is_string(part)) {
    const uint size = value_size(part);
    if (static_cast<size_t>(end - *at) < size) return false;
    *at += size;
    return true;
  }
  const uchar mask = mask_of(part);
  for (uint level = 0; part.levels >> level; level++) {
    if (!(part.levels & (1U << level))) continue;
    const bool pad = pads_level(part, level);
    const bool filled = fills_level(part, level);
    const uint space = part.space_weight[level];
    bool fine;
    switch (part.unit) {
      case 1:
        fine = skip_level<1>(at, end, mask, filled, pad, space);
        break;
      case 2:
        fine = skip_level<2>(at, end, mask, filled, pad, space);
        break;
      case 3:
        fine = skip_level<3>(at, end, mask, filled, pad, space);
        break;
      default:
        fine = skip_level<4>(at, end, mask, filled, pad, space);
        break;
    }
    if (!fine) return false;
  }
  return true;
}

bool take_null_mark(const KeyPart &part, const uchar **at, const uchar *end, bool *is_null) {
  *is_null = false;
  if (!part.nullable) return true;
  if (*at >= end) return false;
  const uchar mark = *(*at)++ ^ mask_of(part);
  *is_null = mark == NULL_MARK;
  return mark <= NOT_NULL_MARK;
}

}  // namespace

bool skip_part(const KeyPart &part, const uchar **at, const uchar *end, bool *is_null) {
  if (!take_null_mark(part, at, end, is_null)) return false;
  return *is_null || skip_value(part, at, end);
}

bool skip_unpack_part(const KeyPart &part, const uchar **unpack, const uchar *unpack_end) {
  if (!part_has_unpack(part)) return true;
  ulonglong size = 0;
  switch (part.kind) {
    case KeyPart::Kind::FLOAT:
    case KeyPart::Kind::DOUBLE:
      size = 1;
      break;
    case KeyPart::Kind::IMAGE:
      size = part.width;
      break;
    case KeyPart::Kind::TEXT_BYTES:
      return read_varint(unpack, unpack_end, &size);
    default:
      if (!read_varint(unpack, unpack_end, &size)) return false;
  }
  if (static_cast<size_t>(unpack_end - *unpack) < size) return false;
  *unpack += size;
  return true;
}

namespace {

/* Completes a string whose `size` bytes stand in their place in the record. */
void finish_string(const KeyPart &part, uchar *record, size_t size) {
  uchar *to = record + part.record_offset;
  switch (part.storage) {
    case KeyPart::Storage::VARCHAR1:
      *to = static_cast<uchar>(size);
      break;
    case KeyPart::Storage::VARCHAR2:
      int2store(to, size);
      break;
    default:
      part.charset->fill(reinterpret_cast<char *>(to) + size, part.width - size, ' ');
  }
}

uchar *string_place(const KeyPart &part, uchar *record) {
  uchar *to = record + part.record_offset;
  if (part.storage == KeyPart::Storage::VARCHAR1) return to + 1;
  if (part.storage == KeyPart::Storage::VARCHAR2) return to + 2;
  return to;
}

}  // namespace

bool decode_part(const KeyPart &part, const uchar **at, const uchar *end, const uchar **unpack,
                 const uchar *unpack_end, uchar *record) {
  bool is_null;
  if (!take_null_mark(part, at, end, &is_null)) return false;
  if (is_null) {
    record[part.null_offset] |= part.null_bit;
    return true;
  }
  if (part.nullable) record[part.null_offset] &= static_cast<uchar>(~part.null_bit);
  const uchar mask = mask_of(part);
  switch (part.kind) {
    case KeyPart::Kind::UNSIGNED:
    case KeyPart::Kind::SIGNED:
    case KeyPart::Kind::RAW:
      if (static_cast<size_t>(end - *at) < part.width) return false;
      decode_fixed_part(part, *at, record);
      *at += part.width;
      return true;
    case KeyPart::Kind::FLOAT:
    case KeyPart::Kind::DOUBLE: {
      if (static_cast<size_t>(end - *at) < part.width || *unpack >= unpack_end) return false;
      const bool negative_zero = *(*unpack)++ != 0;
      uchar bytes[8];
      for (uint i = 0; i < part.width; i++) bytes[i] = (*at)[i] ^ mask;
      *at += part.width;
      uchar *to = record + part.record_offset;
      if (part.kind == KeyPart::Kind::FLOAT)
        decode_float<uint32>(to, bytes, negative_zero);
      else
        decode_float<uint64>(to, bytes, negative_zero);
      return true;
    }
    case KeyPart::Kind::IMAGE:
      if (static_cast<size_t>(end - *at) < part.sort_size ||
          static_cast<size_t>(unpack_end - *unpack) < part.width)
        return false;
      memcpy(record + part.record_offset, *unpack, part.width);
      *at += part.sort_size;
      *unpack += part.width;
      return true;
    case KeyPart::Kind::BYTES:
    case KeyPart::Kind::TEXT_BYTES: {
      uchar *to = string_place(part, record);
      size_t size;
      if (!copy_units(at, end, mask, part.pad_space, part.space_weight[0], to, part.width, &size))
        return false;
      if (part_has_unpack(part)) {
        ulonglong spaces;
        if (!read_varint(unpack, unpack_end, &spaces) || spaces > part.width - size) return false;
        memset(to + size, ' ', spaces);
        size += spaces;
      }
      finish_string(part, record, size);
      return true;
    }
    default: {
      if (!skip_value(part, at, end)) return false;
      ulonglong size;
      if (!read_varint(unpack, unpack_end, &size) || size > part.width ||
          static_cast<size_t>(unpack_end - *unpack) < size)
        return false;
      memcpy(string_place(part, record), *unpack, size);
      *unpack += size;
      finish_string(part, record, size);
      return true;
    }
  }
}

void decode_fixed_part(const KeyPart &part, const uchar *at, uchar *record) {
  uchar *to = record + part.record_offset;
  if (part.kind == KeyPart::Kind::RAW)
    memcpy(to, at, part.width);
  else
    copy_reversed(to, at, part.width);
  if (part.kind == KeyPart::Kind::SIGNED) to[part.width - 1] ^= SIGN;
  if (part.descending)
    for (uint i = 0; i < part.width; i++) to[i] ^= 0xff;
}

}  // namespace tidesdb

#include "key/key_part.h"

#include "key/units.h"
#include "server.h"

namespace tidesdb {

namespace {

constexpr uchar NULL_MARK = 0;
constexpr uchar NOT_NULL_MARK = 1;
constexpr uchar SIGN = 0x80;

inline uchar mask_of(const KeyPart &part) { return part.descending ? 0xff : 0; }

/* Copies `width` bytes in opposite order: an integer between the record's and the key's byte order.
 */
inline void copy_reversed(uchar *to, const uchar *from, uint width) {
  switch (width) {
    case 4: {
      uint32 value;
      memcpy(&value, from, 4);
      value = __builtin_bswap32(value);
      memcpy(to, &value, 4);
      return;
    }
    case 8: {
      uint64 value;
      memcpy(&value, from, 8);
      value = __builtin_bswap64(value);
      memcpy(to, &value, 8);
      return;
    }
    default:
      for (uint i = 0; i < width; i++) to[i] = from[width - 1 - i];
  }
}

/* IEEE bits, little-endian in `from`, as bytes in order; -0 becomes 0. */
template <typename Bits>
void encode_float(uchar *to, const uchar *from) {
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  Bits bits;
  memcpy(&bits, from, sizeof bits);
  if (bits == sign) bits = 0;
  bits = (bits & sign) ? ~bits : (bits | sign);
  copy_reversed(to, reinterpret_cast<const uchar *>(&bits), sizeof bits);
}

template <typename Bits>
void decode_float(uchar *to, const uchar *from, bool negative_zero) {
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  Bits bits;
  copy_reversed(reinterpret_cast<uchar *>(&bits), from, sizeof bits);
  bits = (bits & sign) ? (bits & ~sign) : ~bits;
  if (negative_zero) bits = sign;
  memcpy(to, &bits, sizeof bits);
}

bool is_negative_zero(const KeyPart &part, const uchar *value) {
  if (value[part.width - 1] != SIGN) return false;
  for (uint i = 0; i + 1 < part.width; i++)
    if (value[i] != 0) return false;
  return true;
}

bool is_fixed(KeyPart::Kind kind) { return kind < KeyPart::Kind::BYTES; }

bool is_string(const KeyPart &part) { return !is_fixed(part.kind); }

/* With all the spaces that fill it up. */
bool fills_level(const KeyPart &part, uint level) { return part.filled && part.space_weight[level] != 0; }

/* NO PAD speaks of the first level only; the server compares the others padded (save in `filled`). */
bool pads_level(const KeyPart &part, uint level) {
  return level == 0 ? part.pad_space : part.space_weight[level] != 0;
}

uint value_size(const KeyPart &part) {
  return part.kind == KeyPart::Kind::IMAGE ? part.sort_size : part.width;
}

/* ---- compiling ---- */

/* UUID, INET6 and INET4 are kept in an order-preserving form and compared with memcmp. */
bool is_plain_fixed_binary(const Field *field) {
  const LEX_CSTRING name = field->type_handler()->name().lex_cstring();
  return strcmp(name.str, "uuid") == 0 || strcmp(name.str, "inet6") == 0 || strcmp(name.str, "inet4") == 0;
}

/* Text whose bytes are in the order of the collation, save for trailing spaces. */
bool is_byte_ordered(CHARSET_INFO *cs) {
  if (!(cs->state & MY_CS_BINSORT)) return false;
  return cs->mbmaxlen == 1 || strncmp(cs->cs_name.str, "utf8", 4) == 0;
}

/* The two collations of tis620 that are no _bin: they move the tone marks to the string's end. */
bool is_thai(CHARSET_INFO *cs) {
  return strcmp(cs->cs_name.str, "tis620") == 0 && (cs->state & MY_CS_NON1TO1);
}

/*
  CHAR is compared with its padding, whatever the collation says. Where all characters have one
  weight, that is PAD SPACE. In a NO PAD collation with expansions, contractions or ignorable
  characters, strings that PAD SPACE finds equal may have different numbers of spaces ('ss' has one
  less than U+00DF) and differ then: the number counts. In Thai the tone marks stand after the
  spaces.
*/
bool is_filled(const KeyPart &part) {
  constexpr uint state = MY_CS_NOPAD | MY_CS_NON1TO1;
  return part.storage == KeyPart::Storage::CHAR &&
         ((part.charset->state & state) == state || is_thai(part.charset));
}

void compile_text(KeyPart *part) {
  CHARSET_INFO *cs = part->charset;
  part->unit = 1;
  part->levels = 1;
  part->pad_space = !(cs->state & MY_CS_NOPAD) || part->storage == KeyPart::Storage::CHAR;
  part->trim = part->pad_space;
  if (cs == &my_charset_bin) {
    part->kind = KeyPart::Kind::BYTES;
    part->pad_space = part->trim = false;
    return;
  }
  if (is_byte_ordered(cs)) {
    part->kind = KeyPart::Kind::TEXT_BYTES;
    part->space_weight[0] = ' ';
    return;
  }
  part->kind = KeyPart::Kind::WEIGHTS;
  /* The Czech collations of the 1990s write all of their levels at once and know no flags. */
  const bool all_at_once = cs->state & MY_CS_STRNXFRM_BAD_NWEIGHTS;
  const bool several = cs->levels_for_order > 1 && !all_at_once;
  part->levels = several ? cs->levels_for_order : 1;

  uchar space[16], weights[64];
  const int space_size = cs->cset->wc_mb(cs, ' ', space, space + sizeof space);
  for (uint level = 0; level < MY_STRXFRM_NLEVELS; level++) {
    if (!(part->levels & (1U << level))) continue;
    bool cut;
    const size_t size = write_weights(cs, weights, sizeof weights, space, space_size > 0 ? space_size : 0,
                                      several ? MY_STRXFRM_LEVEL1 << level : 0, &cut);
    if (level == 0) part->unit = (size >= 1 && size <= 4 && !all_at_once) ? static_cast<uchar>(size) : 1;
    if (all_at_once || size != part->unit) {
      /* No weight to pad with: order without padding; trailing spaces were cut off before. */
      if (level == 0) part->pad_space = false;
      continue;
    }
    part->space_weight[level] = 0;
    for (size_t i = 0; i < size; i++) part->space_weight[level] = part->space_weight[level] << 8 | weights[i];
  }
  if (part->space_weight[0] == 0) part->pad_space = false;
  if (is_filled(*part)) {
    part->filled = true;
    part->pad_space = part->trim = false;
  }
  /* The server compares Thai without padding by strcmp(), save in CHAR. */
  part->ends_at_nul = is_thai(cs) && (cs->state & MY_CS_NOPAD) && !part->filled;
}

}  // namespace

KeyPart compile_key_part(TABLE *table, const KEY_PART_INFO &key_part) {
  /* Parts over a prefix have a shortened copy in key_part.field; the column itself is meant here.
   */
  return compile_key_part(table->field[key_part.fieldnr - 1], table->record[0], key_part);
}

KeyPart compile_key_part(Field *field, const uchar *record, const KEY_PART_INFO &key_part) {
  KeyPart part{};
  part.field = field;
  part.field_index = field->field_index;
  part.charset = field->charset();
  part.record_offset = static_cast<uint>(field->ptr - record);
  part.nullable = field->real_maybe_null();
  part.null_bit = field->null_bit;
  part.null_offset = part.nullable ? static_cast<uint>(field->null_ptr - record) : 0;
  part.descending = key_part.key_part_flag & HA_REVERSE_SORT;
  part.part_length = key_part.length;
  part.image_size = key_part.store_length;
  part.width = field->pack_length();
  part.storage = KeyPart::Storage::FIXED;
  part.unit = 1;
  part.levels = 1;
  part.prefix = key_part.length != field->key_length();
  part.covering = column_can_cover(field) && !part.prefix;

  if (field->flags & BLOB_FLAG) {
    part.storage = KeyPart::Storage::BLOB;
    part.blob_length_bytes = static_cast<uchar>(field->pack_length() - portable_sizeof_char_ptr);
    part.width = 0;
    compile_text(&part);
  } else {
    switch (field->real_type()) {
      case MYSQL_TYPE_TINY:
      case MYSQL_TYPE_SHORT:
      case MYSQL_TYPE_INT24:
      case MYSQL_TYPE_LONG:
      case MYSQL_TYPE_LONGLONG:
        part.kind = (field->flags & UNSIGNED_FLAG) ? KeyPart::Kind::UNSIGNED : KeyPart::Kind::SIGNED;
        break;
      case MYSQL_TYPE_YEAR:
      case MYSQL_TYPE_NEWDATE:
      case MYSQL_TYPE_ENUM:
      case MYSQL_TYPE_SET:
        part.kind = KeyPart::Kind::UNSIGNED;
        break;
      case MYSQL_TYPE_TIME2:
      case MYSQL_TYPE_DATETIME2:
      case MYSQL_TYPE_TIMESTAMP2:
      case MYSQL_TYPE_NEWDECIMAL:
      case MYSQL_TYPE_BIT: /* all bits in the record: the table does not declare HA_CAN_BIT_FIELD */
        part.kind = KeyPart::Kind::RAW;
        break;
      case MYSQL_TYPE_FLOAT:
        part.kind = KeyPart::Kind::FLOAT;
        break;
      case MYSQL_TYPE_DOUBLE:
        part.kind = KeyPart::Kind::DOUBLE;
        break;
      case MYSQL_TYPE_VARCHAR: {
        const uint length_bytes = static_cast<Field_varstring *>(field)->length_bytes;
        part.storage = length_bytes == 1 ? KeyPart::Storage::VARCHAR1 : KeyPart::Storage::VARCHAR2;
        part.width = field->field_length;
        compile_text(&part);
        break;
      }
      case MYSQL_TYPE_STRING:
        if (field->type_handler() == &type_handler_string) {
          if (part.charset == &my_charset_bin) {
            part.kind = KeyPart::Kind::RAW;
            part.width = key_part.length; /* the first bytes, in a part over a prefix */
          } else {
            part.storage = KeyPart::Storage::CHAR;
            compile_text(&part);
          }
          break;
        }
        if (is_plain_fixed_binary(field)) {
          part.kind = KeyPart::Kind::RAW;
          break;
        }
        part.kind = KeyPart::Kind::IMAGE;
        part.sort_size = field->sort_length();
        break;
      default: /* formats of older servers, types of plugins */
        part.kind = KeyPart::Kind::IMAGE;
        part.sort_size = field->sort_length();
    }
  }
  if ((part.prefix || part.filled) && is_string(part) && part.charset->mbmaxlen > 1)
    part.characters = key_part.length / part.charset->mbmaxlen;
  part.encoded_size = is_fixed(part.kind) && !part.nullable ? value_size(part) : 0;
  return part;
}

bool column_can_cover(const Field *field) { return !(field->flags & BLOB_FLAG); }

/* ---- where a value stands ---- */

namespace {

/*
  A part over a prefix spans so many characters (bytes where a character is one byte). So does
  CHAR: its bytes in the record are enough for the widest characters, and all after is space.
*/
Slice cut_to_part(const KeyPart &part, Slice text) {
  if (!part.prefix && !part.filled) return text;
  if (part.characters != 0) {
    const char *at = reinterpret_cast<const char *>(text.data);
    const size_t most = part.charset->charpos(at, at + text.size, part.characters);
    if (text.size > most) text.size = most;
  } else if (text.size > part.part_length) {
    text.size = part.part_length;
  }
  return text;
}

/* The whole string in the record. */
Slice record_string(const KeyPart &part, const uchar *record) {
  const uchar *at = record + part.record_offset;
  switch (part.storage) {
    case KeyPart::Storage::VARCHAR1:
      return {at + 1, std::min<size_t>(*at, part.width)};
    case KeyPart::Storage::VARCHAR2:
      return {at + 2, std::min<size_t>(uint2korr(at), part.width)};
    case KeyPart::Storage::BLOB: {
      size_t size = 0;
      for (uint i = part.blob_length_bytes; i-- > 0;) size = size << 8 | at[i];
      const uchar *data;
      memcpy(&data, at + part.blob_length_bytes, sizeof data);
      return {data, size};
    }
    default:
      return {at, part.width};
  }
}

size_t size_without_spaces(const KeyPart &part, Slice text) {
  return part.charset->lengthsp(reinterpret_cast<const char *>(text.data), text.size);
}

size_t trimmed_size(const KeyPart &part, Slice text) {
  return part.trim ? size_without_spaces(part, text) : text.size;
}

/* ---- encoding ---- */

/* One level's weights, the first `size` bytes of `weights`. */
template <uint UNIT>
void append_level(const ByteBuffer &weights, size_t size, bool filled, bool pad, uint space,
                  ByteBuffer *out) {
  if (unlikely(filled))
    append_filled_units<UNIT>(weights.data(), size, space, out);
  else
    append_units<UNIT>(weights.data(), size, pad, space, out);
}

void append_string(const KeyPart &part, Slice text, ByteBuffer *out, ByteBuffer *scratch) {
  text.size = trimmed_size(part, text);
  if (part.kind != KeyPart::Kind::WEIGHTS) {
    append_units<1>(text.data, text.size, part.pad_space, part.space_weight[0], out);
    return;
  }
  const bool several = part.levels > 1;
  for (uint level = 0; part.levels >> level; level++) {
    if (!(part.levels & (1U << level))) continue;
    size_t size;
    size_t room = std::max<size_t>(part.charset->strnxfrmlen(text.size), 2 * text.size + 16);
    for (;;) {
      scratch->clear();
      bool cut;
      size = write_weights(part.charset, scratch->reserve(room), room, text.data, text.size,
                           several ? MY_STRXFRM_LEVEL1 << level : 0, &cut);
      /* strnxfrmlen() is a usual bound, not a proof: some characters expand to 18 weights. */
      if (!cut) break;
      room *= 2;
    }
    if (unlikely(part.ends_at_nul)) size = strnlen(reinterpret_cast<const char *>(scratch->data()), size);
    const bool pad = pads_level(part, level);
    const bool filled = fills_level(part, level);
    const uint space = part.space_weight[level];
    switch (part.unit) {
      case 1:
        append_level<1>(*scratch, size, filled, pad, space, out);
        break;
      case 2:
        append_level<2>(*scratch, size, filled, pad, space, out);
        break;
      case 3:
        append_level<3>(*scratch, size, filled, pad, space, out);
        break;
      default:
        append_level<4>(*scratch, size, filled, pad, space, out);
        break;
    }
  }
}

void encode_fixed(const KeyPart &part, const uchar *value, uchar *to) {
  switch (part.kind) {
    case KeyPart::Kind::UNSIGNED:
      copy_reversed(to, value, part.width);
      break;
    case KeyPart::Kind::SIGNED:
      copy_reversed(to, value, part.width);
      to[0] ^= SIGN;
      break;
    case KeyPart::Kind::FLOAT:
      encode_float<uint32>(to, value);
      break;
    case KeyPart::Kind::DOUBLE:
      encode_float<uint64>(to, value);
      break;
    case KeyPart::Kind::IMAGE: {
      Field *field = part.field;
      uchar *const home = field->ptr;
      field->move_field(const_cast<uchar *>(value));
      field->sort_string(to, part.sort_size);
      field->move_field(home);
      break;
    }
    default:
      memcpy(to, value, part.width);
  }
}

void append_null(const KeyPart &part, ByteBuffer *out) { out->append_byte(NULL_MARK ^ mask_of(part)); }

}  // namespace

/* A string's value is cut to the part already. */
void append_value(const KeyPart &part, Slice value, ByteBuffer *out, ByteBuffer *scratch) {
  const size_t start = out->size();
  if (part.nullable) out->append_byte(NOT_NULL_MARK);
  if (is_string(part)) {
    append_string(part, value, out, scratch);
  } else {
    const uint size = value_size(part);
    encode_fixed(part, value.data, out->reserve(size));
    out->grow_by(size);
  }
  if (part.descending)
    for (uchar *at = out->data() + start, *end = out->data() + out->size(); at < end; at++) *at ^= 0xff;
}

Slice record_value(const KeyPart &part, const uchar *record) {
  return cut_to_part(part, record_string(part, record));
}

void append_part(const KeyPart &part, const uchar *record, ByteBuffer *out, ByteBuffer *scratch) {
  if (part.is_null(record)) return append_null(part, out);
  append_value(part, record_value(part, record), out, scratch);
}

bool append_image_part(const KeyPart &part, const uchar *image, ByteBuffer *out, ByteBuffer *scratch) {
  if (part.nullable) {
    if (*image != 0) {
      append_null(part, out);
      return true;
    }
    image++;
  }
  Slice value{image, part.width};
  if (part.storage == KeyPart::Storage::CHAR)
    value.size = part.part_length;
  else if (part.storage != KeyPart::Storage::FIXED)
    value = {image + HA_KEY_BLOB_LENGTH, std::min<size_t>(uint2korr(image), part.part_length)};
  append_value(part, is_string(part) ? cut_to_part(part, value) : value, out, scratch);
  return false;
}

bool can_stand_for(const KeyPart &of, const KeyPart &in, KeyPart *as) {
  if (of.prefix || in.prefix || is_string(of) != is_string(in)) return false;
  if (is_string(of)) {
    if (of.charset != in.charset) return false;
    *as = in;
    as->field = of.field;
    return true;
  }
  if (of.kind != in.kind || of.width != in.width || of.sort_size != in.sort_size) return false;
  const bool same_type = of.field->real_type() == in.field->real_type() &&
                         of.field->decimals() == in.field->decimals() &&
                         of.field->type_handler() == in.field->type_handler();
  if (!same_type && of.kind != KeyPart::Kind::UNSIGNED && of.kind != KeyPart::Kind::SIGNED) return false;
  *as = of;
  as->nullable = in.nullable;
  as->descending = in.descending;
  return true;
}

/* ---- walking and decoding ---- */

namespace {

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

bool part_has_unpack(const KeyPart &part) {
  if (!part.covering) return false;
  switch (part.kind) {
    case KeyPart::Kind::FLOAT:
    case KeyPart::Kind::DOUBLE:
    case KeyPart::Kind::IMAGE:
    case KeyPart::Kind::WEIGHTS:
      return true;
    case KeyPart::Kind::TEXT_BYTES:
      return part.pad_space && part.storage != KeyPart::Storage::CHAR;
    default:
      return false;
  }
}

void append_unpack_part(const KeyPart &part, const uchar *record, ByteBuffer *out) {
  if (!part_has_unpack(part) || part.is_null(record)) return;
  const Slice value = record_string(part, record);
  switch (part.kind) {
    case KeyPart::Kind::FLOAT:
    case KeyPart::Kind::DOUBLE:
      out->append_byte(is_negative_zero(part, value.data));
      break;
    case KeyPart::Kind::IMAGE:
      out->append(value.data, part.width);
      break;
    case KeyPart::Kind::TEXT_BYTES: {
      uchar *to = out->reserve(MAX_VARINT_SIZE);
      out->set_end(write_varint(to, value.size - trimmed_size(part, value)));
      break;
    }
    default: {
      const size_t size =
          part.storage == KeyPart::Storage::CHAR ? size_without_spaces(part, value) : value.size;
      uchar *to = out->reserve(MAX_VARINT_SIZE + size);
      to = write_varint(to, size);
      memcpy(to, value.data, size);
      out->set_end(to + size);
    }
  }
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

bool part_is_self_contained(const KeyPart &part) {
  return part.covering && !part.nullable && part.kind <= KeyPart::Kind::RAW;
}

}  // namespace tidesdb

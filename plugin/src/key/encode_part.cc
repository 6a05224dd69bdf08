/*
  Column values to the bytes of a key, in memcmp order, and what is kept beside them to give the values back.
*/
#include "key/key_part.h"

#include "key/part_shape.h"
#include "key/units.h"
#include "server.h"

namespace tidesdb {

namespace {

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

bool is_negative_zero(const KeyPart &part, const uchar *value) {
  if (value[part.width - 1] != SIGN) return false;
  for (uint i = 0; i + 1 < part.width; i++)
    if (value[i] != 0) return false;
  return true;
}

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

}  // namespace tidesdb

/*
  What encoding and decoding of a key part have in common: the bytes of NULL, their order, widths and padding.
  For key/key_part.cc, key/encode_part.cc and key/decode_part.cc.
*/
#ifndef TIDESDB_KEY_PART_SHAPE_H
#define TIDESDB_KEY_PART_SHAPE_H

#include "key/key_part.h"

namespace tidesdb {

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

inline bool is_fixed(KeyPart::Kind kind) { return kind < KeyPart::Kind::BYTES; }

inline bool is_string(const KeyPart &part) { return !is_fixed(part.kind); }

/* With all the spaces that fill it up. */
inline bool fills_level(const KeyPart &part, uint level) {
  return part.filled && part.space_weight[level] != 0;
}

/* NO PAD speaks of the first level only; the server compares the others padded (save in `filled`). */
inline bool pads_level(const KeyPart &part, uint level) {
  return level == 0 ? part.pad_space : part.space_weight[level] != 0;
}

inline uint value_size(const KeyPart &part) {
  return part.kind == KeyPart::Kind::IMAGE ? part.sort_size : part.width;
}

}  // namespace tidesdb
#endif

/*
  A hash of bytes, for tables and sums in memory (after splitmix64). Nothing stores it.
*/
#ifndef TIDESDB_KEY_HASH_H
#define TIDESDB_KEY_HASH_H

#include <algorithm>
#include <cstring>

#include "key/bytes.h"

namespace tidesdb {

inline uint64_t mix_hash(uint64_t hash) {
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
  return hash ^ (hash >> 31);
}

/* Up to 8 bytes as a number: another one for other bytes of the same size. */
inline uint64_t number_of_bytes(const uchar *bytes, size_t size) {
  if (size == 8) {
    uint64_t number;
    memcpy(&number, bytes, 8);
    return number;
  }
  if (size >= 4) {
    uint32_t first, last;
    memcpy(&first, bytes, 4);
    memcpy(&last, bytes + size - 4, 4);
    return uint64_t{last} << 32 | first;
  }
  return size == 0 ? 0 : bytes[size - 1] << 16 | bytes[size / 2] << 8 | bytes[0];
}

/* Goes on from `hash`, the one of what came before. */
inline uint64_t hash_of(Slice bytes, uint64_t hash) {
  hash += bytes.size;
  for (size_t at = 0; at < bytes.size; at += 8) {
    const uint64_t number = number_of_bytes(bytes.data + at, std::min<size_t>(8, bytes.size - at));
    hash = mix_hash(hash ^ number) + 0x9e3779b97f4a7c15ULL;
  }
  return hash;
}

}  // namespace tidesdb
#endif

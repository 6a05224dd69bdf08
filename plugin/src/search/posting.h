/*
  A posting: what the entry of a word and a row says of the word in the row. The entry's value is one byte,
  the class of the row's number of different words, and the word's positions, each as a varint of its distance
  from the one before.
*/
#ifndef TIDESDB_SEARCH_POSTING_H
#define TIDESDB_SEARCH_POSTING_H

#include <cstdint>
#include <vector>

#include "key/bytes.h"

namespace tidesdb {

/* Of a word that a row has more often, the first ones are kept: more change neither score nor phrases. */
constexpr size_t MOST_POSITIONS = 10000;

/* Classes of lengths: exact below 16, then eight for each power of two (as Lucene's norms). */
inline uchar length_class(uint32_t length) {
  if (length < 8) return static_cast<uchar>(length);
  const uint shift = 28 - static_cast<uint>(__builtin_clz(length));
  return static_cast<uchar>((shift + 1) << 3 | ((length >> shift) & 7));
}
inline uint32_t length_of_class(uchar of) {
  const uint bits = of & 7, shift = of >> 3;
  return shift == 0 ? bits : (bits | 8) << (shift - 1);
}

struct Posting {
  uint32_t length;    /* different words of the row, by class */
  uint32_t frequency; /* of the word in the row */
  Slice positions;    /* encoded */
};

/* False: damaged. */
inline bool read_posting(Slice value, Posting *posting) {
  if (value.size < 2) return false;
  posting->length = length_of_class(value.data[0]);
  posting->positions = {value.data + 1, value.size - 1};
  uint32_t frequency = 0;
  for (size_t i = 0; i < posting->positions.size; i++) frequency += posting->positions.data[i] < 0x80;
  posting->frequency = frequency;
  return true;
}

/* Appends the positions. */
inline bool read_positions(Slice encoded, std::vector<uint32_t> *positions) {
  const uchar *at = encoded.data, *const end = encoded.data + encoded.size;
  ulonglong position = 0, distance;
  while (at < end) {
    if (!read_varint(&at, end, &distance)) return false;
    position += distance;
    positions->push_back(static_cast<uint32_t>(position));
  }
  return true;
}

}  // namespace tidesdb
#endif

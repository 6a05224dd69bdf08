/*
  Strings in keys: a sequence of units (bytes, or weights of a collation) made self-delimiting in
  such a way that memcmp of two results is the order of the strings (docs/format/rows.md, "Escaped
  bytes and units").

  One unit, E, is followed by a marker that says whether it belongs to the string or ends it. NO
  PAD: E is the lowest unit, 0, and the end sorts below everything. PAD SPACE: E is the space, and
  the markers say how the rest of the string compares with spaces without end. FILLED: NO PAD, for
  strings that may end in many spaces; a run of spaces is one space, a marker that says how the rest
  after the run compares with a space, and the run's length.

  UNIT is the number of bytes of a unit in the weight string; units of two bytes are rewritten to
  one, two or three that sort alike.
*/
#ifndef TIDESDB_KEY_UNITS_H
#define TIDESDB_KEY_UNITS_H

#include "key/bytes.h"

namespace tidesdb {

constexpr uchar END_NO_PAD = 0x01;
constexpr uchar INSIDE_NO_PAD = 0xff;
constexpr uchar REST_BELOW_SPACES = 0x01;
constexpr uchar END_PAD_SPACE = 0x02;
constexpr uchar REST_ABOVE_SPACES = 0x03;
constexpr uint RUN_LENGTH_SIZE = 2;

template <uint UNIT>
inline uint unit_at(const uchar *from, size_t index, size_t size) {
  uint unit = 0;
  for (uint i = 0; i < UNIT; i++) {
    const size_t at = index * UNIT + i;
    unit = unit << 8 | (at < size ? from[at] : 0);
  }
  return unit;
}
template <>
inline uint unit_at<1>(const uchar *from, size_t index, size_t) {
  return from[index];
}

template <uint UNIT>
inline uchar *put_unit(uchar *to, uint unit) {
  if (UNIT == 2) {
    if (unit < 0x80) {
      *to++ = static_cast<uchar>(unit);
    } else if (unit < 0x4000) {
      *to++ = static_cast<uchar>(0x80 | unit >> 8);
      *to++ = static_cast<uchar>(unit);
    } else {
      *to++ = 0xc0;
      *to++ = static_cast<uchar>(unit >> 8);
      *to++ = static_cast<uchar>(unit);
    }
    return to;
  }
  for (uint i = UNIT; i-- > 0;) *to++ = static_cast<uchar>(unit >> (8 * i));
  return to;
}

template <uint UNIT>
inline bool take_unit(const uchar **at, const uchar *end, uchar mask, uint *unit) {
  uint size = UNIT;
  if (*at >= end) return false;
  const uchar first = **at ^ mask;
  if (UNIT == 2) size = first < 0x80 ? 1 : first < 0xc0 ? 2 : 3;
  if (static_cast<size_t>(end - *at) < size) return false;
  uint value = 0;
  for (uint i = 0; i < size; i++) value = value << 8 | (*(*at)++ ^ mask);
  if (UNIT == 2) {
    if (size == 2) value &= 0x3fff;
    if (size == 3) value &= 0xffff;
  }
  *unit = value;
  return true;
}

/* Appends the `size` bytes at `from`, cut into units, with their end. */
template <uint UNIT>
void append_units(const uchar *from, size_t size, bool pad, uint space, ByteBuffer *out) {
  size_t count = (size + UNIT - 1) / UNIT;
  const uint escape = pad ? space : 0;
  if (pad)
    while (count != 0 && unit_at<UNIT>(from, count - 1, size) == space) count--;
  uchar *to = out->reserve((count + 1) * (UNIT + 2));
  for (size_t i = 0; i < count; i++) {
    const uint unit = unit_at<UNIT>(from, i, size);
    to = put_unit<UNIT>(to, unit);
    if (likely(unit != escape)) continue;
    if (!pad) {
      *to++ = INSIDE_NO_PAD;
      continue;
    }
    /* A run of spaces: all get the marker of what follows the run, which exists. */
    size_t next = i + 1;
    while (unit_at<UNIT>(from, next, size) == space) next++;
    const uchar marker = unit_at<UNIT>(from, next, size) < space ? REST_BELOW_SPACES : REST_ABOVE_SPACES;
    *to++ = marker;
    for (i++; i < next; i++) {
      to = put_unit<UNIT>(to, space);
      *to++ = marker;
    }
    i--;
  }
  to = put_unit<UNIT>(to, escape);
  *to++ = pad ? END_PAD_SPACE : END_NO_PAD;
  out->set_end(to);
}

/*
  The same for FILLED; `space` is not 0. Of two strings that differ after the same units and have
  runs of a and b spaces there, a < b, the first goes on where the second still has a space: it is
  the lower one exactly if it ends or goes on below a space. So runs with such a rest sort by their
  length, the others by its complement.
*/
template <uint UNIT>
void append_filled_units(const uchar *from, size_t size, uint space, ByteBuffer *out) {
  const size_t count = (size + UNIT - 1) / UNIT;
  uchar *to = out->reserve((count + 1) * (UNIT + 2 + RUN_LENGTH_SIZE));
  for (size_t i = 0; i < count;) {
    const uint unit = unit_at<UNIT>(from, i, size);
    to = put_unit<UNIT>(to, unit);
    if (likely(unit != space)) {
      if (unit == 0) *to++ = INSIDE_NO_PAD;
      i++;
      continue;
    }
    size_t next = i + 1;
    while (next < count && unit_at<UNIT>(from, next, size) == space) next++;
    /* A CHAR has 255 characters at most, and no character has so many weights. */
    DBUG_ASSERT(next - i <= UINT_MAX16);
    const bool above = next < count && unit_at<UNIT>(from, next, size) > space;
    const uint run = static_cast<uint>(next - i);
    *to++ = above ? REST_ABOVE_SPACES : REST_BELOW_SPACES;
    mi_int2store(to, above ? ~run : run);
    to += RUN_LENGTH_SIZE;
    i = next;
  }
  to = put_unit<UNIT>(to, 0);
  *to++ = END_NO_PAD;
  out->set_end(to);
}

/* Reads the marker after an E. */
enum class Mark { INSIDE, END, DAMAGED };
inline Mark take_mark(const uchar **at, const uchar *end, uchar mask, bool pad) {
  if (*at >= end) return Mark::DAMAGED;
  const uchar marker = *(*at)++ ^ mask;
  if (!pad) return marker == INSIDE_NO_PAD ? Mark::INSIDE : marker == END_NO_PAD ? Mark::END : Mark::DAMAGED;
  if (marker == END_PAD_SPACE) return Mark::END;
  return marker == REST_BELOW_SPACES || marker == REST_ABOVE_SPACES ? Mark::INSIDE : Mark::DAMAGED;
}

/* Moves *at after the end of the string; false: damaged. `mask` is 0xff in a descending part. */
template <uint UNIT>
bool skip_units(const uchar **at, const uchar *end, uchar mask, bool pad, uint space) {
  const uint escape = pad ? space : 0;
  for (;;) {
    uint unit;
    if (!take_unit<UNIT>(at, end, mask, &unit)) return false;
    if (likely(unit != escape)) continue;
    const Mark mark = take_mark(at, end, mask, pad);
    if (mark != Mark::INSIDE) return mark == Mark::END;
  }
}

/* The same for FILLED. */
template <uint UNIT>
bool skip_filled_units(const uchar **at, const uchar *end, uchar mask, uint space) {
  for (;;) {
    uint unit;
    if (!take_unit<UNIT>(at, end, mask, &unit)) return false;
    if (likely(unit != 0 && unit != space)) continue;
    const Mark mark = take_mark(at, end, mask, unit == space);
    if (unit == 0) {
      if (mark != Mark::INSIDE) return mark == Mark::END;
    } else {
      if (mark != Mark::INSIDE || static_cast<size_t>(end - *at) < RUN_LENGTH_SIZE) return false;
      *at += RUN_LENGTH_SIZE;
    }
  }
}

/* Gives back a string of bytes; it must fit into `room`. */
inline bool copy_units(const uchar **at, const uchar *end, uchar mask, bool pad, uint space, uchar *to,
                       size_t room, size_t *size) {
  const uchar escape = static_cast<uchar>(pad ? space : 0);
  size_t count = 0;
  for (;;) {
    if (*at >= end) return false;
    const uchar byte = *(*at)++ ^ mask;
    if (byte == escape) {
      const Mark mark = take_mark(at, end, mask, pad);
      if (mark == Mark::DAMAGED) return false;
      if (mark == Mark::END) break;
    }
    if (count == room) return false;
    to[count++] = byte;
  }
  *size = count;
  return true;
}

}  // namespace tidesdb
#endif

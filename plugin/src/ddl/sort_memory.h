/*
  Memory of a sort: entries from its front, their places from its end. Bytes that have no such place stand
  among the entries.

  It is a mapping of its own, whose pages come with their first use. The server's malloc would keep what a
  sort gives back: the more, the larger the piece.
*/
#ifndef TIDESDB_DDL_SORT_MEMORY_H
#define TIDESDB_DDL_SORT_MEMORY_H

#include "key/bytes.h"

namespace tidesdb {

class SortMemory {
 public:
  SortMemory() = default;
  ~SortMemory() { release(); }
  SortMemory(const SortMemory &) = delete;
  SortMemory &operator=(const SortMemory &) = delete;

  /* Makes it as large as this, which loses the content; false: the kernel has no memory, and the client has
     been told. */
  bool make(size_t capacity);
  /* Makes it larger, and keeps the content. */
  bool grow(size_t capacity);
  void release();
  void clear() { used_ = count_ = 0; }

  size_t capacity() const { return capacity_; }
  size_t count() const { return count_; }
  /* Bytes of the entries and their places. */
  size_t taken() const { return used_ + count_ * sizeof(size_t); }
  bool has_room(size_t bytes) const { return capacity_ - taken() >= bytes + sizeof(size_t); }

  /* A new entry of so many bytes, for which there is room. */
  uchar *add(size_t bytes) {
    count_++;
    places()[0] = used_;
    uchar *entry = data_ + used_;
    used_ += bytes;
    return entry;
  }
  /* Bytes without such a place, for which there is room: where they begin. */
  size_t take(size_t bytes) {
    used_ += bytes;
    return used_ - bytes;
  }
  /* Where the entries begin, as many as there are: the last one first. */
  size_t *places() { return reinterpret_cast<size_t *>(data_ + capacity_) - count_; }
  size_t place_of(size_t entry) { return places()[count_ - 1 - entry]; }
  const uchar *at(size_t place) const { return data_ + place; }
  uchar *at(size_t place) { return data_ + place; }

 private:
  uchar *data_ = nullptr;
  size_t capacity_ = 0; /* a multiple of the places' alignment */
  size_t used_ = 0, count_ = 0;
};

}  // namespace tidesdb
#endif

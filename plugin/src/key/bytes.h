/*
  Bytes handed between the codecs and the engine: a borrowed range and a buffer that is filled and
  reused.

  ByteBuffer gives memory back when it is destroyed or told to, so a buffer that lives with a handler
  stops allocating after the first rows. Running out of memory ends the server, as everywhere in the
  server's own row code (MY_FAE): there is no state to unwind to.
*/
#ifndef TIDESDB_KEY_BYTES_H
#define TIDESDB_KEY_BYTES_H

#include <my_global.h>
#include <my_sys.h>

#include <cstring>
#include <string>

#include "tidesdb.h"

namespace tidesdb {

using Slice = ::tidesdb_slice;

inline Slice slice_of(const std::string &text) {
  return {reinterpret_cast<const uchar *>(text.data()), text.size()};
}
inline std::string string_of(Slice bytes) {
  return std::string(reinterpret_cast<const char *>(bytes.data), bytes.size);
}

inline bool same_bytes(Slice a, Slice b) {
  return a.size == b.size && (a.size == 0 || !memcmp(a.data, b.data, a.size));
}

/* The engine's order of keys: <0, 0, >0. */
inline int compare_bytes(Slice a, Slice b) {
  const size_t common = a.size < b.size ? a.size : b.size;
  const int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
  if (order != 0 || a.size == b.size) return order;
  return a.size < b.size ? -1 : 1;
}

/* The first bytes of a key, so that numbers are in the order of keys; those of a key and of one that goes on
   from it by zero bytes are equal. */
inline uint64_t key_head(Slice key) {
  uint64_t head = 0;
  if (key.size >= sizeof head) {
    memcpy(&head, key.data, sizeof head);
    return __builtin_bswap64(head);
  }
  for (size_t i = 0; i < sizeof head; i++) head = head << 8 | (i < key.size ? key.data[i] : 0);
  return head;
}

class ByteBuffer {
 public:
  ByteBuffer() = default;
  ~ByteBuffer() { my_free(data_); }
  ByteBuffer(const ByteBuffer &) = delete;
  ByteBuffer &operator=(const ByteBuffer &) = delete;
  ByteBuffer(ByteBuffer &&other) noexcept
      : data_(other.data_), size_(other.size_), capacity_(other.capacity_) {
    other.data_ = nullptr;
    other.size_ = other.capacity_ = 0;
  }
  ByteBuffer &operator=(ByteBuffer &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  const uchar *data() const { return data_; }
  uchar *data() { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Slice slice() const { return {data_, size_}; }
  void clear() { size_ = 0; }

  /* Room for `more` bytes after the end; returns where they go. Follow with grow_by() or
   * set_end(). */
  uchar *reserve(size_t more) {
    if (capacity_ - size_ < more) enlarge(more);
    return data_ + size_;
  }
  void grow_by(size_t written) { size_ += written; }
  /* `end` is one past the last byte written into reserved room. */
  void set_end(const uchar *end) { size_ = static_cast<size_t>(end - data_); }
  /* Cuts back to the first `size` bytes. */
  void truncate(size_t size) { size_ = size; }

  /* Forgets the content; a buffer of more than `most` bytes goes. Returns whether it went. */
  bool release_beyond(size_t most) {
    size_ = 0;
    if (capacity_ <= most) return false;
    my_free(data_);
    data_ = nullptr;
    capacity_ = 0;
    return true;
  }

  void append(const void *bytes, size_t count) {
    uchar *to = reserve(count);
    if (count != 0) memcpy(to, bytes, count);
    size_ += count;
  }
  void append(Slice slice) { append(slice.data, slice.size); }
  void append_byte(uchar byte) {
    *reserve(1) = byte;
    size_++;
  }
  void assign(Slice slice) {
    clear();
    append(slice);
  }

 private:
  void enlarge(size_t more) {
    size_t wanted = capacity_ ? capacity_ * 2 : 64;
    while (wanted - size_ < more) wanted *= 2;
    data_ = static_cast<uchar *>(
        my_realloc(PSI_NOT_INSTRUMENTED, data_, wanted, MYF(MY_FAE | MY_ALLOW_ZERO_PTR)));
    capacity_ = wanted;
  }

  uchar *data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

/* Unsigned LEB128 of up to 64 bits, shortest form. */
constexpr size_t MAX_VARINT_SIZE = 10;

inline uchar *write_varint(uchar *to, ulonglong value) {
  while (value >= 0x80) {
    *to++ = static_cast<uchar>(value) | 0x80;
    value >>= 7;
  }
  *to++ = static_cast<uchar>(value);
  return to;
}

/* Moves *from past the varint; false if the bytes end inside of it or it is too long. */
inline bool read_varint(const uchar **from, const uchar *end, ulonglong *value) {
  const uchar *at = *from;
  if (at < end && *at < 0x80) {
    *value = *at;
    *from = at + 1;
    return true;
  }
  ulonglong result = 0;
  for (uint shift = 0; shift < 64 && at < end; shift += 7) {
    const uchar byte = *at++;
    result |= static_cast<ulonglong>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      *from = at;
      return true;
    }
  }
  return false;
}

}  // namespace tidesdb
#endif

/*
  Values of one foreign key that a statement's rows refer to, and whose parents are looked for later, many at
  a time and in the order of the parents: neighbours stand in one block of the parent's table, while each
  search for one value alone waits for other memory.

  Each has the place of the first row that refers to it, so that the first row without a parent can be told.
*/
#ifndef TIDESDB_FOREIGN_PENDING_VALUES_H
#define TIDESDB_FOREIGN_PENDING_VALUES_H

#include <algorithm>
#include <vector>

#include "key/bytes.h"

namespace tidesdb {

class PendingValues {
 public:
  /* Longer ones are not put off. */
  static constexpr size_t LONGEST = 256;

  bool is_empty() const { return entries_.empty(); }
  /* Time to look. */
  bool is_full() const { return entries_.size() >= most_ || bytes_.size() >= MOST_BYTES; }

  /* `row`: its number, ascending. */
  void add(Slice value, uint row) {
    if (!entries_.empty()) {
      const int order = compare_bytes(last(), value);
      if (order == 0) return;
      ascending_ = ascending_ && order < 0;
    }
    entries_.push_back({prefix_of(value), static_cast<uint>(bytes_.size()), row});
    bytes_.append_byte(static_cast<uchar>(value.size - 1));
    bytes_.append(value);
  }

  /* Calls `take(value, row)` for each value, once and in their order, with the first row that refers to it,
     as long as that returns 0. Values stay where they are until clear(). Returns what `take` did. */
  template <typename Take>
  int for_each(const Take &take) {
    sort();
    for (size_t i = 0; i < entries_.size(); i++) {
      const Entry &entry = entries_[i];
      const Slice value = value_at(entry.offset);
      const bool is_new = i == 0 || entry.prefix != entries_[i - 1].prefix ||
                          !same_bytes(value, value_at(entries_[i - 1].offset));
      if (is_new)
        if (const int result = take(value, entry.row)) return result;
    }
    return 0;
  }

  /* They have been looked for. */
  void clear() {
    entries_.clear();
    bytes_.clear();
    ascending_ = true;
    most_ = MOST;
  }

 private:
  /* The first look comes when so many value locks of one key become one lock (docs/protocols.md 4.14).
     Later, the locks of their rows would come before that, and a statement near the bound on locks would get
     one on its table (4.10). With more values at a time more of them are neighbours. */
  static constexpr size_t FIRST = 10000, MOST = 32 << 10, MOST_BYTES = 512 << 10;

  struct Entry {
    ulonglong prefix; /* of the value, in its order */
    uint offset;      /* in `bytes_`: the length less one, then the value */
    uint row;
  };

  static ulonglong prefix_of(Slice value) {
    uchar bytes[8]{};
    memcpy(bytes, value.data, std::min<size_t>(value.size, sizeof(bytes)));
    return mi_uint8korr(bytes);
  }

  void sort() {
    if (ascending_) return;
    std::sort(entries_.begin(), entries_.end(), [this](const Entry &a, const Entry &b) {
      if (a.prefix != b.prefix) return a.prefix < b.prefix;
      const int order = compare_bytes(value_at(a.offset), value_at(b.offset));
      return order < 0 || (order == 0 && a.row < b.row);
    });
    ascending_ = true;
  }

  Slice value_at(uint offset) const {
    const uchar *const at = bytes_.data() + offset;
    return {at + 1, static_cast<size_t>(*at) + 1};
  }

  Slice last() const { return value_at(entries_.back().offset); }

  std::vector<Entry> entries_;
  ByteBuffer bytes_;
  bool ascending_ = true;
  size_t most_ = FIRST;
};

}  // namespace tidesdb
#endif

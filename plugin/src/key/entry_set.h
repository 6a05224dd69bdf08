/*
  The entries of one row in one index, and the difference between those of two versions of a row.

  A row has any number of entries, in most indexes one. The set is used again for row after row: it allocates
  nothing once its buffers have grown.
*/
#ifndef TIDESDB_KEY_ENTRY_SET_H
#define TIDESDB_KEY_ENTRY_SET_H

#include <algorithm>
#include <vector>

#include "key/bytes.h"

namespace tidesdb {

class EntrySet {
 public:
  struct Entry {
    ByteBuffer key, value;
    bool decides = false; /* no other row may have the key: it is written with TIDESDB_INSERT */
  };

  EntrySet() : entries_(1) {}

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Entry &operator[](size_t place) { return entries_[place]; }
  const Entry &operator[](size_t place) const { return entries_[place]; }
  Entry *begin() { return entries_.data(); }
  Entry *end() { return entries_.data() + count_; }
  const Entry *begin() const { return entries_.data(); }
  const Entry *end() const { return entries_.data() + count_; }

  void clear() { count_ = 0; }
  /* One more entry, with empty key and value. It lives where it is until the next call. */
  Entry &add() {
    if (count_ == entries_.size()) entries_.emplace_back();
    Entry &entry = entries_[count_++];
    entry.key.clear();
    entry.value.clear();
    entry.decides = false;
    return entry;
  }
  /* After the last add(): brings the entries into the order of their keys, as the calls below need it. */
  void sort() {
    const auto before = [](const Entry &a, const Entry &b) {
      return compare_bytes(a.key.slice(), b.key.slice()) < 0;
    };
    if (count_ > 1 && !std::is_sorted(begin(), end(), before)) std::sort(begin(), end(), before);
  }

  /* The entry with this key; nullptr: the row has none. */
  const Entry *find(Slice key) const {
    const Entry *const at = std::lower_bound(begin(), end(), key, [](const Entry &entry, Slice sought) {
      return compare_bytes(entry.key.slice(), sought) < 0;
    });
    return at != end() && same_bytes(at->key.slice(), key) ? at : nullptr;
  }

  /* Forgets the entries; buffers of more than `most` bytes go, and so do those of many entries. */
  void release_beyond(size_t most) {
    count_ = 0;
    if (entries_.size() > MOST_KEPT) entries_.resize(MOST_KEPT);
    for (Entry &entry : entries_)
      for (ByteBuffer *buffer : {&entry.key, &entry.value}) buffer->release_beyond(most);
  }

 private:
  /* Between statements: those of a short text's words. */
  static constexpr size_t MOST_KEPT = 64;

  std::vector<Entry> entries_; /* the first `count_` are the row's */
  size_t count_ = 0;
};

/*
  Goes through what a change of a row does to its entries in one index: gone(old entry) for each key that only
  the old row has, all of them first; then, in the order of the keys, stays(old entry, new entry) for each one
  that both have, and comes(new entry). Returns the first result other than 0, and ends with it.
*/
template <class Gone, class Stays, class Comes>
int for_each_difference(const EntrySet &before, const EntrySet &after, Gone gone, Stays stays, Comes comes) {
  if (before.size() == 1 && after.size() == 1) {
    if (same_bytes(before[0].key.slice(), after[0].key.slice())) return stays(before[0], after[0]);
    if (const int result = gone(before[0])) return result;
    return comes(after[0]);
  }
  const EntrySet::Entry *there = after.begin();
  for (const EntrySet::Entry &entry : before) {
    while (there != after.end() && compare_bytes(there->key.slice(), entry.key.slice()) < 0) there++;
    if (there != after.end() && same_bytes(there->key.slice(), entry.key.slice())) continue;
    if (const int result = gone(entry)) return result;
  }
  const EntrySet::Entry *old = before.begin();
  for (const EntrySet::Entry &entry : after) {
    while (old != before.end() && compare_bytes(old->key.slice(), entry.key.slice()) < 0) old++;
    const bool both = old != before.end() && same_bytes(old->key.slice(), entry.key.slice());
    if (const int result = both ? stays(*old, entry) : comes(entry)) return result;
  }
  return 0;
}

/* What a change of a row asks of its entries, besides what their columns do. */
struct RowChange {
  uint64_t old_expiry = 0, new_expiry = 0; /* 0: the row does not expire */
  /* The transaction has taken versions newer than its snapshot, which may lack entries of the row. Those
     among its own changes count then, so that all of them have to be there. */
  bool passed_snapshot = false;

  /* A row and its entries expire together. Of a row that expires, and that the snapshot may not have, another
     row may hold a unique key by now, which the same look finds out. */
  bool renews() const { return old_expiry != new_expiry || (passed_snapshot && old_expiry != 0); }
  /* Whether entries are looked at whose columns stay as they are. */
  bool rewrites_equal() const { return renews() || passed_snapshot; }
};

/* Why an entry is written again under the key that it has. */
enum class Rewrite : uchar {
  NONE,          /* it stays as it is */
  RENEWED,       /* with another time of expiry */
  OTHER_VALUE,   /* bytes of the same weight, or the row has moved to another primary key */
  PAST_SNAPSHOT, /* the same bytes, to stand among the transaction's own changes */
};

inline Rewrite why_rewrite(const RowChange &change, const EntrySet::Entry &before,
                           const EntrySet::Entry &after) {
  if (change.renews()) return Rewrite::RENEWED;
  if (!same_bytes(before.value.slice(), after.value.slice())) return Rewrite::OTHER_VALUE;
  return change.passed_snapshot ? Rewrite::PAST_SNAPSHOT : Rewrite::NONE;
}

}  // namespace tidesdb
#endif

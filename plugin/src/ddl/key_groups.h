/*
  Entries of a sort whose keys begin alike, such as those of one word: found by a hash, in the order in which
  they came. Where what follows in the keys never came out of order, as rows do that are read by their keys,
  only the groups are to be sorted.
*/
#ifndef TIDESDB_DDL_KEY_GROUPS_H
#define TIDESDB_DDL_KEY_GROUPS_H

#include <algorithm>
#include <cstdint>
#include <vector>

#include "key/hash.h"

namespace tidesdb {

class KeyGroups {
 public:
  /* Of the entry with the next number, from 0 on; its group is the first `size` bytes of its key. */
  void add(Slice key, size_t size) {
    if (2 * (groups_.size() + 1) > slots_.size()) grow();
    const Slice group{key.data, size}, rest{key.data + size, key.size - size};
    const int order = compare_bytes(last_rest_.slice(), rest);
    in_order_ = in_order_ && order <= 0;
    if (order != 0) last_rest_.assign(rest);
    const uint32_t number = static_cast<uint32_t>(next_.size());
    next_.push_back(NONE);
    const uint64_t hash = hash_of(group, 0);
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == NONE) {
        slots_[at] = static_cast<uint32_t>(groups_.size());
        groups_.push_back({hash, bytes_.size(), static_cast<uint32_t>(size), number, number});
        bytes_.append(group);
        return;
      }
      Group &known = groups_[slots_[at]];
      if (known.hash != hash || !same_bytes(bytes_of(known), group)) continue;
      next_[known.last] = number;
      known.last = number;
      return;
    }
  }

  /* Whether the entries of each group came in the order of their keys, or of equal ones. */
  bool in_order() const { return in_order_; }
  size_t entries() const { return next_.size(); }
  size_t memory() const {
    return next_.capacity() * sizeof(uint32_t) + slots_.size() * sizeof(uint32_t) +
           groups_.capacity() * sizeof(Group) + bytes_.size();
  }

  /* Calls take(number) for all entries in the order of their keys, where these are in order in each group. No
     group's bytes are the first ones of another's. */
  template <class Take>
  void for_each(Take take) const {
    struct Place {
      uint64_t head;
      const Group *group;
    };
    std::vector<Place> sorted;
    sorted.reserve(groups_.size());
    for (const Group &group : groups_) sorted.push_back({key_head(bytes_of(group)), &group});
    std::sort(sorted.begin(), sorted.end(), [this](const Place &a, const Place &b) {
      return a.head != b.head ? a.head < b.head : compare_bytes(bytes_of(*a.group), bytes_of(*b.group)) < 0;
    });
    for (const Place &place : sorted)
      for (uint32_t number = place.group->first; number != NONE; number = next_[number]) take(number);
  }

  void clear() {
    next_.clear();
    groups_.clear();
    bytes_.clear();
    last_rest_.clear();
    std::fill(slots_.begin(), slots_.end(), NONE);
    in_order_ = true;
  }
  void release() { *this = KeyGroups(); }

 private:
  static constexpr uint32_t NONE = UINT32_MAX;
  static constexpr size_t FIRST_SLOTS = 1024;

  struct Group {
    uint64_t hash;
    size_t place; /* of its bytes */
    uint32_t size, first, last;
  };

  Slice bytes_of(const Group &group) const { return {bytes_.data() + group.place, group.size}; }

  void grow() {
    slots_.assign(slots_.empty() ? FIRST_SLOTS : slots_.size() * 2, NONE);
    for (uint32_t group = 0; group < groups_.size(); group++) {
      size_t at = groups_[group].hash & (slots_.size() - 1);
      while (slots_[at] != NONE) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = group;
    }
  }

  std::vector<uint32_t> next_; /* of each entry: the next one of its group */
  std::vector<Group> groups_;
  std::vector<uint32_t> slots_; /* groups by hash; a power of two */
  ByteBuffer bytes_;            /* of the groups */
  ByteBuffer last_rest_;        /* of the last entry's key */
  bool in_order_ = true;
};

}  // namespace tidesdb
#endif

/*
  Terms of words that were met before: to weigh a word costs more than to find it here.

  Bounded: a full cache is emptied. Pointers into it are good until the next call.
*/
#ifndef TIDESDB_SEARCH_TERM_CACHE_H
#define TIDESDB_SEARCH_TERM_CACHE_H

#include <vector>

#include "key/hash.h"

namespace tidesdb {

class TermCache {
 public:
  /* The term of a word; make(word, out) appends it where the word is new. An empty one: the word is in no
   * index. */
  template <class Make>
  Slice term_of(Slice word, Make make) {
    if (slots_.empty()) slots_.resize(FIRST_SLOTS);
    const uint64_t hash = hash_of(word, 0);
    size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].word_size != 0; at = (at + 1) & (slots_.size() - 1)) {
      const Slot &slot = slots_[at];
      if (slot.hash == static_cast<uint32_t>(hash >> 32) &&
          same_bytes({bytes_.data() + slot.place, slot.word_size}, word))
        return {bytes_.data() + slot.place + slot.word_size, slot.term_size};
    }
    if (has_to_grow()) {
      grow();
      return term_of(word, make);
    }
    const size_t place = bytes_.size();
    bytes_.append(word);
    make(word, &bytes_);
    slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(place),
                  static_cast<uint32_t>(word.size), static_cast<uint32_t>(bytes_.size() - place - word.size)};
    used_++;
    return {bytes_.data() + place + word.size, slots_[at].term_size};
  }

  /* Between statements: a large one goes. */
  void release() {
    if (slots_.size() > KEPT_SLOTS || bytes_.size() > KEPT_BYTES) clear(0);
  }

 private:
  static constexpr size_t FIRST_SLOTS = 512, MOST_SLOTS = 1 << 16, MOST_BYTES = 2 << 20;
  /* Between statements: the words that a thousand rows of prose have most of. */
  static constexpr size_t KEPT_SLOTS = 2048, KEPT_BYTES = 64 << 10;

  struct Slot {
    uint32_t hash = 0, place = 0;
    uint32_t word_size = 0; /* 0: free */
    uint32_t term_size = 0;
  };

  bool has_to_grow() const { return 2 * (used_ + 1) > slots_.size() || bytes_.size() > MOST_BYTES; }
  void grow() {
    if (slots_.size() >= MOST_SLOTS || bytes_.size() > MOST_BYTES) return clear(MOST_SLOTS);
    std::vector<Slot> old(slots_.size() * 4);
    old.swap(slots_);
    for (const Slot &slot : old) {
      if (slot.word_size == 0) continue;
      size_t at = hash_of({bytes_.data() + slot.place, slot.word_size}, 0) & (slots_.size() - 1);
      while (slots_[at].word_size != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }
  void clear(size_t slots) {
    std::vector<Slot>(slots).swap(slots_);
    used_ = 0;
    bytes_.release_beyond(slots ? MOST_BYTES : 0);
    bytes_.clear();
  }

  std::vector<Slot> slots_; /* a power of two */
  size_t used_ = 0;
  ByteBuffer bytes_; /* each word, then its term */
};

}  // namespace tidesdb
#endif

/*
  The greatest key so far at each of several places (the rows, each index).

  In a table that was empty, a key above all earlier ones of its place is new without a lookup.
*/
#ifndef TIDESDB_KEY_ASCENDING_KEYS_H
#define TIDESDB_KEY_ASCENDING_KEYS_H

#include <vector>

#include "key/bytes.h"

namespace tidesdb {

class AscendingKeys {
 public:
  void clear(size_t places) {
    greatest_.resize(places);
    for (Greatest &place : greatest_) place.known = false;
  }

  /* Whether the key comes after all earlier ones of the place; it is their greatest then. */
  bool is_above_all(size_t place, Slice key) {
    Greatest &greatest = greatest_[place];
    if (greatest.known && compare_bytes(key, greatest.key.slice()) <= 0) return false;
    greatest.key.assign(key);
    greatest.known = true;
    return true;
  }

 private:
  struct Greatest {
    ByteBuffer key;
    bool known = false;
  };

  std::vector<Greatest> greatest_;
};

}  // namespace tidesdb
#endif

/*
  Values of which a statement knows that a parent has them.

  Rows of one statement refer to few parents over and over: lines of an order, rows with a status. Each value
  is locked to the transaction's end, so only the transaction itself can take the parent away (or undo its
  insertion); who does says so to the session, and everything here is forgotten.

  Of values that share a slot the last one is known.
*/
#ifndef TIDESDB_FOREIGN_CHECKED_VALUES_H
#define TIDESDB_FOREIGN_CHECKED_VALUES_H

#include <array>
#include <memory>

#include "key/hash.h"

namespace tidesdb {

class CheckedValues {
 public:
  /* The scope of known values: a statement, and how often its transaction has taken rows away. */
  struct Scope {
    ulonglong transaction, statement, removals;
    bool operator==(const Scope &other) const {
      return transaction == other.transaction && statement == other.statement && removals == other.removals;
    }
  };

  bool has(const Scope &scope, Slice value) const {
    return slots_ && value.size && scope == scope_ && same_bytes((*slots_)[slot_of(value)].slice(), value);
  }

  void add(const Scope &scope, Slice value) {
    if (value.size > LONGEST) return;
    if (!slots_) slots_.reset(new (std::nothrow) Slots);
    if (!slots_) return;
    if (!(scope == scope_)) {
      for (ByteBuffer &slot : *slots_) slot.clear();
      scope_ = scope;
    }
    (*slots_)[slot_of(value)].assign(value);
  }

 private:
  /* Memory of a handler: at most 16 KiB for each foreign key. */
  static constexpr size_t SLOTS = 64, LONGEST = 256;
  using Slots = std::array<ByteBuffer, SLOTS>;

  static size_t slot_of(Slice value) { return mix_hash(hash_of(value, 0)) % SLOTS; }

  std::unique_ptr<Slots> slots_;
  Scope scope_{0, 0, 0};
};

}  // namespace tidesdb
#endif

#include "handler/row_counts.h"

#include <atomic>

namespace tidesdb {

namespace {

constexpr size_t PLACES = 16;

struct alignas(128) Place {
  std::atomic<ulonglong> read{0}, changed{0};
};
Place places[PLACES];

}  // namespace

void count_rows(ulonglong connection, const RowCounts &rows) {
  Place &place = places[connection % PLACES];
  place.read.fetch_add(rows.read, std::memory_order_relaxed);
  place.changed.fetch_add(rows.changed, std::memory_order_relaxed);
}

RowCounts row_counts() {
  RowCounts sum{0, 0};
  for (const Place &place : places) {
    sum.read += place.read.load(std::memory_order_relaxed);
    sum.changed += place.changed.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace tidesdb

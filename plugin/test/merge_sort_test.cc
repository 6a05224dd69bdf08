/*
  The sort of an index that is being built, without a server: `make test-sort`. Its memory is so small that
  runs are merged after a few entries, which takes a gigabyte of them on a server.

  Nothing of a server is called but sort_server.h.
*/
#include "ddl/merge_sort.h"

#include <string>
#include <utility>
#include <vector>

#include "sort_server.h"

using namespace tidesdb;

namespace {

/* Entries in memory before a run is made of them. */
constexpr size_t MEMORY = 4096;

std::string key_of(size_t n) {
  char key[32];
  snprintf(key, sizeof key, "%08zu", n * 2654435761U % 100000007);
  return key;
}

bool add(MergeSort *sort, const std::string &key) {
  const Slice slice{reinterpret_cast<const uchar *>(key.data()), key.size()};
  return sort->add(slice, slice);
}

/* The sort gives entries of these keys, each once, in their order. */
void check_order(MergeSort *sort, std::vector<std::string> keys) {
  std::sort(keys.begin(), keys.end());
  CHECK(sort->begin_reading());
  Slice key, value;
  bool found;
  for (const std::string &expected : keys) {
    CHECK(sort->next(&key, &value, &found) && found);
    CHECK(same_bytes(key, slice_of(expected)));
    CHECK(same_bytes(key, value));
  }
  CHECK(sort->next(&key, &value, &found) && !found);
}

void entries_come_back_in_order(size_t count) {
  {
    MergeSort sort(nullptr, MEMORY, [] { return false; });
    std::vector<std::string> keys;
    for (size_t n = 0; n < count; n++) {
      keys.push_back(key_of(n));
      CHECK(add(&sort, keys.back()));
    }
    check_order(&sort, std::move(keys));
  }
  CHECK(sort_memory == 0);
}

/* Runs of 32 runs: an add() ends in the middle of a merge, at most so many entries after the kill. */
void a_kill_ends_a_merge() {
  bool killed = false;
  size_t looks = 0;
  {
    MergeSort sort(nullptr, MEMORY, [&] {
      looks++;
      return killed;
    });
    size_t n = 0;
    while (looks == 0) CHECK(add(&sort, key_of(n++)));
    killed = true;
    const size_t at_kill = n;
    while (add(&sort, key_of(n))) CHECK(++n < 3 * at_kill);
    CHECK(looks >= 2);
    CHECK(n > at_kill);
  }
  CHECK(sort_memory == 0);
  /* Of the merge before reading, too: of each level there are nearly 32. */
  killed = false;
  {
    MergeSort sort(nullptr, MEMORY, [&] { return killed; });
    const size_t full_runs = 4 * 32 * 32 + 31 * 32 + 30, entries_of_run = MEMORY / 32;
    for (size_t n = 0; n <= full_runs * entries_of_run; n++) CHECK(add(&sort, key_of(n)));
    killed = true;
    CHECK(!sort.begin_reading());
  }
  CHECK(sort_memory == 0);
}

void a_full_disk_ends_it() {
  {
    MergeSort sort(nullptr, MEMORY, [] { return false; });
    size_t n = 0;
    for (; n < 1000; n++) CHECK(add(&sort, key_of(n)));
    disk_is_full = true;
    while (add(&sort, key_of(n))) CHECK(++n < 2000);
    disk_is_full = false;
  }
  CHECK(sort_memory == 0);
}

}  // namespace

int main() {
  for (const size_t count : {0, 1, 100, 1000, 20000, 300000}) entries_come_back_in_order(count);
  a_kill_ends_a_merge();
  a_full_disk_ends_it();
  puts("the sort is in order");
  return 0;
}

/*
  The sort of an index that is being built, without a server: `make test-sort`. Its memory is so small that
  runs are merged after a few entries, which takes a gigabyte of them on a server.

  What the sort needs of the server is here; nothing else of it is called.
*/
#include "ddl/merge_sort.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "key/sql_headers.h"
#include "mysqld.h"

using namespace tidesdb;

MY_TMPDIR mysql_tmpdir_list;
static int64_t sort_memory;
static bool disk_is_full;

extern "C" {
char *my_tmpdir(MY_TMPDIR *) { return const_cast<char *>("/tmp"); }
void tidesdb_count_sort_memory(tidesdb_db *, int64_t bytes) { sort_memory += bytes; }
void *my_malloc(PSI_memory_key, size_t size, myf) { return malloc(size); }
void *my_realloc(PSI_memory_key, void *old, size_t size, myf) { return realloc(old, size); }
void my_free(void *data) { free(data); }
File create_temp_file(char *to, const char *, const char *, int, myf) {
  strcpy(to, "/tmp/merge_sort_test-XXXXXX");
  const File file = mkstemp(to);
  unlink(to);
  return file;
}
int my_close(File file, myf) { return close(file); }
size_t my_pwrite(File file, const uchar *from, size_t size, my_off_t at, myf) {
  return disk_is_full || pwrite(file, from, size, static_cast<off_t>(at)) != static_cast<ssize_t>(size);
}
size_t my_pread(File file, uchar *to, size_t size, my_off_t at, myf) {
  return pread(file, to, size, static_cast<off_t>(at)) != static_cast<ssize_t>(size);
}
}

namespace {

/* Entries in memory before a run is made of them. */
constexpr size_t MEMORY = 4096;

#define CHECK(what)                                                      \
  do {                                                                   \
    if (!(what)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      exit(1);                                                           \
    }                                                                    \
  } while (false)

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

/* Words of rows: a word of 1 to 9 letters and its end, then the row. In every third sort some rows come too
   early, and in some of the others entries come without a group. */
void groups_come_back_in_order(size_t count) {
  for (size_t kind = 0; kind < 4; kind++) {
    MergeSort sort(nullptr, MEMORY, [] { return false; });
    std::vector<std::string> keys;
    for (size_t n = 0; n < count; n++) {
      std::string key = std::string(1 + n * 7 % 9, static_cast<char>('a' + n * n % 13)) + '!';
      const size_t group = kind == 2 && n % 500 == 77 ? 0 : key.size();
      char row[32];
      snprintf(row, sizeof row, "%08zu", kind == 1 && n % 1000 == 500 ? n - 400 : n);
      key += row;
      keys.push_back(key);
      const Slice slice = slice_of(key);
      CHECK(sort.add(slice, slice, kind == 3 ? 0 : group));
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
  for (const size_t count : {1, 100, 1000, 20000}) groups_come_back_in_order(count);
  a_kill_ends_a_merge();
  a_full_disk_ends_it();
  puts("the sort is in order");
  return 0;
}

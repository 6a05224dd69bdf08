/*
  Sorting the entries of an index that is being built, with bounded memory: what does not fit goes to
  temporary files in sorted runs, which are merged when they are many, and at the end.

  The files have no name (they are deleted as soon as they are made), so that nothing is left of them
  whatever happens to the server.
*/
#ifndef TIDESDB_DDL_MERGE_SORT_H
#define TIDESDB_DDL_MERGE_SORT_H

#include <functional>
#include <memory>
#include <vector>

#include "ddl/key_groups.h"
#include "ddl/sort_memory.h"
#include "key/bytes.h"
#include "tidesdb.h"

namespace tidesdb {

class MergeSort {
 public:
  /* `memory`: bytes that entries take at most before they go to a file. Merging runs takes 128 KB for each.
     All of it is counted as the store's, which must outlive the sort. `killed`: asked while runs are merged,
     which takes minutes where they are large. */
  MergeSort(tidesdb_db *db, size_t memory, std::function<bool()> killed);
  ~MergeSort();
  MergeSort(const MergeSort &) = delete;
  MergeSort &operator=(const MergeSort &) = delete;

  /* false: memory or a temporary file failed, and the client has been told; or the statement is killed.
     `group`: so many first bytes of the key make a group (ddl/key_groups.h); 0: it has none. */
  bool add(Slice key, Slice value, size_t group = 0);
  /* Bytes of all entries so far. */
  ulonglong size() const { return size_; }
  /* After the last add(): the entries in order of their keys. */
  bool begin_reading();
  /* *found: whether there is another; it lives until the next call. */
  bool next(Slice *key, Slice *value, bool *found);

 private:
  struct Run;
  class Merge;

  void hold(size_t bytes);
  void sort_memory();
  bool spill();
  bool merge_last(size_t count);
  Slice key_at(size_t at) const;
  Slice value_at(size_t at) const;
  size_t place_of(uint32_t number);

  tidesdb_db *const db_;
  const size_t memory_;
  const std::function<bool()> killed_;
  ulonglong size_ = 0;
  size_t held_ = 0;    /* what tidesdb_count_sort_memory() knows */
  SortMemory entries_; /* u32 size of the key, u32 size of the value, both */
  KeyGroups groups_;   /* of the entries in memory, if all have one */
  size_t read_ = 0;    /* of the entries, when all are in memory */
  std::vector<std::unique_ptr<Run>> runs_;
  std::unique_ptr<Merge> merge_;
};

}  // namespace tidesdb
#endif

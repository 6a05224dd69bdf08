/*
  Sorting the entries of an index that is being built, with bounded memory: what does not fit goes to
  temporary files in sorted runs (ddl/sorted_runs.h).
*/
#ifndef TIDESDB_DDL_MERGE_SORT_H
#define TIDESDB_DDL_MERGE_SORT_H

#include <functional>

#include "ddl/sort_memory.h"
#include "ddl/sorted_runs.h"
#include "key/bytes.h"

namespace tidesdb {

class MergeSort {
 public:
  /* `memory`: bytes that entries take at most before they go to a file. Merging runs takes 128 KB for each.
     All of it is counted as the store's, which must outlive the sort. `killed`: as in ddl/sorted_runs.h. */
  MergeSort(tidesdb_db *db, size_t memory, std::function<bool()> killed);
  MergeSort(const MergeSort &) = delete;
  MergeSort &operator=(const MergeSort &) = delete;

  /* false: memory or a temporary file failed, and the client has been told; or the statement is killed. */
  bool add(Slice key, Slice value);
  /* Bytes of all entries so far. */
  ulonglong size() const { return size_; }
  /* After the last add(): the entries in order of their keys. */
  bool begin_reading();
  /* *found: whether there is another; it lives until the next call. */
  bool next(Slice *key, Slice *value, bool *found);

 private:
  void sort_memory();
  bool spill();
  Slice key_at(size_t at) const;
  Slice value_at(size_t at) const;

  const size_t memory_;
  ulonglong size_ = 0;
  CountedMemory held_;
  SortMemory entries_; /* u32 size of the key, u32 size of the value, both */
  size_t read_ = 0;    /* of the entries, when all are in memory */
  bool merging_ = false;
  SortedRuns runs_;
};

}  // namespace tidesdb
#endif

/*
  The entries of one index, for rows in the order of their keys: sorted (ddl/merge_sort.h, or ddl/inversion.h
  for a full text index), then written in the order of their keys. Many become finished tables at once, past
  log and memtable (tidesdb_ingest_begin()); few go through the log, in chunks. Those of a statement go into
  its transaction.
*/
#ifndef TIDESDB_DDL_ENTRY_LOAD_H
#define TIDESDB_DDL_ENTRY_LOAD_H

#include <functional>

#include <memory>

#include "ddl/inversion.h"
#include "ddl/merge_sort.h"
#include "key/index_kind.h"
#include "key/sql_headers.h"
#include "store/handles.h"

namespace tidesdb {

/* Most loads that sort at a time: each takes memory, and files. */
size_t most_entry_loads();

class EntryLoad {
 public:
  /* How its owner answers. All but killed() make an error for the server. */
  struct Owner {
    std::function<bool()> killed;
    std::function<int(int)> failed; /* of the engine's status */
    /* Two rows have this key of a unique index; the entry is of one of them. */
    std::function<int(Slice key, Slice value)> duplicate;
  };

  /* `loads`: so many divide the memory for sorting. */
  EntryLoad(const IndexKind &kind, size_t loads, Owner owner);
  EntryLoad(const EntryLoad &) = delete;
  EntryLoad &operator=(const EntryLoad &) = delete;

  /* All return 0 or an error for the server; the client may have been told more. */

  /* The entries of a row. The record has the values of the index's virtual columns. `expiry`: the second in
     which the row expires; 0: it does not. */
  int add_row(const uchar *record, Slice primary_key, uint64_t expiry);
  /* One of its entries, in place of that. */
  int add(Slice key, Slice value, uint64_t expiry);
  /* Takes operations of this kind, with these flags, and returns the engine's status. */
  struct Sink {
    tidesdb_family *family;
    uint8_t kind, flags;
    std::function<int(const tidesdb_op *ops, size_t count)> take;
  };

  /* After the last of them, once: to a sink, or to a family that nobody sees yet, where the entries are when
     `tables` is finished. */
  int write(const Sink &sink);
  int write(THD *thd, tidesdb_family *family, Ingest *tables);

 private:
  class Writes;

  int sort_failed() const { return owner_.killed() ? HA_ERR_ABORTED_BY_USER : HA_ERR_GENERIC; }
  template <class Call>
  int without_memory_errors(Call call);
  int begin_reading();
  int write_sorted(Writes *writes);
  int write_inverted(Writes *writes);

  const IndexKind &kind_;
  const Owner owner_;
  MergeSort sort_;
  std::unique_ptr<Inversion> inversion_; /* of a full text index, in place of the sort */
  EntrySet entries_;
  ByteBuffer value_;
};

}  // namespace tidesdb
#endif

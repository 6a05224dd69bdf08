/*
  The part of the handler that follows from the server's release, for MariaDB 11.8.
*/
#ifndef TIDESDB_SERVER_HANDLER_BASE_H
#define TIDESDB_SERVER_HANDLER_BASE_H

#include "key/sql_headers.h"

namespace tidesdb {

class ServerHandler : public handler {
 public:
  ServerHandler(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) {}

  ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *parameter, uint count,
                                      uint *buffer_size, uint *mode, ha_rows limit,
                                      Cost_estimate *cost) final {
    prepare_ranges(index, mode);
    return ds_mrr_.dsmrr_info_const(index, ranges, parameter, count, buffer_size, mode, limit, cost);
  }

 protected:
  /* Gets ds_mrr_ ready to plan a multi-range read over the index, and corrects the mode. */
  virtual void prepare_ranges(uint index, uint *mode) = 0;

  /* Whether the rows lie in this index. The server knows it before it asks for the index's flags. */
  bool is_clustered(uint index) const { return index == table_share->primary_key; }

  /* The server looks at a copy of the flags in the open table's keys: `changed` differs in it from now on. */
  void index_flags_changed(ulong changed) {
    for (uint i = 0; i < table_share->keys; i++) {
      ulong &flags = table->key_info[i].index_flags;
      flags = (flags & ~changed) | (index_flags(i, 0, true) & changed);
    }
  }

  /* What an entry takes, for the cost of reading an index; the server would guess from the columns' widths.
   */
  static void set_entry_size(KEY *key, size_t bytes) { key->stat_storage_length = bytes; }

  DsMrr_impl ds_mrr_;
};

}  // namespace tidesdb
#endif

/*
  The part of the handler that follows from the server's release, for MariaDB 10.11.
*/
#ifndef TIDESDB_SERVER_HANDLER_BASE_H
#define TIDESDB_SERVER_HANDLER_BASE_H

#include "key/sql_headers.h"

namespace tidesdb {

class ServerHandler : public handler {
 public:
  ServerHandler(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) {}

  ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *parameter, uint count,
                                      uint *buffer_size, uint *mode, Cost_estimate *cost) final {
    prepare_ranges(index, mode);
    return ds_mrr_.dsmrr_info_const(index, ranges, parameter, count, buffer_size, mode, cost);
  }

  /* costs.cc */
  double scan_time() final;
  double read_time(uint index, uint ranges, ha_rows rows) final;
  double keyread_time(uint index, uint ranges, ha_rows rows) final;
  /* The server's own asks records(), which counts. */
  double key_scan_time(uint index) final { return keyread_time(index, 1, stats.records); }

 protected:
  /* Gets ds_mrr_ ready to plan a multi-range read over the index, and corrects the mode. */
  virtual void prepare_ranges(uint index, uint *mode) = 0;

  /*
    Whether the rows lie in this index. The server asks for the index's flags while it reads a definition,
    when there is no open table and table_share->primary_key is still 0.
  */
  bool is_clustered(uint index) const {
    return table ? index == table_share->primary_key
                 : index == 0 && becomes_primary(table_share->key_info[0]);
  }

  /* The optimizer asks index_flags() itself each time. */
  void index_flags_changed(ulong) {}

  /* 10.11 has no place for what an entry takes; keyread_time() counts entries. */
  static void set_entry_size(KEY *, size_t) {}

  DsMrr_impl ds_mrr_;

 private:
  bool becomes_primary(const KEY &first) const;
};

}  // namespace tidesdb
#endif

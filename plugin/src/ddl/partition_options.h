/*
  Options of a partition.

  The server keeps them in the table's definition, and while it makes a partition it puts them in the place of
  the table's own (ha_partition::set_up_table_before_create()). An ALTER without a copy does the same here.
*/
#ifndef TIDESDB_DDL_PARTITION_OPTIONS_H
#define TIDESDB_DDL_PARTITION_OPTIONS_H

#include "key/sql_headers.h"

class engine_option_value;
struct ha_table_option_struct;

namespace tidesdb {

/* While it lives, `form` has the options of the partition or subpartition of this number. A table without
   partitions keeps its own. */
class PartitionOptions {
 public:
  PartitionOptions(TABLE *form, uint number);
  PartitionOptions(const PartitionOptions &) = delete;
  PartitionOptions &operator=(const PartitionOptions &) = delete;
  ~PartitionOptions();

 private:
  TABLE_SHARE *share_;
  ha_table_option_struct *const own_;
  engine_option_value *const own_list_;
};

}  // namespace tidesdb
#endif

/*
  DROP of a partitioned table: the whole of it, or nothing.

  The server's handler of partitions removes the .par, then one partition after the other, and goes on after
  an error. A table of which one partition cannot be locked would be lost. So the drop of the first partition
  locks all of them and drops them by one commit. Where it cannot, it puts the .par back, and the other
  partitions get its error. The bytes of the .par are read before, when the server makes handlers for the
  partitions.
*/
#ifndef TIDESDB_DDL_PARTITIONED_DROP_H
#define TIDESDB_DDL_PARTITIONED_DROP_H

#include <string>
#include <unordered_map>

#include "key/sql_headers.h"

namespace tidesdb {

/* Of one connection, for its present statement. Tables are canonical names. */
class PartitionedDrop {
 public:
  /* A handler is made without a table: reads the .par files of all tables that the statement may drop. */
  void note_files(THD *thd);
  /* The table is made anew: what has been dropped was another one. */
  void forget(const std::string &table) {
    if (last_ == table) last_.clear();
  }
  /* Whether the drop of a partition of `table` is a part of that of the table. */
  bool is_under_way(THD *thd, const std::string &table) const;
  /* Drops all partitions, once. Returns 0 or an error of the handler, for each of the partitions. */
  int drop(THD *thd, const std::string &table);

 private:
  void begin_statement(THD *thd);
  void note_file(const std::string &table);

  query_id_t statement_ = 0;
  bool database_noted_ = false;
  std::unordered_map<std::string, std::string> files_;
  /* The server drops the partitions of one table after each other. */
  std::string last_;
  int last_error_ = 0;
};

/* When a handler is made without a table. */
void note_partition_files(THD *thd);

}  // namespace tidesdb
#endif

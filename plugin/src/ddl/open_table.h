/*
  What all handlers of one table share: its families and its dictionary record. One for each TABLE_SHARE
  (Handler_share), freed with it.
*/
#ifndef TIDESDB_DDL_OPEN_TABLE_H
#define TIDESDB_DDL_OPEN_TABLE_H

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "ddl/known_families.h"
#include "ddl/row_log.h"
#include "ddl/table_record.h"
#include "key/sql_headers.h"
#include "store/handles.h"
#include "txn/changed_tables.h"

namespace tidesdb {

/* Of each index, for each number of leading columns: rows of a value, in hundredths. */
using RowsPerKey = std::vector<std::vector<uint64_t>>;

class OpenTable : public Handler_share {
 public:
  /* Returned by open(), besides the statuses of the engine, when the record is of a version that is not known
     or does not fit the server's definition; the client and the error log were told. */
  static constexpr int REFUSED = -1;

  /* Looks the table up in the dictionary. */
  int open(const std::string &name, const TABLE *table);
  /* The same again after TRUNCATE. */
  int reopen(const TABLE *table) {
    truncations_++;
    return open(std::string(name_), table);
  }

  const std::string &name() const { return name_; }
  /* Grows when TRUNCATE has put other families in the place of these. */
  uint truncations() const { return truncations_; }
  tidesdb_family *primary() const { return primary_; }
  /* ISOLATION_LEVEL, MIN_DISK_SPACE and TTL. Statements take them from here: TABLE_SHARE::option_struct lies
     in memory of the ALTER's own table, which is gone, after an ADD PARTITION that did not get its lock in
     time.
   */
  int isolation_level() const { return isolation_level_; }
  ulonglong min_disk_space() const { return min_disk_space_; }
  /* The option TTL, and the number of the column that has it (-1: none). */
  ulonglong ttl() const { return ttl_; }
  int ttl_column() const { return ttl_column_; }
  bool rows_expire() const { return ttl_ != 0 || ttl_column_ >= 0; }
  /* The first family of a secondary index, by the server's key number; of the primary key, the rows. */
  tidesdb_family *index(uint key) const { return by_key_[key]; }

  struct Family {
    FamilyHandle handle;
    uint key; /* the server's number of the secondary index; MAX_KEY: the rows */

    tidesdb_family *get() const { return handle.get(); }
    bool has_rows() const { return key == MAX_KEY; }
  };
  /* All that the table has (ddl/table_families.h): the rows first, then the indexes. */
  const std::vector<Family> &families() const { return families_; }

  /* The second in which the .frm was written, as InnoDB has it for CREATE_TIME; 0: a TEMPORARY table. */
  time_t create_time() const { return create_time_; }
  const UpdateTime &update_time() const { return update_time_; }

  /* Open while an ALTER builds indexes alongside writers. */
  RowLog &row_log() { return *row_log_; }

  /* How rows look; does not change while the table is open. */
  const RowHistory &history() const { return record_.history; }
  /* By key number. */
  std::vector<IndexRecord> indexes();
  /* With the foreign keys that the dictionary has now: statements on the other side change them. */
  TableRecord record();
  /* Whether a foreign key refers to the table. */
  bool is_referenced() const;

  /* Writes the statistics into the TABLE_SHARE's keys: those of ANALYZE while the table has about
     as many rows, then of the last sample; guesses where there are none. */
  void fill_rows_per_key(TABLE *table);
  /* Keeps the result of ANALYZE, durably. Status of the engine. */
  int set_statistics(uint64_t rows, RowsPerKey rows_per_key);
  /* The table has `rows` now, a tenth more or less than when its statistics were made, and the caller is to
     make a sample: nobody else does until set_sample(). Of all time a twentieth at most goes into samples for
     plans: in a table that is small and changes fast, such as a queue, they may have many deleted rows to
     pass. `for_display`: the client asks for the figures themselves, and waits for no next time. */
  bool begin_sample(uint64_t rows, bool for_display);
  /* Keeps a sample in memory, as long as the table is open anywhere; an empty one: it could not be made, a
     later statement tries again. */
  void set_sample(uint64_t rows, RowsPerKey rows_per_key, bool is_rough);

 private:
  int open_families(const TABLE *table, FamilyHandle rows);
  void sort_indexes(const TABLE *table);
  void rebuild_indexes(const TABLE *table, tidesdb_family *rows);
  int refuse(const char *format, ...) const ATTRIBUTE_FORMAT(printf, 2, 3);

  std::string name_;
  /* What is_referenced() has found out, and at which foreign::generation(). */
  mutable std::atomic<uint64_t> referenced_at_{0};
  mutable std::atomic<bool> referenced_{false};
  uint truncations_ = 0;
  int isolation_level_ = TIDESDB_REPEATABLE_READ;
  ulonglong min_disk_space_ = 0;
  ulonglong ttl_ = 0;
  int ttl_column_ = -1;
  time_t create_time_ = 0;
  UpdateTime update_time_;
  tidesdb_family *primary_ = nullptr;
  std::vector<Family> families_;
  std::vector<tidesdb_family *> by_key_;
  KnownFamilies known_families_;
  std::shared_ptr<RowLog> row_log_;
  std::mutex record_mutex_;
  TableRecord record_;
  /* Guarded by the mutex. */
  RowsPerKey sample_;
  /* Rows when statistics were made last; NEVER: not yet. */
  static constexpr uint64_t NEVER = ~0ULL;
  std::atomic<uint64_t> sampled_rows_{NEVER};
  std::atomic<bool> samples_{false};
  /* The last sample was a small one of a larger table: enough for plans, not for display. */
  std::atomic<bool> is_rough_{false};
  /* By my_interval_timer(), in nanoseconds. */
  std::atomic<ulonglong> sample_began_{0}, next_sample_{0};
};

}  // namespace tidesdb
#endif

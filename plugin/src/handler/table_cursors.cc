#include "handler/table_cursors.h"

#include "sql_class.h"

namespace tidesdb {

void TableCursors::count(tidesdb_cursor *cursor) const {
  if (!counted_) {
    tidesdb_cursor_set_work(cursor, nullptr);
    return;
  }
  static_assert(sizeof(ulonglong) == sizeof(uint64_t), "the server counts in numbers of the engine's size");
  const auto number = [](ulonglong *figure) { return reinterpret_cast<uint64_t *>(figure); };
  tidesdb_read_work work;
  work.blocks = number(&counted_->pages_accessed);
  work.blocks_read = number(&counted_->pages_read_count);
  work.read_time = number(&counted_->pages_read_time);
  work.passed = number(&counted_->undo_records_read);
  work.units = timer_tracker_frequency() / 1e6;
  tidesdb_cursor_set_work(cursor, &work);
}

}  // namespace tidesdb

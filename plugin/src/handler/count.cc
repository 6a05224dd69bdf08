/*
  SELECT COUNT(*) of a whole table: the engine counts entries of the smallest index in one call, and the
  server steps over no row. The count is that of a scan: of the transaction's snapshot, with its own changes,
  without rows that have expired.

  Every answer may be "scan it yourself" (HA_POS_ERROR): then errors, too, come from that scan.
*/
#include "handler/ha_tidesdb.h"

#include "item_sum.h"
#include "sql_class.h"
#include "sql_lex.h"
#include "sql_select.h"

#include "handler/snapshot_reader.h"

using namespace tidesdb;

namespace {

/* An item whose value follows from counts alone: the server finds it constant once they are. */
bool follows_from_counts(Item *item) {
  if (item->const_item()) return true;
  if (item->used_tables() & (OUTER_REF_TABLE_BIT | RAND_TABLE_BIT)) return false;
  if (item->type() != Item::SUM_FUNC_ITEM)
    return item->with_sum_func() && !item->with_field() && !item->with_subquery();
  Item_sum *sum = static_cast<Item_sum *>(item);
  return sum->sum_func() == Item_sum::COUNT_FUNC && !sum->get_arg(0)->maybe_null();
}

/*
  Whether the count is all that the query block wants. The server asks for it before it has seen the whole
  list; alongside a SUM() it would count here, and scan nevertheless. It asks while it plans: a subquery,
  which may never be executed, scans. So does a product of tables, which may end early. EXPLAIN and ANALYZE
  show the scan.
*/
bool wants_count_alone(LEX *lex, JOIN *join) {
  if (lex->describe || lex->analyze_stmt || lex->limit_rows_examined) return false;
  SELECT_LEX *block = join->select_lex;
  if (block->master_unit()->item || block->leaf_tables.elements != 1 || join->conds) return false;
  List_iterator_fast<Item> items(join->all_fields);
  while (Item *item = items++)
    if (!follows_from_counts(item)) return false;
  return true;
}

uint64_t bytes_of(tidesdb_family *family) {
  const tidesdb_family_stats stats = stats_of(family);
  return stats.struct_size ? stats.data_bytes + stats.memtable_bytes : UINT64_MAX;
}

}  // namespace

/* The index with the fewest bytes of those that have an entry for each row; MAX_KEY: the rows themselves. */
uint ha_tidesdb::index_to_count() {
  if (entries_may_not_fit()) return MAX_KEY;
  uint least = MAX_KEY;
  uint64_t least_bytes = bytes_of(open_table_->primary());
  for (uint i = 0; i < table_share->keys; i++) {
    if (is_primary(i) || !columns_of(i) || hidden_[i] || virtual_columns_.index_has_any(i)) continue;
    if (!table->keys_in_use_for_query.is_set(i)) continue;
    const uint64_t bytes = bytes_of(open_table_->index(i));
    if (bytes >= least_bytes) continue;
    least = i;
    least_bytes = bytes;
  }
  return least;
}

int ha_tidesdb::count_entries(uint index, uint64_t *rows) {
  tidesdb_cursor *cursor;
  if (const int status = cursor_of(index, &cursor)) return status;
  int status = seek_snapshot(cursor, session_->txn(), {nullptr, 0}, TIDESDB_SEEK_FIRST);
  if (status == TIDESDB_OK) status = tidesdb_cursor_count(cursor, rows);
  tidesdb_cursor_reset(cursor);
  return status == TIDESDB_NOT_FOUND ? static_cast<int>(TIDESDB_OK) : status;
}

/* The optimizer calls it for an exact number, ALTER by copy for its progress. */
ha_rows ha_tidesdb::records() {
  LEX *lex = ha_thd()->lex;
  JOIN *join = lex->current_select ? lex->current_select->join : nullptr;
  if (!join) return stats.records;
  if (!session_ || !wants_count_alone(lex, join)) return HA_POS_ERROR;
  if (!lock_choice_.locks_nothing() || reads_latest()) return HA_POS_ERROR;
  uint64_t rows = 0;
  const uint index = index_to_count();
  int status = count_entries(index, &rows);
  /* The snapshot may be older than the index. */
  if (status == TIDESDB_SNAPSHOT_TOO_OLD && index != MAX_KEY) status = count_entries(MAX_KEY, &rows);
  return status == TIDESDB_OK ? rows : HA_POS_ERROR;
}

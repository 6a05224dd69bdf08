/*
  What the server asks of entries before their rows are read: index condition pushdown, the rowid filter,
  and reading many ranges in an order of our own (multi-range read).

  A condition is checked on the entry's columns in table->record[0]. The rows of entries that fail are
  neither read nor locked: a range over the entries keeps out what would match, where the level asks for it,
  and an entry of a unique index, which is locked itself, is given back below REPEATABLE READ.
*/
#include "handler/ha_tidesdb.h"

#include "rowid_filter.h"
#include "sql_class.h"

using namespace tidesdb;

Item *ha_tidesdb::idx_cond_push(uint index, Item *condition) {
  if (is_primary(index)) return condition;
  pushed_idx_cond = condition;
  pushed_idx_cond_keyno = index;
  return nullptr;
}

/* The server sets rowid_filter_is_active when the filter is filled, by a scan of this handler. */
bool ha_tidesdb::rowid_filter_push(Rowid_filter *filter) {
  pushed_rowid_filter = filter;
  return false;
}

/*
  A filter is filled by a scan of its own, which would lock rows that are not in the result until the
  transaction ends: a statement that locks what it reads is offered none.
*/
void ha_tidesdb::offer_rowid_filters() {
  const bool offer = lock_choice_.locks_nothing();
  if (offer == rowid_filters_offered_) return;
  rowid_filters_offered_ = offer;
  index_flags_changed(HA_DO_RANGE_FILTER_PUSHDOWN);
}

/* Whether a row's reference is its key in the primary family, as it stands in the entry. */
bool ha_tidesdb::ref_is_key() const { return !primary_codec_ || primary_codec_->fixed_size() != 0; }

/* The columns that must stand in `buf` for check_pushed_condition(); nullptr: all that the entry has. */
const MY_BITMAP *ha_tidesdb::condition_columns() const {
  return filters_rowids() && !ref_is_key() ? nullptr : table->read_set;
}

/* Whether the entry may belong to the result. */
check_result_t ha_tidesdb::check_pushed_condition(Slice primary_key, const uchar *buf) {
  /* Partitions read into buffers of their own; conditions look at record[0]. */
  const bool elsewhere = buf != table->record[0] && judging_needs_columns();
  if (elsewhere) {
    buffers_.condition_record.assign({table->record[0], table_share->reclength});
    memcpy(table->record[0], buf, table_share->reclength);
  }
  check_result_t result = CHECK_POS;
  if (has_index_condition()) {
    /* The engine ends ranges, and a column that is cut in the index cannot be compared here. */
    key_range *const end = end_range;
    const KeyCodec *codec = index_codecs_[scan_.index];
    if (scan_.end.exact || !codec || !codec->is_covering()) end_range = nullptr;
    result = handler_index_cond_check(this);
    end_range = end;
  }
  if (result == CHECK_POS && filters_rowids()) {
    if (ref_is_key())
      memcpy(ref, primary_key.data, std::min<size_t>(primary_key.size, ref_length));
    else
      position(table->record[0]);
    result = pushed_rowid_filter->check(reinterpret_cast<char *>(ref)) ? CHECK_POS : CHECK_NEG;
  }
  if (elsewhere) memcpy(table->record[0], buffers_.condition_record.data(), table_share->reclength);
  return result;
}

/* --- multi-range read: keys sorted, rows read by primary key in its order --- */

/*
  Entries and rows are read at different times, by two handlers: only a snapshot makes them fit. The server
  computes virtual columns anew after each entry of the second handler, from columns that it has not read.
*/
bool ha_tidesdb::orders_ranges(uint index) const {
  /*
    In a table with partitions, where one index is read in order and another one is not, ha_partition 11.8
    gives the chosen one what it noted of the index that it asked about last: rows of all partitions but one
    are missing.
  */
  if (table->file != this) return false;
  if (is_primary(index)) return true;
  const KEY &key = table->key_info[index];
  for (uint part = 0; part < key.user_defined_key_parts; part++)
    if (!key.key_part[part].field->stored_in_db()) return false;
  return true;
}

int ha_tidesdb::multi_range_read_init(RANGE_SEQ_IF *ranges, void *parameter, uint count, uint mode,
                                      HANDLER_BUFFER *buffer) {
  if (entries_may_not_fit() || (active_index != MAX_KEY && !orders_ranges(active_index)))
    mode |= HA_MRR_USE_DEFAULT_IMPL;
  ds_mrr_.init(this, table);
  return ds_mrr_.dsmrr_init(this, ranges, parameter, count, mode, buffer);
}

/*
  The server keeps a row of each partition, and the next partition's row takes the memory of virtual BLOB
  values: where a partition's row is of a later range than another's, it forgets to set them apart
  (ha_partition::handle_ordered_index_scan).
*/
int ha_tidesdb::multi_range_read_next(range_id_t *range) {
  const int error = ds_mrr_.dsmrr_next(range);
  if (error == 0 && table->part_info) virtual_columns_.keep_blobs(table->read_set, table->record[0]);
  return error;
}

void ha_tidesdb::prepare_ranges(uint index, uint *mode) {
  ds_mrr_.init(this, table);
  if (!orders_ranges(index)) *mode |= HA_MRR_USE_DEFAULT_IMPL;
}

ha_rows ha_tidesdb::multi_range_read_info(uint index, uint count, uint rows, uint key_parts,
                                          uint *buffer_size, uint *mode, Cost_estimate *cost) {
  prepare_ranges(index, mode);
  return ds_mrr_.dsmrr_info(index, count, rows, key_parts, buffer_size, mode, cost);
}

int ha_tidesdb::multi_range_read_explain_info(uint mode, char *text, size_t size) {
  return ds_mrr_.dsmrr_explain_info(mode, text, size);
}

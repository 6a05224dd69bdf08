#include "foreign/current_rows.h"

#include "sql_class.h"

#include "row/row_end.h"

namespace tidesdb {

CurrentRows::~CurrentRows() {
  reader_.reset();
  row_codec_.reset();
  primary_codec_.reset();
  if (is_open_) closefrm(&table_);
}

std::unique_ptr<CurrentRows> CurrentRows::make(THD *thd, std::unique_ptr<TableDefinition> definition,
                                               uint index, const RowHistory &history) {
  std::unique_ptr<CurrentRows> rows(new CurrentRows);
  const TABLE_SHARE &share = definition->share();
  const Columns columns(*definition);
  const bool has_primary_key = share.primary_key != MAX_KEY;
  rows->parts_ = columns.parts(index);
  if (has_primary_key) rows->primary_parts_ = columns.parts(share.primary_key);
  rows->end_in_entry_ = find_row_end(share, rows->parts_);
  rows->end_in_key_ = find_row_end(share, rows->primary_parts_);
  /* The definition's columns go with it. */
  for (std::vector<KeyPart> *parts : {&rows->parts_, &rows->primary_parts_})
    for (KeyPart &part : *parts) part.field = nullptr;
  if (rows->end_in_entry_ < rows->parts_.size() || rows->end_in_key_ < rows->primary_parts_.size())
    return rows;

  const LEX_CSTRING alias = share.table_name;
  if (open_table_from_share(thd, definition->own_share(), &alias, 0, EXTRA_RECORD, HA_OPEN_IGNORE_IF_LOCKED,
                            &rows->table_, false))
    return nullptr;
  rows->definition_ = std::move(definition);
  rows->is_open_ = true;
  rows->history_ = history;
  TABLE *table = &rows->table_;
  if (has_primary_key) {
    rows->primary_codec_ = KeyCodec::make(table, share.primary_key, nullptr);
    if (!rows->primary_codec_) return nullptr;
  }
  rows->row_codec_ = RowCodec::make(table, rows->primary_codec_.get(), rows->history_);
  if (!rows->row_codec_) return nullptr;
  rows->reader_.reset(new (std::nothrow) RowReader(*rows->row_codec_));
  bitmap_clear_all(&table->tmp_set);
  bitmap_set_bit(&table->tmp_set, table->vers_end_field()->field_index);
  if (!rows->reader_ || !rows->reader_->choose(&table->tmp_set)) return nullptr;
  return rows;
}

void CurrentRows::append_end(bool before_2106, ByteBuffer *out, ByteBuffer *scratch) const {
  append_value(parts_[end_in_entry_], {greatest_row_end(before_2106), ROW_END_SIZE}, out, scratch);
}

CurrentRows::Answer CurrentRows::by_part(const std::vector<KeyPart> &parts, size_t place, Slice key) {
  if (place >= parts.size()) return Answer::IN_ROW;
  const uchar *at = key.data, *const end = key.data + key.size;
  bool is_null;
  for (size_t i = 0; i < place; i++)
    if (!skip_part(parts[i], &at, end, &is_null)) return Answer::DAMAGED;
  const uchar *const from = at;
  if (!skip_part(parts[place], &at, end, &is_null)) return Answer::DAMAGED;
  const Slice found{from, static_cast<size_t>(at - from)};
  for (const bool before_2106 : {false, true}) {
    ends_.clear();
    append_value(parts[place], {greatest_row_end(before_2106), ROW_END_SIZE}, &ends_, &scratch_);
    if (same_bytes(ends_.slice(), found)) return Answer::CURRENT;
  }
  return Answer::HISTORY;
}

CurrentRows::Answer CurrentRows::by_entry(Slice key) { return by_part(parts_, end_in_entry_, key); }

CurrentRows::Answer CurrentRows::by_row_key(Slice key) { return by_part(primary_parts_, end_in_key_, key); }

CurrentRows::Answer CurrentRows::by_row(Slice key, Slice value) {
  if (!row_codec_->knows(RowReader::layout_version(value))) return Answer::IN_ROW;
  if (!reader_->read(key, value, table_.record[0])) return Answer::DAMAGED;
  return is_history_row(&table_, table_.record[0]) ? Answer::HISTORY : Answer::CURRENT;
}

}  // namespace tidesdb

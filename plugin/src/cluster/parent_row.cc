#include "cluster/parent_row.h"

#include "sql_class.h"

#include "ddl/tables.h"
#include "foreign/key_columns.h"

namespace tidesdb::cluster {

ParentRow::~ParentRow() {
  reader_.reset();
  row_codec_.reset();
  primary_codec_.reset();
  table_.in_use = nullptr;
  if (is_open_) closefrm(&table_);
}

std::unique_ptr<ParentRow> ParentRow::open(THD *thd, const ForeignKey &key, const std::vector<KeyPart> &own) {
  std::unique_ptr<ParentRow> parent(new ParentRow);
  std::vector<std::string> names;
  for (const ForeignKey::Column &column : key.columns) names.push_back(column.parent);
  parent->linked_ = LinkedIndex::find(thd, key.parent, names, own);
  if (!parent->linked_ || parent->definition_.read(thd, key.parent) != TableDefinition::Read::DONE)
    return nullptr;
  TableRecord record;
  if (!read_record(key.parent, &record)) return nullptr;
  parent->history_ = record.history;
  const LEX_CSTRING alias = parent->definition_.share().table_name;
  if (open_table_from_share(thd, parent->definition_.own_share(), &alias, 0, EXTRA_RECORD,
                            HA_OPEN_IGNORE_IF_LOCKED, &parent->table_, false))
    return nullptr;
  parent->is_open_ = true;
  TABLE *table = &parent->table_;
  if (table->s->primary_key != MAX_KEY) {
    parent->primary_codec_ = KeyCodec::make(table, table->s->primary_key, nullptr);
    if (!parent->primary_codec_) return nullptr;
  }
  parent->row_codec_ = RowCodec::make(table, parent->primary_codec_.get(), parent->history_);
  if (!parent->row_codec_) return nullptr;
  parent->reader_.reset(new (std::nothrow) RowReader(*parent->row_codec_));
  if (!parent->reader_ || !parent->find_index(key) || !parent->choose_columns()) return nullptr;
  if (open_cursor(parent->linked_->rows(), &parent->cursor_) != TIDESDB_OK) return nullptr;
  return parent;
}

bool ParentRow::find_index(const ForeignKey &key) {
  const Columns columns(table_);
  const std::vector<const Field *> fields = parent_columns(key, columns);
  index_ = fields.empty() ? MAX_KEY : columns.first_index(fields);
  return index_ != MAX_KEY;
}

/* The key has columns of the index and of the primary key. */
bool ParentRow::choose_columns() {
  bitmap_clear_all(&table_.tmp_set);
  for (const uint index : {index_, table_.s->primary_key}) {
    if (index == MAX_KEY) continue;
    const KEY &key = table_.key_info[index];
    for (uint i = 0; i < key.user_defined_key_parts; i++)
      bitmap_set_bit(&table_.tmp_set, key.key_part[i].fieldnr - 1);
  }
  return reader_->choose(&table_.tmp_set);
}

int ParentRow::read(THD *thd, tidesdb_txn *txn, const std::vector<KeyPart> &own, const uchar *record) {
  table_.in_use = thd;
  linked_->make_search(own, record, &search_);
  int status = linked_->look(txn, search_.slice(), TIDESDB_READ_LATEST, &key_);
  if (status != TIDESDB_OK) return status;
  const Slice key = key_.slice();
  Slice value;
  status = tidesdb_cursor_get(cursor_.get(), txn, key.data, key.size, TIDESDB_READ_LATEST, &value);
  if (status == TIDESDB_OK && !row_codec_->knows(RowReader::layout_version(value)))
    status = TIDESDB_NO_SUCH_FAMILY;
  if (status == TIDESDB_OK && !reader_->read(key, value, table_.record[0])) status = TIDESDB_CORRUPTION;
  return status;
}

void ParentRow::reset() {
  linked_->reset();
  tidesdb_cursor_reset(cursor_.get());
  reader_->end_statement();
  table_.in_use = nullptr;
}

}  // namespace tidesdb::cluster

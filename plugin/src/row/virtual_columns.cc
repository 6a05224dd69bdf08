#include "row/virtual_columns.h"

#include <new>

#include "sql_class.h"

namespace tidesdb {

namespace {

/* Swallows what the expressions have to say. */
class Silence : public Internal_error_handler {
 public:
  explicit Silence(THD *thd) : thd_(thd), abort_on_warning_(thd->abort_on_warning) {
    thd->abort_on_warning = false;
    thd->push_internal_handler(this);
  }
  ~Silence() override {
    thd_->pop_internal_handler();
    thd_->abort_on_warning = abort_on_warning_;
  }
  bool handle_condition(THD *, uint, const char *, Sql_condition::enum_warning_level *, const char *,
                        Sql_condition **condition) override {
    *condition = nullptr;
    return true;
  }

 private:
  THD *thd_;
  bool abort_on_warning_;
};

/* The table's fields stand in `record` instead of record[0]. */
class FieldsIn {
 public:
  FieldsIn(TABLE *table, uchar *record) : table_(table), distance_(record - table->record[0]) {
    move(distance_);
  }
  ~FieldsIn() { move(-distance_); }
  FieldsIn(const FieldsIn &) = delete;
  FieldsIn &operator=(const FieldsIn &) = delete;

 private:
  void move(my_ptrdiff_t distance) {
    if (distance != 0)
      for (Field **field = table_->field; *field; field++) (*field)->move_field_offset(distance);
  }
  TABLE *table_;
  my_ptrdiff_t distance_;
};

}  // namespace

bool VirtualColumns::compile(TABLE *table) try {
  clear();
  table_ = table;
  if (!table->vfield) return true;
  const TABLE_SHARE *share = table->s;
  indexes_.resize(share->keys);
  dependencies_.resize(share->keys);
  std::vector<my_bitmap_map> needed_memory(bitmap_buffer_size(share->fields) / sizeof(my_bitmap_map));
  for (uint i = 0; i < share->keys; i++) {
    const KEY &key = table->key_info[i];
    bool any = false;
    for (uint part = 0; part < key.user_defined_key_parts; part++)
      any = any || !table->field[key.key_part[part].fieldnr - 1]->stored_in_db();
    if (!any) continue;

    MY_BITMAP needed;
    my_bitmap_init(&needed, needed_memory.data(), share->fields);
    bitmap_clear_all(&needed);
    MY_BITMAP *const read_set = table->read_set;
    table->read_set = &needed; /* where the expressions enter the columns that they read */
    for (uint part = 0; part < key.user_defined_key_parts; part++) {
      Field *field = table->field[key.key_part[part].fieldnr - 1];
      bitmap_set_bit(&needed, field->field_index);
      if (!field->stored_in_db())
        field->vcol_info->expr->walk(&Item::register_field_in_read_map, true, nullptr);
    }
    table->read_set = read_set;
    dependencies_[i] = needed_memory;

    /* The server lets an expression use only columns that it computes before. */
    for (Field **field = table->vfield; *field; field++) {
      if ((*field)->stored_in_db() || !bitmap_is_set(&needed, (*field)->field_index)) continue;
      uint place = 0;
      while (place < columns_.size() && columns_[place]->field != *field) place++;
      if (place == columns_.size()) {
        std::unique_ptr<Column> column(new Column);
        column->field = *field;
        column->blob = (*field)->flags & BLOB_FLAG ? static_cast<Field_blob *>(*field) : nullptr;
        columns_.push_back(std::move(column));
      }
      indexes_[i].push_back(place);
    }
  }
  return true;
} catch (const std::bad_alloc &) {
  clear();
  return false;
}

void VirtualColumns::clear() {
  columns_.clear();
  indexes_.clear();
  dependencies_.clear();
}

void VirtualColumns::add_dependencies(uint index, MY_BITMAP *columns) const {
  if (!index_has_any(index)) return;
  /* (my_bitmap_init() would clear them.) */
  const std::vector<my_bitmap_map> &needed = dependencies_[index];
  for (size_t word = 0; word < needed.size(); word++) columns->bitmap[word] |= needed[word];
}

void VirtualColumns::complete(uint index, const MY_BITMAP *known, uchar *record) {
  if (!index_has_any(index)) return;
  const std::vector<uint> &needed = indexes_[index];
  bool all_known = known != nullptr;
  for (size_t i = 0; all_known && i < needed.size(); i++)
    all_known = bitmap_is_set(known, columns_[needed[i]]->field->field_index);
  if (!all_known) compute(needed, record);
}

void VirtualColumns::compute(const std::vector<uint> &columns, uchar *record) {
  THD *thd = table_->in_use;
  const Silence silence(thd);
  const FieldsIn fields(table_, record);
  Query_arena backup;
  thd->set_n_backup_active_arena(table_->expr_arena, &backup);
  for (const uint place : columns) {
    Column &column = *columns_[place];
    /* A value of the statement's, of the row in another buffer, may stand in the field's own memory. */
    if (column.blob) column.blob->swap(column.memory, false);
    column.field->vcol_info->expr->save_in_field(column.field, 0);
    if (column.blob) column.blob->swap(column.memory, false);
  }
  thd->restore_active_arena(table_->expr_arena, &backup);
}

}  // namespace tidesdb

#include "handler/child_table.h"

#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "foreign/key_columns.h"
#include "foreign/registry.h"
#include "row/row_end.h"
#include "txn/applier.h"

namespace tidesdb {

namespace {

/* What is stored in a child's column is the parent's value or nothing: the server's checks of it have no say.
 */
class Unchecked {
 public:
  explicit Unchecked(THD *thd)
      : thd_(thd), counted_(thd->count_cuted_fields), aborts_(thd->abort_on_warning) {
    thd->count_cuted_fields = CHECK_FIELD_IGNORE;
    thd->abort_on_warning = false;
  }
  ~Unchecked() {
    thd_->count_cuted_fields = counted_;
    thd_->abort_on_warning = aborts_;
  }
  Unchecked(const Unchecked &) = delete;
  Unchecked &operator=(const Unchecked &) = delete;

 private:
  THD *thd_;
  enum_check_fields counted_;
  bool aborts_;
};

/* Whether a column of the child took the parent's value as it is. */
bool is_equal(Field &child, Field &parent) {
  if (!(parent.flags & BLOB_FLAG) && parent.cmp_type() == STRING_RESULT) {
    char own_bytes[MAX_FIELD_WIDTH], other_bytes[MAX_FIELD_WIDTH];
    String own(own_bytes, sizeof(own_bytes), child.charset()),
        other(other_bytes, sizeof(other_bytes), parent.charset());
    const String *a = child.val_str(&own), *b = parent.val_str(&other);
    return a && b && !sortcmp(a, b, child.charset());
  }
  return true;
}

}  // namespace

/* The server counts what a closed table's statement has read. The session may be another's, or gone. */
ChildTable::~ChildTable() {
  table_.in_use = nullptr;
  if (is_open_) closefrm(&table_);
}

std::unique_ptr<ChildTable> ChildTable::open(THD *thd, const ForeignKey &key, int *error) {
  std::unique_ptr<ChildTable> child(new ChildTable);
  *error = HA_ERR_NO_SUCH_TABLE;
  child->generation_ = foreign::generation();
  if (child->definition_.read(thd, key.child) != TableDefinition::Read::DONE) return nullptr;
  const LEX_CSTRING alias{key.child_table.c_str(), key.child_table.size()};
  if (open_table_from_share(thd, child->definition_.own_share(), &alias, HA_OPEN_KEYFILE, EXTRA_RECORD,
                            HA_OPEN_IGNORE_IF_LOCKED, &child->table_, false)) {
    *error = HA_ERR_GENERIC;
    return nullptr;
  }
  child->is_open_ = true;
  TABLE &table = child->table_;
  child->handler_ = static_cast<ha_tidesdb *>(table.file);
  child->handler_->serve_actions(key.number);
  child->handler_->check_all_keys();
  const Columns columns(table);
  const std::vector<const Field *> fields = child_columns(key, columns);
  if (fields.empty()) return nullptr;
  for (const Field *field : fields) child->fields_.push_back(table.field[field->field_index]);
  bool prefix;
  const uint index = columns.find_index(fields, &prefix);
  if (index == MAX_KEY) return nullptr;
  child->index_ = index;
  child->parts_ = columns.first_parts(index, fields.size());
  *error = 0;
  return child;
}

void ChildTable::note_lock(THD *thd) {
  end();
  table_.in_use = thd;
  locked_in_ = thd->query_id;
}

bool ChildTable::is_locked(THD *thd) const { return locked_in_ == thd->query_id && table_.in_use == thd; }

int ChildTable::begin(THD *thd) {
  if (begun_in_ == thd->query_id) return 0;
  table_.use_all_columns();
  /* The stored columns are read; what is computed from them is not. */
  bitmap_clear_all(&table_.tmp_set);
  for (Field **field = table_.field; *field; field++)
    if ((*field)->stored_in_db()) bitmap_set_bit(&table_.tmp_set, (*field)->field_index);
  table_.read_set = &table_.tmp_set;
  if (const int error = handler_->external_lock(thd, F_WRLCK)) return error;
  begun_in_ = thd->query_id;
  return 0;
}

void ChildTable::end() {
  if (begun_in_ != 0) handler_->reset();
  locked_in_ = begun_in_ = 0;
  table_.in_use = nullptr;
}

int ChildTable::read(Slice key) { return handler_->read_for_action(key, table_.record[0]); }

bool ChildTable::has_values(Slice search) {
  values_.clear();
  handler_->compute_indexed_columns(index_, table_.record[0]);
  for (const KeyPart &part : parts_) append_part(part, table_.record[0], &values_, &scratch_);
  return same_bytes(values_.slice(), search);
}

bool ChildTable::is_current() const { return !is_history_row(&table_, table_.record[0]); }

/*
  The time of the change of the row in record[1].

  Logged rows carry seconds alone. A row that begins in the second of its change would seem to begin later,
  and would leave no history. Such a row changes a microsecond after its begin, so a replica keeps the same
  rows of the past as its primary.
*/
void ChildTable::choose_moment(const uchar *given) {
  THD *thd = table_.in_use;
  if (given) {
    memcpy(moment_, given, ROW_END_SIZE);
    return;
  }
  mi_int4store(moment_, static_cast<uint32>(thd->query_start()));
  mi_int3store(moment_ + 4, thd->query_start_sec_part());
  if (!applies_rows(thd)) return;
  const uchar *begin = table_.record[1] + table_.vers_start_field()->offset(table_.record[0]);
  const uint32 fraction = mi_uint3korr(begin + 4);
  if (memcmp(begin, moment_, 4) != 0 || memcmp(begin, moment_, ROW_END_SIZE) < 0 ||
      fraction >= TIME_MAX_SECOND_PART)
    return;
  mi_int3store(moment_ + 4, fraction + 1);
}

/* Writes the moment as the start or the end of the row in record[0]. Negative, 0, positive: the row then
   starts before, at, after its end. */
int ChildTable::store_moment(Field *field) {
  memcpy(field->ptr, moment_, ROW_END_SIZE);
  if (table_.vfield) table_.update_virtual_fields(handler_, VCOL_UPDATE_FOR_WRITE);
  return memcmp(table_.vers_start_field()->ptr, table_.vers_end_field()->ptr, ROW_END_SIZE);
}

/* Follows TABLE::delete_row(): no row of the past ends before it begins, and of several that end at one time
   the first one stays. */
int ChildTable::remove(const uchar *moment) {
  if (!table_.versioned()) return handler_->delete_row(table_.record[0]);
  store_record(&table_, record[1]);
  choose_moment(moment);
  int error = HA_ERR_FOUND_DUPP_KEY;
  if (store_moment(table_.vers_end_field()) <= 0)
    error = handler_->update_row(table_.record[1], table_.record[0]);
  return error == HA_ERR_FOUND_DUPP_KEY ? handler_->delete_row(table_.record[1]) : error;
}

/* Columns may be WITHOUT SYSTEM VERSIONING. */
bool ChildTable::changes_versioned_columns() const {
  const my_ptrdiff_t before = table_.record[1] - table_.record[0];
  for (Field *field : fields_) {
    if (field->vers_update_unversioned()) continue;
    if (field->is_real_null() || field->is_real_null(before) || field->cmp_binary_offset(before)) return true;
  }
  return false;
}

/* As the server's UPDATE does it: the row begins anew, and what it was is written as another row. */
int ChildTable::update(const uchar *moment) {
  const bool keeps_history = table_.versioned() && changes_versioned_columns();
  if (keeps_history) {
    choose_moment(moment);
    store_moment(table_.vers_start_field());
  }
  const int error = handler_->update_row(table_.record[1], table_.record[0]);
  if (error == HA_ERR_RECORD_IS_THE_SAME) return 0;
  if (error || !keeps_history) return error;
  restore_record(&table_, record[1]);
  return store_moment(table_.vers_end_field()) < 0 ? handler_->write_row(table_.record[0]) : 0;
}

int ChildTable::set_null(const uchar *moment) {
  store_record(&table_, record[1]);
  for (Field *field : fields_) {
    if (!field->real_maybe_null()) return HA_ERR_ROW_IS_REFERENCED;
    field->set_null();
  }
  return update(moment);
}

int ChildTable::follow(const std::vector<Field *> &fields, const uchar *record, const uchar *moment) {
  store_record(&table_, record[1]);
  const Unchecked unchecked(table_.in_use);
  for (size_t i = 0; i < fields_.size(); i++) {
    Field *from = fields[i], *to = fields_[i];
    if (!from) continue;
    const my_ptrdiff_t distance = record - from->table->record[0];
    from->move_field_offset(distance);
    bool fits = true;
    if (from->is_real_null()) {
      fits = to->real_maybe_null();
      if (fits) to->set_null();
    } else {
      to->set_notnull();
      field_conv(to, from);
      fits = is_equal(*to, *from);
    }
    from->move_field_offset(-distance);
    if (!fits) return HA_ERR_ROW_IS_REFERENCED;
  }
  return update(moment);
}

const char *ChildTable::duplicate_key() const {
  const uint key = handler_->duplicate_key();
  return key < table_.s->keys ? table_.key_info[key].name.str : "";
}

}  // namespace tidesdb

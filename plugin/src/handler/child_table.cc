#include "handler/child_table.h"

#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "foreign/key_columns.h"

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

ChildTable::~ChildTable() {
  if (is_open_) closefrm(&table_);
}

std::unique_ptr<ChildTable> ChildTable::open(THD *thd, const ForeignKey &key, int *error) {
  std::unique_ptr<ChildTable> child(new ChildTable);
  *error = HA_ERR_NO_SUCH_TABLE;
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
  const Columns columns(table);
  const std::vector<const Field *> fields = child_columns(key, columns);
  if (fields.empty()) return nullptr;
  for (const Field *field : fields) child->fields_.push_back(table.field[field->field_index]);
  bool prefix;
  const uint index = columns.find_index(fields, &prefix);
  if (index == MAX_KEY) return nullptr;
  child->parts_ = columns.parts(index);
  child->parts_.resize(fields.size());
  *error = 0;
  return child;
}

int ChildTable::begin(THD *thd) {
  if (statement_ == thd->query_id && table_.in_use == thd) return 0;
  end();
  table_.in_use = thd;
  table_.use_all_columns();
  /* The stored columns are read; what is computed from them is not. */
  bitmap_clear_all(&table_.tmp_set);
  for (Field **field = table_.field; *field; field++)
    if ((*field)->stored_in_db()) bitmap_set_bit(&table_.tmp_set, (*field)->field_index);
  table_.read_set = &table_.tmp_set;
  if (const int error = handler_->external_lock(thd, F_WRLCK)) return error;
  statement_ = thd->query_id;
  return 0;
}

void ChildTable::end() {
  if (statement_ != 0) handler_->reset();
  statement_ = 0;
}

int ChildTable::read(Slice key) { return handler_->read_for_action(key, table_.record[0]); }

bool ChildTable::has_values(Slice search) {
  values_.clear();
  for (const KeyPart &part : parts_) append_part(part, table_.record[0], &values_, &scratch_);
  return same_bytes(values_.slice(), search);
}

int ChildTable::remove() { return handler_->delete_row(table_.record[0]); }

int ChildTable::update() {
  const int error = handler_->update_row(table_.record[1], table_.record[0]);
  return error == HA_ERR_RECORD_IS_THE_SAME ? 0 : error;
}

int ChildTable::set_null() {
  store_record(&table_, record[1]);
  for (Field *field : fields_) {
    if (!field->real_maybe_null()) return HA_ERR_ROW_IS_REFERENCED;
    field->set_null();
  }
  return update();
}

int ChildTable::follow(const std::vector<Field *> &fields, const uchar *record) {
  store_record(&table_, record[1]);
  const Unchecked unchecked(table_.in_use);
  for (size_t i = 0; i < fields_.size(); i++) {
    Field *from = fields[i], *to = fields_[i];
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
  return update();
}

const char *ChildTable::duplicate_key() const {
  const uint key = handler_->duplicate_key();
  return key < table_.s->keys ? table_.key_info[key].name.str : "";
}

}  // namespace tidesdb

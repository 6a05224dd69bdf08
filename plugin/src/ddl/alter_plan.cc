#include "ddl/alter_plan.h"

#include <algorithm>

#include "sql_class.h"
#include "sql_table.h"

#include "ddl/tables.h"
#include "search/variables.h"
#include "server.h"

namespace tidesdb {

namespace {

/* Changes that touch definitions alone, or the form of new rows. */
constexpr alter_table_operations INSTANT_CHANGES =
    ALTER_CHANGE_COLUMN | ALTER_RENAME | ALTER_CHANGE_CREATE_OPTION | ALTER_COLUMN_DEFAULT |
    ALTER_RENAME_INDEX | ALTER_CHANGE_INDEX_COMMENT | ALTER_COLUMN_ORDER | ALTER_DROP_CHECK_CONSTRAINT |
    ALTER_RENAME_COLUMN | ALTER_ADD_VIRTUAL_COLUMN | ALTER_ADD_STORED_BASE_COLUMN |
    ALTER_DROP_VIRTUAL_COLUMN | ALTER_DROP_STORED_COLUMN | ALTER_COLUMN_NAME |
    ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE | ALTER_STORED_COLUMN_ORDER | ALTER_VIRTUAL_COLUMN_ORDER |
    ALTER_COLUMN_NULLABLE | ALTER_COLUMN_OPTION | ALTER_COLUMN_COLUMN_FORMAT | ALTER_COLUMN_INDEX_LENGTH |
    ALTER_INDEX_ORDER | ALTER_INDEX_IGNORABILITY | ALTER_CONVERT_TO;
constexpr alter_table_operations INDEX_CHANGES = ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX |
                                                 ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX |
                                                 ALTER_ADD_UNIQUE_INDEX | ALTER_DROP_UNIQUE_INDEX;

/* foreign::plan_keys() decides on them. */
constexpr alter_table_operations FOREIGN_KEYS = ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY;

const char *reason_of(alter_table_operations flags) {
  if (flags & (ALTER_STORED_COLUMN_TYPE | ALTER_VIRTUAL_COLUMN_TYPE))
    return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_COLUMN_TYPE);
  if (flags & (ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX)) return "TidesDB: rows stand by their primary key";
  if (flags & ALTER_COLUMN_NOT_NULLABLE) return "TidesDB: NOT NULL is checked row by row";
  if (flags & ALTER_ADD_CHECK_CONSTRAINT) return "TidesDB: CHECK is checked row by row";
  if (flags & (ALTER_ADD_STORED_GENERATED_COLUMN | ALTER_STORED_GCOL_EXPR | ALTER_VIRTUAL_GCOL_EXPR))
    return "TidesDB: generated columns are computed row by row";
  if (flags & ALTER_RECREATE_TABLE) return "TidesDB: the table is to be made anew";
  return "TidesDB: this change is made by copy";
}

/* Whether both collations give each character of the first one's character set the same weights.
   (Contractions are those of the collation's name, which is the same.) */
bool same_weights(const KeyPart &a, const KeyPart &b) {
  if (memcmp(a.space_weight, b.space_weight, sizeof(a.space_weight)) != 0 || a.filled != b.filled ||
      a.ends_at_nul != b.ends_at_nul || a.characters != b.characters ||
      !Charset(a.charset).eq_collation_specific_names(b.charset))
    return false;
  if (a.kind != KeyPart::Kind::WEIGHTS) return a.kind == KeyPart::Kind::TEXT_BYTES;
  constexpr my_wc_t LAST_OF_THREE_BYTES = 0xffff;
  const bool several = a.levels > 1;
  uchar text[8], of_a[256], of_b[256];
  for (my_wc_t character = 0; character <= LAST_OF_THREE_BYTES; character++) {
    const int size = a.charset->cset->wc_mb(a.charset, character, text, text + sizeof(text));
    if (size <= 0) continue;
    for (uint level = 0; a.levels >> level; level++) {
      if (!(a.levels & (1U << level))) continue;
      const uint flags = several ? MY_STRXFRM_LEVEL1 << level : 0;
      bool cut_a, cut_b;
      const size_t size_a = write_weights(a.charset, of_a, sizeof(of_a), text, size, flags, &cut_a);
      const size_t size_b = write_weights(b.charset, of_b, sizeof(of_b), text, size, flags, &cut_b);
      if (cut_a || cut_b || size_a != size_b || memcmp(of_a, of_b, size_a) != 0) return false;
    }
  }
  return true;
}

/* Whether keys of both parts are the same bytes for the same values. */
bool same_form(const KeyPart &a, const KeyPart &b) {
  const auto varchar = [](const KeyPart &part) {
    return part.storage == KeyPart::Storage::VARCHAR1 || part.storage == KeyPart::Storage::VARCHAR2;
  };
  if (a.kind != b.kind || a.nullable != b.nullable || a.descending != b.descending ||
      a.pad_space != b.pad_space || a.trim != b.trim || a.covering != b.covering || a.prefix != b.prefix ||
      a.levels != b.levels || a.unit != b.unit || a.encoded_size != b.encoded_size ||
      a.sort_size != b.sort_size)
    return false;
  if (a.charset != b.charset) {
    /* Cut by characters, or not at all. */
    if (a.storage == KeyPart::Storage::FIXED || (a.prefix && a.characters == 0)) return false;
    const bool varies = varchar(a) == varchar(b) && (varchar(a) || a.storage == b.storage);
    return varies && same_weights(a, b);
  }
  if (varchar(a) != varchar(b) || (!varchar(a) && a.storage != b.storage)) return false;
  if (a.prefix && (a.part_length != b.part_length || a.characters != b.characters)) return false;
  return varchar(a) || a.width == b.width;
}

class Planner {
 public:
  Planner(TABLE *table, TABLE *altered, const Alter_inplace_info *info, AlterPlan *plan)
      : table_(table), altered_(altered), info_(info), plan_(plan) {}

  /* nullptr, or why there is no plan. */
  const char *make(const TableRecord &record) {
    alter_table_operations others = info_->handler_flags & ~(INSTANT_CHANGES | INDEX_CHANGES | FOREIGN_KEYS);
    /* The server's handler for partitions says so of every ALTER; where the partitions themselves change, the
       server does not ask. */
    if (table_->part_info && altered_->part_info) others &= ~ALTER_PARTITIONED;
    if (others) return reason_of(others);
    /* The copy looks whether the one row is that of a sequence. */
    for (const TABLE *side : {table_, altered_})
      if (side->s->table_type == TABLE_TYPE_SEQUENCE) return "TidesDB: sequences are copied";
    if (table_->versioned() != altered_->versioned()) return "TidesDB: rows of the past come or go by copy";
    old_ = &record;
    plan_->record = record;
    plan_->record.set_definition(altered_);
    plan_->record.create_id = new_id();
    plan_->new_options = info_->handler_flags & ALTER_CHANGE_CREATE_OPTION;
    if (const char *reason = map_columns()) return reason;
    if (const char *reason = map_indexes()) return reason;
    return compare_layouts();
  }

 private:
  const char *map_columns() {
    RowHistory &history = plan_->record.history;
    history.column_ids.clear();
    if (info_->alter_info->create_list.elements != altered_->s->fields)
      return "TidesDB: tables with hidden columns are copied";
    find_renames();
    List_iterator_fast<Create_field> fields(info_->alter_info->create_list);
    for (uint i = 0; const Create_field *definition = fields++; i++) {
      const Field *field = altered_->field[i];
      if (field->real_type() == MYSQL_TYPE_BIT && static_cast<const Field_bit *>(field)->bit_len != 0)
        return "TidesDB: BIT among the NULL bits";
      if (definition->field) {
        if (const char *reason = keep_column(definition->field, field)) return reason;
        history.column_ids.push_back(old_->history.column_ids[definition->field->field_index]);
        continue;
      }
      history.column_ids.push_back(history.next_column_id++);
      if (const char *reason = read_new_column(field)) return reason;
      if (!field->stored_in_db()) continue;
      if (const char *reason = add_column(field)) return reason;
      plan_->new_columns.push_back(field);
    }
    return nullptr;
  }

  void find_renames() {
    List_iterator_fast<Create_field> fields(info_->alter_info->create_list);
    while (const Create_field *definition = fields++)
      if (definition->field && !same_name(definition->field->field_name, definition->field_name))
        plan_->renames[std::string(definition->field->field_name.str, definition->field->field_name.length)] =
            std::string(definition->field_name.str, definition->field_name.length);
  }

  const char *keep_column(const Field *before, const Field *after) const {
    if (before->stored_in_db() != after->stored_in_db()) return reason_of(ALTER_STORED_COLUMN_TYPE);
    if (after->check_constraint &&
        !(before->check_constraint &&
          same_expression(before->check_constraint, after->check_constraint, plan_->renames)))
      return reason_of(ALTER_ADD_CHECK_CONSTRAINT);
    if (before->vcol_info && after->vcol_info &&
        !same_expression(before->vcol_info, after->vcol_info, plan_->renames))
      return reason_of(ALTER_STORED_GCOL_EXPR);
    if ((before->flags ^ after->flags) & FIELD_IN_PART_FUNC_FLAG)
      return "TidesDB: rows are in their partitions by another column";
    if (after->unireg_check == Field::NEXT_NUMBER && before->unireg_check != Field::NEXT_NUMBER)
      return reason_of(ALTER_STORED_COLUMN_TYPE);
    return nullptr;
  }

  /* Whether something that is kept reads a new column: one of its name went in the same statement, and what
     was made of its values, row by row, with it. */
  const char *read_new_column(const Field *field) const {
    if (field->check_constraint || is_checked(altered_, field)) return reason_of(ALTER_ADD_CHECK_CONSTRAINT);
    if (field->flags & FIELD_IN_PART_FUNC_FLAG)
      return "TidesDB: rows are in their partitions by another column";
    List_iterator_fast<Create_field> fields(info_->alter_info->create_list);
    for (uint i = 0; const Create_field *definition = fields++; i++)
      if (definition->field && altered_->field[i]->vcol_info &&
          reads_column(altered_->field[i]->vcol_info, field))
        return reason_of(ALTER_STORED_GCOL_EXPR);
    return nullptr;
  }

  const char *add_column(const Field *field) const {
    if (field->unireg_check == Field::NEXT_NUMBER) return "TidesDB: automatic values are given row by row";
    if (field->default_value && field->default_value->flags & ~(VCOL_SESSION_FUNC | VCOL_TIME_FUNC))
      return "TidesDB: the default is another for each row";
    if (info_->error_if_not_empty) return "TidesDB: the column has no value for the rows that are there";
    if (field->type() == MYSQL_TYPE_GEOMETRY && !field->real_maybe_null())
      return "TidesDB: the column has no value for the rows that are there";
    return nullptr;
  }

  /* Number of the key in the new definition that the old one `number` becomes; MAX_KEY: it goes. */
  uint key_after(uint number) const {
    const KEY *before = table_->key_info + number;
    for (uint i = 0; i < info_->index_drop_count; i++)
      if (info_->index_drop_buffer[i] == before) return MAX_KEY;
    LEX_CSTRING name = before->name;
    for (size_t i = 0; i < info_->rename_keys.size(); i++)
      if (info_->rename_keys.at(i).old_key == before) name = info_->rename_keys.at(i).new_key->name;
    for (uint key = 0; key < altered_->s->keys; key++)
      if (!is_added(key) && same_name(altered_->key_info[key].name, name)) return key;
    return MAX_KEY;
  }

  bool is_added(uint key) const {
    for (uint i = 0; i < info_->index_add_count; i++)
      if (info_->index_add_buffer[i] == key) return true;
    return false;
  }

  const char *map_indexes() {
    constexpr const char *other_order = "TidesDB: the indexes of both definitions do not match";
    const uint keys = altered_->s->keys;
    if (info_->key_count != keys) return other_order;
    for (uint key = 0; key < keys; key++)
      if (!same_name(altered_->key_info[key].name, info_->key_info_buffer[key].name)) return other_order;

    std::vector<IndexRecord> &indexes = plan_->record.indexes;
    indexes.assign(keys, IndexRecord());
    std::vector<bool> known(keys, false), rebuilt(keys, false);
    for (uint number = 0; number < table_->s->keys; number++) {
      const bool primary = number == table_->s->primary_key;
      const uint key = key_after(number);
      if (primary != (key != MAX_KEY && key == altered_->s->primary_key))
        return reason_of(ALTER_DROP_PK_INDEX);
      if (key == MAX_KEY) {
        plan_->dropped.push_back(old_->indexes[number].id);
        continue;
      }
      if (known[key] || rebuilt[key]) return other_order;
      if (!same_key(table_->key_info[number], altered_->key_info[key])) {
        /* A column of it may be NULL now. */
        if (primary) return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_COLUMN_TYPE);
        rebuilt[key] = true;
        plan_->dropped.push_back(old_->indexes[number].id);
        continue;
      }
      known[key] = true;
      indexes[key] = old_->indexes[number];
      indexes[key].name.assign(altered_->key_info[key].name.str, altered_->key_info[key].name.length);
    }
    for (uint key = 0; key < keys; key++) {
      if (known[key]) continue;
      const KEY &added = altered_->key_info[key];
      if (!is_added(key) && !rebuilt[key]) return other_order;
      if (key == altered_->s->primary_key) return reason_of(ALTER_ADD_PK_INDEX);
      if (info_->ignore && added.flags & HA_NOSAME) return "TidesDB: IGNORE drops rows";
      if (added.algorithm == HA_KEY_ALG_LONG_HASH || added.without_overlaps)
        return "TidesDB: the server checks this index row by row";
      indexes[key].id = plan_->record.next_index_id++;
      indexes[key].unique = added.flags & HA_NOSAME;
      indexes[key].name.assign(added.name.str, added.name.length);
      take_settings(altered_, key, &indexes[key]);
      if (!take_words(altered_->in_use, altered_, key, &indexes[key])) return "no rules of words";
      plan_->added.push_back({key, indexes[key].id});
    }
    return nullptr;
  }

  bool same_key(const KEY &before, const KEY &after) const {
    if (before.user_defined_key_parts != after.user_defined_key_parts ||
        (before.flags & HA_NOSAME) != (after.flags & HA_NOSAME) || before.algorithm != after.algorithm)
      return false;
    for (uint i = 0; i < before.user_defined_key_parts; i++) {
      const uint from = before.key_part[i].fieldnr - 1U, to = after.key_part[i].fieldnr - 1U;
      if (old_->history.column_ids[from] != plan_->record.history.column_ids[to]) return false;
      if (is_full_text(before)) {
        if (table_->field[from]->charset() != altered_->field[to]->charset()) return false;
        continue;
      }
      if (!same_form(compile_key_part(table_, before.key_part[i]),
                     compile_key_part(altered_, after.key_part[i])))
        return false;
    }
    return true;
  }

  const char *compare_layouts() {
    RowHistory &history = plan_->record.history;
    std::unique_ptr<KeyCodec> before, after;
    if (old_->has_primary_key) {
      before = KeyCodec::make(table_, table_->s->primary_key, nullptr);
      after = KeyCodec::make(altered_, altered_->s->primary_key, nullptr);
      if (!before || !after) return "out of memory";
    }
    const RowLayout present = present_layout(table_, before.get(), old_->history);
    const RowLayout next = present_layout(altered_, after.get(), history);
    for (const LayoutColumn &column : next.columns)
      for (const LayoutColumn &known : present.columns)
        if (known.id == column.id &&
            (known.kind != column.kind || known.size != column.size || (known.null != 0 && column.null == 0)))
          return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_COLUMN_TYPE);
    plan_->new_layout = !present.same_form(next);
    if (!plan_->new_layout) return nullptr;
    if (history.older.size() >= MAX_OLDER_LAYOUTS)
      return "TidesDB: the table has had too many instant changes since it was made";
    history.older.push_back(present);
    history.version++;
    const auto is_gone = [&](const ColumnDefault &value) {
      return std::find(history.column_ids.begin(), history.column_ids.end(), value.id) ==
             history.column_ids.end();
    };
    history.defaults.erase(std::remove_if(history.defaults.begin(), history.defaults.end(), is_gone),
                           history.defaults.end());
    return nullptr;
  }

  TABLE *table_;
  TABLE *altered_;
  const Alter_inplace_info *info_;
  AlterPlan *plan_;
  const TableRecord *old_ = nullptr;
};

}  // namespace

bool plan_alter(TABLE *table, TABLE *altered, const Alter_inplace_info *info, const std::string &name,
                const TableRecord &record, AlterPlan *plan, const char **reason) {
  *reason = Planner(table, altered, info, plan).make(record);
  if (!*reason) *reason = foreign::plan_keys(table, altered, info, name, &plan->record, &plan->keys);
  return *reason == nullptr;
}

const char *take_defaults(TABLE *altered, AlterPlan *plan) {
  if (plan->new_columns.empty()) return nullptr;
  RowHistory &history = plan->record.history;
  restore_record(altered, s->default_values);
  /* One that does not fit is a warning here. The copy answers by the mode. */
  THD *thd = altered->in_use;
  const enum_check_fields counted = thd->count_cuted_fields;
  for (const Field *column : plan->new_columns) {
    Field *field = altered->field[column->field_index];
    thd->count_cuted_fields = CHECK_FIELD_IGNORE;
    const bool fits = !field->set_default();
    thd->count_cuted_fields = counted;
    if (!fits) return "the default cannot be computed, or does not fit";
    ColumnDefault value = take_default(field, history.column_ids[field->field_index]);
    if (value.value.size() > MAX_DEFAULT_SIZE) return "TidesDB: the default is too long";
    history.defaults.push_back(std::move(value));
  }
  return nullptr;
}

namespace {

uint key_of_part(const TABLE *table, const KEY_PART_INFO &part) {
  uint number = 0;
  for (; number < table->s->keys; number++) {
    const KEY &key = table->key_info[number];
    if (&part >= key.key_part && &part < key.key_part + key.user_defined_key_parts) break;
  }
  return number;
}

std::string lower_case(const LEX_CSTRING &text) {
  std::string lower(text.str, text.length);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  return lower;
}

/* Whether an expression of the table's definition reads the column: other collations give it other values. */
bool is_read(const Field &field) {
  for (Field **other = field.table->field; *other; other++)
    if ((*other)->vcol_info && reads_column((*other)->vcol_info, &field)) return true;
  return is_checked(field.table, &field);
}

}  // namespace

bool changes_words(THD *thd, const TABLE *table, const TableRecord &record, const KEY_PART_INFO &part) {
  const uint number = key_of_part(table, part);
  if (number == table->s->keys || !is_full_text(table->key_info[number])) return false;
  const LEX_CSTRING &name = table->key_info[number].name;
  List<Alter_drop> dropped(thd->lex->alter_info.drop_list);
  List_iterator<Alter_drop> drops(dropped);
  bool is_dropped = false;
  while (const Alter_drop *drop = drops++)
    is_dropped = is_dropped || (drop->type == Alter_drop::KEY && same_name(name_of(*drop), name));
  if (!is_dropped) return false;
  List<Key> keys(thd->lex->alter_info.key_list);
  List_iterator<Key> made(keys);
  while (const Key *key = made++) {
    if (key->type != Key::FULLTEXT) continue;
    const LEX_CSTRING &parser = key->key_create_info.parser_name;
    FullTextSettings settings;
    full_text::Refusal refusal;
    if (!full_text::settings_of_new(thd, name, !parser.str ? "" : lower_case(parser), &settings, &refusal) ||
        settings != record.indexes[number].full_text)
      return true;
  }
  return false;
}

bool keeps_text(const Field &field, const Column_definition &to) {
  if (field.type_handler() != to.type_handler() || field.charset() == to.charset ||
      field.compression_method() || to.compression_method() || field.flags & FIELD_IN_PART_FUNC_FLAG)
    return false;
  const Charset charset(field.charset());
  if (!charset.encoding_allows_reinterpret_as(to.charset)) return false;
  if (!charset.eq_collation_specific_names(to.charset) && ((field.flags & PRI_KEY_FLAG) || is_read(field)))
    return false;
  switch (field.real_type()) {
    case MYSQL_TYPE_VARCHAR:
      return field.field_length <= to.length && field.char_length() <= to.char_length;
    case MYSQL_TYPE_STRING:
      return field.char_length() == to.char_length;
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
      return field.pack_length() == to.pack_length;
    default:
      return false;
  }
}

bool only_grows(const Field &field, const Column_definition &to) {
  return field.real_type() == MYSQL_TYPE_VARCHAR && to.real_field_type() == MYSQL_TYPE_VARCHAR &&
         field.type_handler() == to.type_handler() && field.charset() == to.charset &&
         !field.compression_method() && !to.compression_method() && field.field_length <= to.length;
}

}  // namespace tidesdb

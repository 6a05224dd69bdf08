#include "row/virtual_columns.h"

#include <new>

#include "sql_class.h"
#include "tztime.h"

#include "ddl/expression_text.h"
#include "ddl/table_record.h"

namespace tidesdb {

namespace {

constexpr uint32 LARGE_BYTES = 65536;

uint32_t kind_of(const Field *field) {
  switch (field->real_type()) {
    case MYSQL_TYPE_TIMESTAMP:
    case MYSQL_TYPE_TIMESTAMP2:
      return TIMESTAMP_COLUMN;
    case MYSQL_TYPE_TIME:
    case MYSQL_TYPE_TIME2:
      return TIME_COLUMN;
    case MYSQL_TYPE_DATE:
    case MYSQL_TYPE_NEWDATE:
    case MYSQL_TYPE_DATETIME:
    case MYSQL_TYPE_DATETIME2:
      return DATE_COLUMN;
    case MYSQL_TYPE_STRING:
      return CHAR_COLUMN;
    default:
      return (field->flags & BLOB_FLAG) && field->field_length >= LARGE_BYTES
                 ? static_cast<uint32_t>(LARGE_COLUMN)
                 : 0;
  }
}

/* Sets the bits of the columns that the expression reads, virtual ones and what these read included. */
void add_columns_read(TABLE *table, const Field *field, MY_BITMAP *columns) {
  MY_BITMAP *const read_set = table->read_set;
  table->read_set = columns; /* where the expressions enter the columns that they read */
  field->vcol_info->expr->walk(&Item::register_field_in_read_map, true, nullptr);
  table->read_set = read_set;
}

/* The bytes of BIT columns that stand among the NULL bits. */
void copy_bits(const Field *field, const TABLE *table, const uchar *from, uchar *to) {
  const Field_bit *bits = static_cast<const Field_bit *>(field);
  if (bits->bit_len == 0) return;
  const size_t offset = static_cast<size_t>(bits->bit_ptr - table->record[0]);
  const uchar value = static_cast<uchar>(get_rec_bits(from + offset, bits->bit_ofs, bits->bit_len));
  set_rec_bits(value, to + offset, bits->bit_ofs, bits->bit_len);
}

}  // namespace

/* `own`: the table in which the expressions are computed, open from prepare() on. */
struct VirtualColumns::Group {
  ~Group() {
    own.in_use = nullptr;
    if (is_open) closefrm(&own);
  }

  ExpressionSettings settings;
  uint32_t needs = 0; /* of all its indexes */
  bool is_known = true;
  Time_zone *zone = nullptr;
  bool has_other_rules = false; /* the zone has other rules than when the index was made */
  CharsetCollations collations;
  TABLE own{};
  bool is_open = false;
};

VirtualColumns::VirtualColumns() = default;
VirtualColumns::~VirtualColumns() = default;

bool has_virtual_part(const TABLE *table, const KEY &key) {
  for (uint part = 0; part < key.user_defined_key_parts; part++)
    if (!table->field[key.key_part[part].fieldnr - 1]->stored_in_db()) return true;
  return false;
}

bool VirtualColumns::compile(TABLE *table, const std::vector<IndexRecord> &records) try {
  clear();
  table_ = table;
  if (!table->vfield) return true;
  const TABLE_SHARE *share = table->s;
  indexes_.resize(share->keys);
  blobs_.resize(share->fields);
  compile_sources();
  for (uint i = 0; i < share->keys; i++)
    if (has_virtual_part(table, table->key_info[i])) compile_index(i, records[i]);
  return true;
} catch (const std::bad_alloc &) {
  clear();
  return false;
}

void VirtualColumns::compile_index(uint number, const IndexRecord &known) {
  const TABLE_SHARE *share = table_->s;
  const KEY &key = table_->key_info[number];
  Index &index = indexes_[number];
  index.is_stale = known.is_stale;
  index.dependencies.resize(bitmap_buffer_size(share->fields) / sizeof(my_bitmap_map));
  MY_BITMAP needed;
  my_bitmap_init(&needed, index.dependencies.data(), share->fields); /* (and clears it) */
  for (uint part = 0; part < key.user_defined_key_parts; part++) {
    const Field *field = table_->field[key.key_part[part].fieldnr - 1];
    if (field->stored_in_db()) continue;
    bitmap_set_bit(&needed, field->field_index);
    add_columns_read(table_, field, &needed);
  }
  uint32_t kinds = 0;
  for (Field **field = table_->field; *field; field++) {
    if (!bitmap_is_set(&needed, (*field)->field_index)) continue;
    const uint32_t kind = kind_of(*field);
    kinds |= kind;
    if ((*field)->stored_in_db())
      index.sources.push_back(*field);
    else if (kind & (DATE_COLUMN | TIMESTAMP_COLUMN))
      kinds |= COMPUTED_DATE_COLUMN;
  }
  /* The server lets an expression use only columns that it computes before. */
  for (Field **field = table_->vfield; *field; field++) {
    if ((*field)->stored_in_db() || !bitmap_is_set(&needed, (*field)->field_index)) continue;
    index.columns.push_back((*field)->field_index);
    index.needs |= needs_of_expression(expression_text((*field)->vcol_info), kinds);
  }
  for (uint part = 0; part < key.user_defined_key_parts; part++)
    bitmap_set_bit(&needed, key.key_part[part].fieldnr - 1U);

  const ExpressionSettings settings =
      known.has_settings ? known.settings : ExpressionSettings::of(table_->in_use);
  for (index.group = 0; index.group < groups_.size(); index.group++) {
    const Group &group = *groups_[index.group];
    if (group.is_known == known.has_settings && group.settings.is_same(settings, index.needs | group.needs))
      break;
  }
  if (index.group == groups_.size()) {
    groups_.emplace_back(new Group);
    groups_.back()->settings = settings;
    groups_.back()->is_known = known.has_settings;
  }
  groups_[index.group]->needs |= index.needs;
}

void VirtualColumns::compile_sources() {
  const uint fields = table_->s->fields;
  const size_t words = bitmap_buffer_size(fields) / sizeof(my_bitmap_map);
  for (Field **field = table_->vfield; *field; field++) {
    if ((*field)->stored_in_db()) continue;
    sources_.push_back({(*field)->field_index, std::vector<my_bitmap_map>(words)});
    MY_BITMAP columns;
    my_bitmap_init(&columns, sources_.back().columns.data(), fields); /* (and clears it) */
    add_columns_read(table_, *field, &columns);
  }
}

void VirtualColumns::add_sources(MY_BITMAP *columns) const {
  for (const Sources &of : sources_) {
    if (!bitmap_is_set(columns, of.column)) continue;
    for (size_t word = 0; word < of.columns.size(); word++) /* (Sets of all columns are shared by threads.) */
      if (of.columns[word] & ~columns->bitmap[word]) columns->bitmap[word] |= of.columns[word];
  }
}

void VirtualColumns::clear() {
  sources_.clear();
  indexes_.clear();
  groups_.clear();
  blobs_.clear();
}

void VirtualColumns::add_dependencies(uint index, MY_BITMAP *columns) const {
  if (!index_has_any(index)) return;
  /* (my_bitmap_init() would clear them.) */
  const std::vector<my_bitmap_map> &needed = indexes_[index].dependencies;
  for (size_t word = 0; word < needed.size(); word++) columns->bitmap[word] |= needed[word];
}

bool VirtualColumns::open(THD *thd, Group *group) {
  const std::string &name = group->settings.zone;
  const String wanted(name.data(), name.size(), &my_charset_latin1);
  group->zone = my_tz_find(thd, &wanted);
  if (!group->zone) return false;
  group->has_other_rules =
      (group->needs & (NEEDS_ZONE | NEEDS_DAY)) && rules_of(group->zone) != group->settings.zone_rules;
  if (!group->collations.parse(group->settings.collations)) return false;
  if (!(group->needs & NEEDS_DAY)) group->settings.moment = 0;
  const SettingsScope scope(thd, group->settings, group->zone, &group->collations);
  /* The server checks expressions anew in some statements. */
  const enum_sql_command command = thd->lex->sql_command;
  thd->lex->sql_command = SQLCOM_SELECT;
  const LEX_CSTRING alias{table_->alias.ptr(), table_->alias.length()};
  group->is_open = !open_table_from_share(thd, table_->s, &alias, 0, OPEN_FRM_FILE_ONLY | EXTRA_RECORD,
                                          HA_OPEN_IGNORE_IF_LOCKED, &group->own, false);
  thd->lex->sql_command = command;
  if (!group->is_open) return false;
  group->own.use_all_columns();
  /* Its columns are no constants. */
  group->own.map = 1;
  return true;
}

bool VirtualColumns::prepare(THD *thd, std::string *why) {
  for (const std::unique_ptr<Group> &group : groups_) {
    if (group->is_open || open(thd, group.get())) continue;
    *why = group->zone
               ? "an index has virtual columns that cannot be computed"
               : "an index has virtual columns that are computed in the time zone '" + group->settings.zone +
                     "', which the server does not know; load the time zone tables, or make the table "
                     "anew (ALTER TABLE ... FORCE)";
    return false;
  }
  return true;
}

const char *VirtualColumns::difference(uint index, THD *thd, const ExpressionSettings &opened) const {
  const Index &of = indexes_[index];
  const Group &group = *groups_[of.group];
  if (!group.is_known) return "the build that made the index";
  if (of.is_stale) return "the definition of the table";
  if (!group.is_open) return "time_zone";
  if ((of.needs & (NEEDS_ZONE | NEEDS_DAY)) && group.has_other_rules) return "the rules of its time zone";
  if (of.needs == 0) return nullptr;
  if (const char *other = group.settings.difference(ExpressionSettings::of(thd, of.needs), of.needs))
    return other;
  /* These were taken when the server opened the table. */
  constexpr uint32_t KEPT = NEEDS_SUBTRACTION | NEEDS_DIVISION | NEEDS_PATTERNS | NEEDS_COLLATIONS;
  return group.settings.difference(opened, of.needs & NEEDS_OPENING ? of.needs : of.needs & KEPT);
}

std::vector<std::string> VirtualColumns::expressions(uint index) const {
  std::vector<std::string> texts;
  if (!index_has_any(index)) return texts;
  const Group &group = *groups_[indexes_[index].group];
  /* Constants that are times of a zone are printed by its rules. */
  if (!group.is_open || group.has_other_rules) return texts;
  for (const uint column : indexes_[index].columns) {
    const Field *field = group.own.field[column];
    texts.push_back(quoted_name({field->field_name.str, field->field_name.length}) + " AS " +
                    expression_text(field->vcol_info) + collations_of(field->vcol_info));
  }
  return texts;
}

const uchar *VirtualColumns::row_with(uint index, const uchar *record) {
  Group &group = *groups_[indexes_[index].group];
  if (!group.is_open) return record;
  THD *thd = table_->in_use;
  TABLE &own = group.own;
  own.in_use = thd;
  memcpy(own.record[0], record, table_->s->reclength);
  const SettingsScope scope(thd, group.settings, group.zone, &group.collations);
  Query_arena backup;
  thd->set_n_backup_active_arena(own.expr_arena, &backup);
  for (const uint column : indexes_[index].columns) {
    Field *field = own.field[column];
    field->vcol_info->expr->save_in_field(field, 0);
  }
  thd->restore_active_arena(own.expr_arena, &backup);
  return own.record[0];
}

void VirtualColumns::complete(uint index, uchar *record) {
  if (!index_has_any(index)) return;
  const uchar *row = row_with(index, record);
  for (const uint column : indexes_[index].columns) {
    const Field *field = table_->field[column];
    const size_t offset = field->offset(table_->record[0]);
    if (field->real_maybe_null()) {
      const size_t null_offset = field->null_offset(table_->record[0]);
      record[null_offset] =
          static_cast<uchar>((record[null_offset] & ~field->null_bit) | (row[null_offset] & field->null_bit));
    }
    memcpy(record + offset, row + offset, field->pack_length_in_rec());
    if (field->real_type() == MYSQL_TYPE_BIT) copy_bits(field, table_, row, record);
    if (field->flags & BLOB_FLAG) keep_blob(column, row, record);
  }
}

void VirtualColumns::keep_blob(uint column, const uchar *row, uchar *record) {
  const Field_blob *blob = static_cast<const Field_blob *>(table_->field[column]);
  const size_t offset = blob->offset(table_->record[0]);
  const size_t pointer = offset + blob->pack_length_no_ptr();
  const uchar *bytes;
  memcpy(&bytes, row + pointer, sizeof(bytes));
  ByteBuffer &kept = blobs_[column];
  if (bytes != kept.data()) kept.assign({bytes, blob->get_length(row + offset)});
  bytes = kept.data();
  memcpy(record + pointer, &bytes, sizeof(bytes));
}

void VirtualColumns::keep_blobs(const MY_BITMAP *columns, uchar *record) {
  for (const Sources &of : sources_) {
    const Field *field = table_->field[of.column];
    if (!(field->flags & BLOB_FLAG) || !bitmap_is_set(columns, of.column)) continue;
    if (!field->is_null_in_record(record)) keep_blob(of.column, record, record);
  }
}

}  // namespace tidesdb

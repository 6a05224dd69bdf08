#include "row/row_layout.h"

namespace tidesdb {

namespace {

/* CHAR up to this size is kept with its trailing spaces: a length would save nothing. */
constexpr uint FIXED_CHAR_LIMIT = 8;

}  // namespace

RowKind row_kind(const Field *field) {
  if (!field->stored_in_db()) return RowKind::NONE;
  if (field->flags & BLOB_FLAG) return RowKind::BLOB;
  const enum_field_types type = field->real_type();
  if (type == MYSQL_TYPE_VARCHAR || type == MYSQL_TYPE_VARCHAR_COMPRESSED)
    return static_cast<const Field_varstring *>(field)->length_bytes == 1 ? RowKind::VARCHAR1
                                                                          : RowKind::VARCHAR2;
  if (type == MYSQL_TYPE_STRING && field->type_handler() == &type_handler_string &&
      field->charset() != &my_charset_bin && field->pack_length() > FIXED_CHAR_LIMIT)
    return RowKind::CHAR;
  return RowKind::FIXED;
}

std::vector<bool> columns_in_key(const TABLE *table, const KeyCodec *primary) {
  std::vector<bool> in_key(table->s->fields, false);
  if (!primary) return in_key;
  const std::vector<KeyPart> &parts = primary->parts();
  for (size_t i = 0; i < parts.size() && part_is_self_contained(parts[i]); i++)
    in_key[parts[i].field_index] = true;
  return in_key;
}

RowLayout present_layout(const TABLE *table, const KeyCodec *primary, const RowHistory &history) {
  RowLayout layout;
  layout.version = history.version;
  layout.null_bytes = static_cast<uint16_t>(table->s->null_bytes);
  const std::vector<bool> in_key = columns_in_key(table, primary);
  for (uint i = 0; i < table->s->fields; i++) {
    const Field *field = table->field[i];
    const RowKind kind = row_kind(field);
    if (kind == RowKind::NONE || in_key[i]) continue;
    LayoutColumn column;
    column.id = history.column_ids[i];
    column.kind = kind == RowKind::FIXED ? LayoutColumn::FIXED : LayoutColumn::VARIABLE;
    column.size = kind == RowKind::FIXED ? field->pack_length_in_rec() : 0;
    if (field->real_maybe_null()) {
      uint bit = 0;
      while (!(field->null_bit & (1U << bit))) bit++;
      column.null = static_cast<uint16_t>(1 + 8 * (field->null_ptr - table->record[0]) + bit);
    }
    layout.columns.push_back(column);
  }
  return layout;
}

ColumnDefault take_default(const Field *field, uint32_t id) {
  ColumnDefault value;
  value.id = id;
  value.null = field->is_null();
  if (value.null) return value;
  const uchar *at = field->ptr;
  switch (row_kind(field)) {
    case RowKind::VARCHAR1:
      value.value.assign(reinterpret_cast<const char *>(at + 1), *at);
      break;
    case RowKind::VARCHAR2:
      value.value.assign(reinterpret_cast<const char *>(at + 2), uint2korr(at));
      break;
    case RowKind::BLOB: {
      const Field_blob *blob = static_cast<const Field_blob *>(field);
      value.value.assign(reinterpret_cast<const char *>(blob->get_ptr()), blob->get_length());
      break;
    }
    case RowKind::CHAR:
      value.value.assign(
          reinterpret_cast<const char *>(at),
          field->charset()->lengthsp(reinterpret_cast<const char *>(at), field->pack_length()));
      break;
    default:
      value.value.assign(reinterpret_cast<const char *>(at), field->pack_length_in_rec());
  }
  return value;
}

}  // namespace tidesdb

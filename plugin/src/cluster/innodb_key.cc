#include "cluster/innodb_key.h"

#include <algorithm>

#include "my_md5.h"
#include "sql_class.h"

#include "mutant.h"
#include "server.h"

namespace tidesdb::cluster {

namespace {

/* InnoDB's bound of a column in an index, and the room that it gives the weights of one. */
constexpr size_t LONGEST_COLUMN = 3072;

/* Bytes of InnoDB's own row number, which stands in for a primary key. */
constexpr size_t ROW_NUMBER_SIZE = 6;

const uchar *place_of(const TABLE &table, const Field *field, const uchar *record) {
  return record + (field->ptr - table.record[0]);
}

bool is_varchar(const Field *field) { return field->type() == MYSQL_TYPE_VARCHAR; }

bool is_blob(const Field *field) {
  switch (field->type()) {
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
    case MYSQL_TYPE_GEOMETRY:
      return true;
    default:
      return false;
  }
}

bool is_enumeration(const Field *field) {
  return field->real_type() == MYSQL_TYPE_ENUM || field->real_type() == MYSQL_TYPE_SET;
}

bool is_char(const Field *field) {
  return !is_enumeration(field) &&
         (field->type() == MYSQL_TYPE_STRING || field->type() == MYSQL_TYPE_VAR_STRING);
}

/* The value of a VARCHAR or BLOB, or the bytes in the record of others. */
Slice value_of(const TABLE &table, const Field *field, const uchar *record) {
  const uchar *at = place_of(table, field, record);
  if (is_varchar(field)) {
    const uint bytes = static_cast<const Field_varstring *>(field)->length_bytes;
    return {at + bytes, bytes == 1 ? static_cast<size_t>(*at) : uint2korr(at)};
  }
  if (is_blob(field)) {
    const Field_blob *blob = static_cast<const Field_blob *>(field);
    return {blob->get_ptr(at), blob->get_length(at)};
  }
  return {at, field->pack_length()};
}

/* The first bytes of a text that make so many whole characters. */
size_t whole_characters(CHARSET_INFO *charset, Slice text, size_t characters) {
  int error;
  const char *begin = reinterpret_cast<const char *>(text.data);
  return my_well_formed_length(charset, begin, begin + text.size, characters, &error);
}

/* A text as long as a part of an index spans. */
Slice cut_to(CHARSET_INFO *charset, Slice text, size_t length) {
  if (text.size > 0 && charset->mbmaxlen > 1)
    text.size = whole_characters(charset, text, length / charset->mbmaxlen);
  text.size = std::min(text.size, length);
  return text;
}

/* As InnoDB stores CHAR in all formats of rows but REDUNDANT: without spaces that fill it up, if characters
   have one byte or several. */
Slice stored_char(const Field *field, Slice text) {
  CHARSET_INFO *charset = field->charset();
  if (charset->mbminlen != 1 || charset->mbmaxlen == 1) return text;
  const size_t characters = text.size / charset->mbmaxlen;
  while (text.size > characters && text.data[text.size - 1] == ' ') text.size--;
  return text;
}

/* Whether an index has the column, all of it. */
bool has_whole(const KEY &key, const Field *field) {
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    if (key.key_part[i].fieldnr == field->field_index + 1U &&
        !(key.key_part[i].key_part_flag & HA_PART_KEY_SEG))
      return true;
  return false;
}

}  // namespace

/* What does not fit is cut off. */
void InnodbKey::append(const uchar *bytes, size_t count) {
  count = std::min(count, room());
  if (count == 0) return;
  memcpy(end(), bytes, count);
  size_ += count;
}

void InnodbKey::append_zeros(size_t count) {
  count = std::min(count, room());
  memset(end(), 0, count);
  size_ += count;
}

void InnodbKey::append_weights(CHARSET_INFO *charset, Slice text, size_t bound) {
  uchar weights[LONGEST];
  const size_t size = write_some_weights(charset, weights, bound, text.data, text.size);
  append(weights, size);
}

void InnodbKey::append_row_part(const KEY_PART_INFO &part, const TABLE &table, const uchar *record) {
  const Field *field = part.field;
  const bool has_length = is_varchar(field) || is_blob(field);
  if (part.null_bit) {
    const bool is_null = record[part.null_offset] & part.null_bit;
    const uchar byte = is_null ? 1 : 0;
    append(&byte, 1);
    if (is_null) return append_zeros(part.length + (has_length ? 2 : 0));
  }
  is_null_ = false;
  if (has_length) {
    Slice text = cut_to(field->charset(), value_of(table, field, record), part.length);
    text.size = std::min(text.size, LONGEST_COLUMN);
    if (text.size != 0) append_weights(field->charset(), text, LONGEST_COLUMN);
  } else if (is_char(field)) {
    Slice text{record + part.offset, part.length};
    text = cut_to(field->charset(), text, part.length);
    if (text.size != 0) append_weights(field->charset(), text, LONGEST_COLUMN);
  } else {
    append(record + part.offset, part.length);
  }
}

void InnodbKey::row_key(const TABLE &table, uint index, const uchar *record) {
  bytes_[0] = static_cast<uchar>(MUTANT(KeyNumberDiffers) ? index + 1 : index);
  size_ = 0;
  is_null_ = true;
  const KEY &key = table.key_info[index];
  for (uint i = 0; i < key.user_defined_key_parts; i++) append_row_part(key.key_part[i], table, record);
}

/* `prefix`: bytes of the column that the index has; 0: all. */
void InnodbKey::append_stored(const TABLE &table, const Field *field, uint prefix, const uchar *record) {
  if (field->real_maybe_null()) {
    const bool is_null = field->is_null_in_record(record);
    const uchar byte = is_null ? 1 : 0;
    append(&byte, 1);
    if (is_null) return;
  }
  Slice value = value_of(table, field, record);
  CHARSET_INFO *charset = field->charset();
  if (is_blob(field)) {
    if (prefix != 0) value = cut_to(charset, value, prefix);
    append(value.data, value.size);
  } else if (is_varchar(field) || is_char(field)) {
    const bool is_binary = field->binary() || field->key_type() == HA_KEYTYPE_BINARY;
    if (!is_binary && !is_varchar(field)) value = stored_char(field, value);
    if (prefix != 0) value = cut_to(charset, value, prefix);
    if (is_binary)
      append(value.data, value.size);
    else
      append_weights(charset, value, LONGEST);
  } else {
    append(value.data, value.size);
  }
}

/*
  An entry of an index that is not the primary key goes on with the columns of that. InnoDB leaves out the
  last column of the whole, which is right where the primary key has one column of its own.
*/
void InnodbKey::stored_key(const TABLE &table, uint index, const uchar *record) {
  bytes_[0] = static_cast<uchar>(innodb_index_number(table, index));
  size_ = 0;
  is_null_ = false;
  if (index == MAX_KEY) return append_zeros(ROW_NUMBER_SIZE);
  const KEY &key = table.key_info[index];
  const uint primary = table.s->primary_key;
  const auto append_part = [&](const KEY_PART_INFO &part) {
    const uint prefix = part.key_part_flag & HA_PART_KEY_SEG ? part.length : 0U;
    append_stored(table, table.field[part.fieldnr - 1], prefix, record);
  };
  if (index == primary) {
    for (uint i = 0; i < key.user_defined_key_parts; i++) append_part(key.key_part[i]);
    return;
  }
  const KEY_PART_INFO *last = nullptr;
  const auto append_before_last = [&](const KEY_PART_INFO &part) {
    if (last) append_part(*last);
    last = &part;
  };
  for (uint i = 0; i < key.user_defined_key_parts; i++) append_before_last(key.key_part[i]);
  if (primary == MAX_KEY) return append_part(*last);
  const KEY &rows = table.key_info[primary];
  for (uint i = 0; i < rows.user_defined_key_parts; i++)
    if (!has_whole(key, table.field[rows.key_part[i].fieldnr - 1])) append_before_last(rows.key_part[i]);
}

uint innodb_index_number(const TABLE &table, uint index) {
  const uint primary = table.s->primary_key;
  if (index == MAX_KEY || index == primary) return 0;
  return primary == MAX_KEY || index > primary ? index : index + 1;
}

void digest_row(const TABLE &table, const uchar *record, uchar *digest) {
  void *context = alloca(my_md5_context_size());
  my_md5_init(context);
  for (Field **at = table.field; *at; at++) {
    const Field *field = *at;
    if (!field->stored_in_db()) continue;
    const uchar is_there = field->is_null_in_record(record) ? 0 : 1;
    my_md5_input(context, &is_there, 1);
    if (!is_there) continue;
    const Slice value = value_of(table, field, record);
    my_md5_input(context, value.data, value.size);
  }
  my_md5_result(context, digest);
}

}  // namespace tidesdb::cluster

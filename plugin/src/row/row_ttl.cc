#include "row/row_ttl.h"

#include "sysvars.h"

namespace tidesdb {

bool can_hold_lifetime(const Field &field) {
  if (!field.stored_in_db()) return false;
  switch (field.real_type()) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
      /* Row start and end of a system-versioned table are such numbers as well. */
      return !(field.flags & (VERS_ROW_START | VERS_ROW_END));
    default:
      return false;
  }
}

int lifetime_column(const TABLE *table) {
  for (uint i = 0; i < table->s->fields; i++) {
    const Field *field = table->field[i];
    if (field->option_struct && field->option_struct->ttl && can_hold_lifetime(*field))
      return static_cast<int>(i);
  }
  return -1;
}

bool lifetime_of_record(Field *field, const uchar *record, ulonglong *seconds) {
  const my_ptrdiff_t offset = record - field->table->record[0];
  field->move_field_offset(offset);
  const bool null = field->is_null();
  const longlong value = null ? 0 : field->val_int();
  field->move_field_offset(-offset);
  *seconds = static_cast<ulonglong>(value);
  return (value >= 0 || field->is_unsigned()) && *seconds <= sysvars::MAX_TTL;
}

}  // namespace tidesdb

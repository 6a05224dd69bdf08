/*
  Whether a stored column has the same value in two records of its table.
*/
#ifndef TIDESDB_ROW_SAME_VALUE_H
#define TIDESDB_ROW_SAME_VALUE_H

#include "key/sql_headers.h"

namespace tidesdb {

/* The records are at these distances from record[0]. */
inline bool has_same_value(const Field *field, my_ptrdiff_t to_old, my_ptrdiff_t to_new) {
  const bool null = field->is_real_null(to_new);
  if (null != field->is_real_null(to_old)) return false;
  if (null) return true;
  /* Bits may stand beside the NULLs, where cmp_binary does not look. */
  if (field->type() == MYSQL_TYPE_BIT) return to_new == 0 && !const_cast<Field *>(field)->cmp_offset(to_old);
  return !field->cmp_binary(field->ptr + to_new, field->ptr + to_old);
}

}  // namespace tidesdb
#endif

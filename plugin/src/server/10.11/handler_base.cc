/*
  The primary key of a definition that is being read (handler_base.h).
*/
#include "handler_base.h"

#include "sql_table.h"

namespace tidesdb {

/*
  As TABLE_SHARE::init_from_binary_frm_image() (sql/table.cc) chooses: the key of that name, or a unique one
  over whole columns without NULL.
*/
bool ServerHandler::becomes_primary(const KEY &first) const {
  if (!my_strcasecmp(system_charset_info, first.name.str, primary_key_name.str)) return true;
  if (!(first.flags & HA_NOSAME) || first.algorithm == HA_KEY_ALG_LONG_HASH) return false;
  for (uint part = 0; part < first.user_defined_key_parts; part++) {
    const KEY_PART_INFO &column = first.key_part[part];
    const Field *field = table_share->field[column.fieldnr - 1];
    if (field->real_maybe_null()) return false;
    if (field->type() == MYSQL_TYPE_BLOB && field->field_length == column.length) continue;
    if (field->key_length() != column.length) return false;
  }
  return true;
}

}  // namespace tidesdb

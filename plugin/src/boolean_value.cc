#include "boolean_value.h"

#include <mysql/plugin.h>

#include "sql_class.h"

#include "set_var.h"
#include "strfunc.h"
#include "sys_vars_shared.h"

namespace tidesdb {

bool read_bool(st_mysql_value *value, my_bool *result) {
  if (value->value_type(value) == MYSQL_VALUE_TYPE_STRING) {
    char buffer[16];
    int length = sizeof(buffer);
    const char *text = value->val_str(value, buffer, &length);
    const int found = text ? find_type(&bool_typelib, text, static_cast<size_t>(length), true) : 0;
    *result = found == 2;
    return found != 0;
  }
  longlong number;
  if (value->val_int(value, &number) != 0 || number < 0 || number > 1) return false;
  *result = number == 1;
  return true;
}

}  // namespace tidesdb

/*
  The server's headers that rows and keys need, in the order that they need.
*/
#ifndef TIDESDB_KEY_SQL_HEADERS_H
#define TIDESDB_KEY_SQL_HEADERS_H

#ifndef MYSQL_SERVER
#define MYSQL_SERVER 1
#endif
#include <my_global.h>
#include "sql_priv.h"
#include "unireg.h"
#include "field.h"
#include "handler.h"
#include "key.h"
#include "table.h"

#endif

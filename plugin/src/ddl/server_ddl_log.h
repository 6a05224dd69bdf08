/*
  What the plugin reads of the server's log of definitions (sql/ddl_log.cc) before the server repeats it.
*/
#ifndef TIDESDB_DDL_SERVER_DDL_LOG_H
#define TIDESDB_DDL_SERVER_DDL_LOG_H

#include <string>
#include <vector>

namespace tidesdb {

/* Paths (`./db/table`) of tables that a DROP was about to remove when the server died. Nothing once the
   server has repeated its log. */
std::vector<std::string> tables_being_dropped();

}  // namespace tidesdb
#endif

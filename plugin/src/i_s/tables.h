/*
  The INFORMATION_SCHEMA tables of the engine. Each is a plugin of its own in the engine's library; its init
  describes the columns and names the function that fills it.

  Filling takes a copy from the engine first (tidesdb.h, "pictures") and then stores rows, so that nothing of
  the engine is held while a temporary table grows.
*/
#ifndef TIDESDB_I_S_TABLES_H
#define TIDESDB_I_S_TABLES_H

struct st_mysql_information_schema;

namespace tidesdb {

namespace i_s {

extern struct st_mysql_information_schema interface;

int init_column_families(void *schema);
int init_sstables(void *schema);
int init_value_files(void *schema);
int init_locks(void *schema);
int init_trx(void *schema);
int init_compactions(void *schema);
int init_metrics(void *schema);
int init_memory(void *schema);
int init_foreign_keys(void *schema);
int init_full_text(void *schema);

}  // namespace i_s

}  // namespace tidesdb
#endif

/*
  CREATE, DROP, RENAME, TRUNCATE of whole tables: each is one group in the engine's dictionary, there
  before and after a crash or not at all. None of it belongs to the session's transaction.
*/
#ifndef TIDESDB_DDL_TABLES_H
#define TIDESDB_DDL_TABLES_H

#include <mutex>
#include <string>

#include "ddl/table_record.h"
#include "key/sql_headers.h"

namespace tidesdb {

/* A number that no other table or definition has or had: the time, and a counter for those made in one
   microsecond. */
uint64_t new_id();

/* Statements (SQLCOM_*) of which an ALTER by copy, or its like, may be a part. */
bool may_copy_rows(int command);

/* HA_ERR_*, or 0. */
int create_table(THD *thd, const char *path, const TABLE *form, const HA_CREATE_INFO *info);
/* HA_ERR_NO_SUCH_TABLE for a path that the engine does not know. */
int drop_table(const char *path);
/* All partitions of a table (canonical name) by one commit, each of them locked before. */
int drop_partitions(THD *thd, const std::string &table);
/* While the server repeats its DDL log, a rename that is done already is success. The server has one number
   for all errors of a rename (1025): a lock that was not to be had, and KILL, are told here by their own. */
int rename_table(const char *from, const char *to);
/* A table that was filled in pieces cannot be read by snapshots of that time (1412). Status of the engine. */
int keep_older_snapshots_out(const std::string &table);
int truncate_table(const char *path);
/* The next automatic value; also downwards. */
int set_auto_increment(const char *path, ulonglong next);
/* The record that the dictionary has of a table. False: there is no such table, or its record is not known
 * here. */
bool read_record(const std::string &table, TableRecord *record);
/* Its index of this name, or nullptr. EXCHANGE PARTITION leaves indexes in an order of their own. */
const IndexRecord *index_named(const TableRecord &record, const LEX_CSTRING &name);
/* To be held by who reads a record and writes it changed, without the server's lock on the name that keeps
   everybody else from it: statistics, and what DDL says of the other side of a foreign key. */
std::mutex &records_of_others();
/* Whether the table, or partition, was last written with the server's definition of this identity. */
bool was_written_with(const std::string &table, const std::string &definition);
/* A change of partitions (ADD, DROP, REORGANIZE ...) has put a new .frm of the table in its place: the
   partitions that it left as they are get its identity, too. */
void adopt_definition(const char *path);
/* TEMPORARY tables of an earlier process, which nobody can see. */
void drop_temporary_tables();
/* 0: the table was last written with the server's definition of this identity, else 1. For the server's log
   of definitions, which asks after a crash whether an ALTER had happened. */
int check_definition(const char *path, const LEX_CUSTRING *definition);
/* Tables that the server does not know (any more). */
void drop_database(const char *path);

}  // namespace tidesdb
#endif

/*
  What all tables need to be filled: who may read them, the engine kept from being uninstalled meanwhile, and
  a row into which columns are put from left to right.
*/
#ifndef TIDESDB_I_S_FILLING_H
#define TIDESDB_I_S_FILLING_H

#include <string>

#include "key/sql_headers.h"
#include "sql_class.h"
#include "sql_i_s.h"
#include "sql_plugin.h"
#include "tidesdb.h"

namespace tidesdb {

namespace i_s {

/* Most rows of TIDESDB_LOCKS; a warning tells that there are more. */
constexpr size_t MOST_LOCKS = 10000;

/* Characters of a key in hexadecimal: 64 bytes, and dots where it is longer. */
constexpr uint KEY_WIDTH = 2 * 64 + 3;

using Fill = int (*)(THD *thd, TABLE_LIST *tables, Item *condition);

/* What the init function of a table does: the server asks it for the columns, and who fills them. */
int describe(void *schema, ST_FIELD_INFO *columns, Fill fill);

/* One statement's reading of one table. */
class Filling {
 public:
  Filling(THD *thd, TABLE_LIST *tables);
  ~Filling();
  Filling(const Filling &) = delete;
  Filling &operator=(const Filling &) = delete;

  /* Whether there is something to read: the user has the PROCESS privilege, and the engine runs. */
  bool may_read() const { return db_ != nullptr; }
  /* What the fill function returns where may_read() says no: a refusal is an error, a missing engine is not.
   */
  int refused() const { return refused_; }
  tidesdb_db *db() const { return db_; }
  THD *thd() const { return thd_; }

  /* Columns, from left to right. Numbers of TIDESDB_UNKNOWN are NULL. */
  void number(uint64_t value);
  void real(double value);
  void text(const char *text, size_t size);
  void text(const char *text);
  void text(tidesdb_slice text) { this->text(reinterpret_cast<const char *>(text.data), text.size); }
  /* NULL when it is empty. */
  void name(const std::string &name);
  /* Hexadecimal; NULL when there is none. */
  void key(const tidesdb_key_part &key);
  /* Of the engine's clock, in the session's time zone. */
  void time(uint64_t micros);
  void null();
  /* The row is whole. Not 0: an error, or the statement was killed; no more rows then. */
  int store();
  /* 0, or the error that store() met. */
  int result() const { return failed_; }
  /* The answer of the engine's call that handed out the rows. */
  int result(int status);

 private:
  Field *next();

  THD *thd_;
  TABLE *table_;
  plugin_ref engine_ = nullptr;
  tidesdb_db *db_ = nullptr;
  int refused_ = 0;
  int failed_ = 0;
  uint column_ = 0;
};

}  // namespace i_s

}  // namespace tidesdb
#endif

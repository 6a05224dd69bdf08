/*
  From the engine's statuses to the server's errors.
*/
#ifndef TIDESDB_ERRORS_H
#define TIDESDB_ERRORS_H

#include <string>

#include "key/sql_headers.h"
#include "tidesdb.h"

namespace tidesdb {

/* Returned to the server where it has no number of its own; handler::get_error_message() gives the text. */
constexpr int ERROR_WITH_TEXT = 601;
static_assert(ERROR_WITH_TEXT > HA_ERR_LAST, "must not be one of the server's");
/* Undecided prepared transactions would pass their bound: shown as ER_TRANS_CACHE_FULL (1197) with the
   engine's text, which names size, bound and variable. */
constexpr int ERROR_TOO_LARGE = 602;
/* tidesdb_max_memory_usage leaves no room for a row: shown as ER_OUTOFMEMORY (1037) with the engine's text.
 */
constexpr int ERROR_NO_MEMORY = 603;
/* The client has been given the statement's error already. */
constexpr int ERROR_IS_GIVEN = 604;
/* Rows would change on this node of a Galera cluster alone: shown as ER_GALERA_REPLICATION_NOT_SUPPORTED
   (4165) with a text that says the ways out. */
constexpr int ERROR_NOT_REPLICATED = 605;

/* What a status means for the transaction that met it. */
enum class RollbackScope {
  NONE,       /* the statement fails */
  STATEMENT,  /* the server is asked to roll the statement back */
  TRANSACTION /* the server is asked to roll the transaction back */
};

struct MappedError {
  int code; /* HA_ERR_* or one of those above */
  RollbackScope rollback_scope;
};

/* `optimistic`: the mode of the transaction, which decides what a conflict is called. */
MappedError map_status(int status, bool optimistic);

/* For calls outside of any transaction (DDL, admin): the code; unexpected ones go to the error log. */
int plain_error(int status, const char *what);

/* A note for the client, given once in a statement, in which the server calls more than once for one thing.
 */
void note_once(THD *thd, uint code, const std::string &text);

}  // namespace tidesdb
#endif

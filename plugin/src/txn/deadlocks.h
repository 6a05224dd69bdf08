/*
  The last deadlock, as a text for people: statements, tables, keys and modes of all that waited for each
  other, who was rolled back, and why. SHOW ENGINE TIDESDB STATUS shows it; with tidesdb_print_all_conflicts
  each one is in the error log.
*/
#ifndef TIDESDB_TXN_DEADLOCKS_H
#define TIDESDB_TXN_DEADLOCKS_H

#include <string>
#include <vector>

#include "tidesdb.h"

namespace tidesdb {

/* `statements`: one for each wait, empty where nobody is connected any more. */
void note_deadlock(const tidesdb_deadlock &deadlock, const std::vector<std::string> &statements);

/* Empty: there was none. */
std::string latest_deadlock();

/* A time in microseconds: "1.3 s". */
std::string time_text(uint64_t micros);

}  // namespace tidesdb
#endif

/*
  The files of the data directory in a backup, besides the store: the definitions of the tables in it,
  the objects that depend on those tables, and the store's owner.
*/
#ifndef TIDESDB_BACKUP_DEFINITIONS_H
#define TIDESDB_BACKUP_DEFINITIONS_H

#include <functional>
#include <string>
#include <vector>

#include "key/sql_headers.h"

namespace tidesdb {

struct Definitions {
  /* Paths below the data directory. */
  std::vector<std::string> files;
  /* Tables of the store without a definition file. */
  std::vector<std::string> missing;
};

/* Of all tables in the store: .frm and .par, .TRG and .TRN of their triggers, and of each database with such
   a table db.opt and the views. Nothing of it changes while the server's lock on definitions is held. Status.
 */
int list_definitions(const std::string &data_directory, Definitions *definitions);

/* After a restore: drops what an ALTER that was under way at the backup's moment had begun to fill. To be
   called once, when the server has repeated its own log of definitions. */
void finish_restore();

}  // namespace tidesdb
#endif

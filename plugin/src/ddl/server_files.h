/*
  What the engine reads of the server's own files of a table when nobody has the table open: the .frm and, of
  a partitioned table, the .par.
*/
#ifndef TIDESDB_DDL_SERVER_FILES_H
#define TIDESDB_DDL_SERVER_FILES_H

#include <string>
#include <vector>

namespace tidesdb {

/* Names of what is in a directory, in no order; nothing where it cannot be read. */
std::vector<std::string> names_in(const std::string &directory);
bool read_file(const std::string &path, std::string *bytes);
/* Whether `end` and something before it make `text`. */
bool ends_with(const std::string &text, const std::string &end);

struct DefinitionFile {
  /* The definition's identity, as in TableRecord. */
  std::string identity;
  /* The engine of a partitioned table's partitions; empty: not partitioned. */
  std::string partition_engine;
};

/* Reads a .frm (sql/unireg.cc writes it). False: it cannot be read, or is none of a table. */
bool read_definition_file(const std::string &path, DefinitionFile *definition);

/* Names of the partitions in a .par file (ha_partition::create_handler_file() writes it), as they stand
   after `#P#` in the names of the partitions' files. Empty: it cannot be read. */
std::vector<std::string> read_partition_names(const std::string &path);

}  // namespace tidesdb
#endif

#include "ddl/lost_partitions.h"

#include <strings.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "key/sql_headers.h"
#include "log.h"
#include "my_sys.h"

#include "ddl/family_group.h"
#include "ddl/server_files.h"
#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "store/handles.h"
#include "store/store.h"

namespace tidesdb {

namespace {

/* Partitions by table, `db/table`: what follows PARTITION_MARK in their names. */
using Partitions = std::map<std::string, std::set<std::string>>;

constexpr const char PARTITION_FILE[] = ".par";

std::string path_of(const std::string &table, const char *extension) { return "./" + table + extension; }

bool is_there(const std::string &path) { return my_access(path.c_str(), F_OK) == 0; }

bool list_partitions(Partitions *partitions) {
  std::vector<std::string> families;
  if (list_families(plugin.db, {}, &families) != TIDESDB_OK) return false;
  for (const std::string &family : families) {
    const std::string name = table_of_family(family);
    const size_t mark = name.find(PARTITION_MARK);
    if (mark == std::string::npos || is_temporary(name)) continue;
    (*partitions)[name.substr(0, mark)].insert(name.substr(mark + sizeof(PARTITION_MARK) - 1));
  }
  return true;
}

/* `db/` of a table. */
std::string database_of(const std::string &table) { return table.substr(0, table.find('/') + 1); }

/* Tables that have a file of that kind in the folder of a database, `db/`; in order. */
std::vector<std::string> tables_in(const std::string &database, const std::string &extension) {
  std::vector<std::string> tables;
  for (const std::string &file : names_in("./" + database))
    if (ends_with(file, extension))
      tables.push_back(database + file.substr(0, file.size() - extension.size()));
  std::sort(tables.begin(), tables.end());
  return tables;
}

bool has_definition(const std::string &table) { return is_there(path_of(table, reg_ext)); }

/* Reads the .frm of a table that has its partitions here. */
bool read_partitioned(const std::string &table, DefinitionFile *definition) {
  return read_definition_file(path_of(table, reg_ext), definition) &&
         strcasecmp(definition->partition_engine.c_str(), "TidesDB") == 0;
}

/* What a .par file names and the store does not have. */
std::set<std::string> missing_partitions(const std::string &table, const std::string &par,
                                         const Partitions &all) {
  const std::vector<std::string> names = read_partition_names(path_of(par, PARTITION_FILE));
  std::set<std::string> missing(names.begin(), names.end());
  const auto own = all.find(table);
  if (own != all.end())
    for (const std::string &partition : own->second) missing.erase(partition);
  return missing;
}

bool has_identity(const std::string &table, const std::set<std::string> &partitions,
                  const std::string &identity) {
  return std::any_of(partitions.begin(), partitions.end(), [&](const std::string &partition) {
    return was_written_with(table + PARTITION_MARK + partition, identity);
  });
}

/* Whether `table` lacks what has the name `lost`: 2, it does, and was written with the same definition; 1, it
   does, and its .par file has that name too; 0, it does not. */
int likeness(const std::string &table, const std::string &lost, const Partitions &all) {
  DefinitionFile definition;
  if (!read_partitioned(table, &definition)) return 0;
  const bool has_par = is_there(path_of(table, PARTITION_FILE));
  const std::set<std::string> missing = missing_partitions(table, has_par ? table : lost, all);
  const std::set<std::string> &partitions = all.at(lost);
  if (missing.empty() || missing != partitions) return 0;
  if (has_identity(lost, partitions, definition.identity)) return 2;
  return has_par ? 0 : 1;
}

/* The table that these partitions are most likely of; empty: there is none, or two are as likely. */
std::string owner_of(const std::string &lost, const Partitions &all) {
  std::string owner;
  int most = 0;
  /* RENAME TABLE may lead into another database. */
  for (const std::string &database : names_in(".")) {
    if (database[0] == '.') continue;
    for (const std::string &table : tables_in(database + '/', reg_ext)) {
      const int likely = table == lost ? 0 : likeness(table, lost, all);
      if (likely > most)
        owner = table;
      else if (likely != 0 && likely == most)
        owner.clear();
      most = std::max(most, likely);
    }
  }
  return owner;
}

bool rename_partition_file(const std::string &from, const std::string &to) {
  if (my_rename(path_of(from, PARTITION_FILE).c_str(), path_of(to, PARTITION_FILE).c_str(),
                MYF(MY_SYNC_DIR)) == 0)
    return true;
  sql_print_error("TidesDB: %s.par cannot be renamed to %s.par (errno %d): %s cannot be opened without it",
                  from.c_str(), to.c_str(), my_errno, to.c_str());
  return false;
}

void give_back(const std::string &lost, const std::string &owner, const std::set<std::string> &partitions) {
  if (!is_there(path_of(owner, PARTITION_FILE)) && !rename_partition_file(lost, owner)) return;
  const int status = change_families(lost + PARTITION_MARK, [&](DdlGroup *group, const std::string &name) {
    return group->rename(name, owner + name.substr(lost.size()));
  });
  if (status == TIDESDB_OK)
    sql_print_information("TidesDB: a crash had left %zu partitions of %s under the name %s; they are back",
                          partitions.size(), owner.c_str(), lost.c_str());
  else
    sql_print_error("TidesDB: partitions of %s stay under the name %s: %s", owner.c_str(), lost.c_str(),
                    tidesdb_last_error());
}

/* Of a table that has its .frm and its partitions, and no .par file: one that names these partitions and
   belongs to nobody is what the server had renamed last, or not yet. */
void find_partition_file(const std::string &table, const Partitions &all) {
  DefinitionFile definition;
  if (is_there(path_of(table, PARTITION_FILE)) || !read_partitioned(table, &definition)) return;
  for (const std::string &other : tables_in(database_of(table), PARTITION_FILE)) {
    const std::vector<std::string> names = read_partition_names(path_of(other, PARTITION_FILE));
    if (has_definition(other) || std::set<std::string>(names.begin(), names.end()) != all.at(table)) continue;
    if (rename_partition_file(other, table))
      sql_print_information("TidesDB: a crash had left the .par file of %s as %s.par; it is back",
                            table.c_str(), other.c_str());
    return;
  }
}

/* Whether a table of the database has not all of its partitions. */
bool somebody_lacks_partitions(const std::string &database, const Partitions &all) {
  const std::vector<std::string> tables = tables_in(database, reg_ext);
  return std::any_of(tables.begin(), tables.end(), [&all](const std::string &table) {
    DefinitionFile definition;
    return read_partitioned(table, &definition) &&
           (!is_there(path_of(table, PARTITION_FILE)) || !missing_partitions(table, table, all).empty());
  });
}

/* Whether a partitioned table of any engine has no .par file in the database. */
bool somebody_lacks_partition_file(const std::string &database) {
  const std::vector<std::string> tables = tables_in(database, reg_ext);
  return std::any_of(tables.begin(), tables.end(), [](const std::string &table) {
    DefinitionFile definition;
    return !is_there(path_of(table, PARTITION_FILE)) &&
           read_definition_file(path_of(table, reg_ext), &definition) && !definition.partition_engine.empty();
  });
}

/* The .par files of ALTERs that a crash ended, unless a table may still want one. */
void remove_partition_files(const std::string &database) {
  std::vector<std::string> left;
  for (const std::string &table : tables_in(database, PARTITION_FILE))
    if (is_intermediate(table) && !has_definition(table)) left.push_back(table);
  if (left.empty() || somebody_lacks_partition_file(database)) return;
  for (const std::string &table : left) my_delete(path_of(table, PARTITION_FILE).c_str(), MYF(0));
}

void drop_partitions(const std::string &table, const std::set<std::string> &partitions) {
  const int status = change_families(table + PARTITION_MARK, drop_family);
  if (status == TIDESDB_OK)
    sql_print_information("TidesDB: %zu partitions of %s, which an ALTER had left in a crash, are removed",
                          partitions.size(), table.c_str());
  else
    sql_print_error("TidesDB: partitions of %s, which an ALTER had left in a crash, stay: %s", table.c_str(),
                    tidesdb_last_error());
}

}  // namespace

void find_lost_partitions() {
  Partitions all;
  if (!list_partitions(&all)) return;
  bool came_back = false;
  for (const auto &[table, partitions] : all) {
    const std::string owner = has_definition(table) ? std::string() : owner_of(table, all);
    if (owner.empty()) continue;
    give_back(table, owner, partitions);
    came_back = true;
  }
  if (came_back) {
    all.clear();
    if (!list_partitions(&all)) return;
  }
  std::set<std::string> databases;
  std::vector<std::string> lost;
  for (const auto &[table, partitions] : all) {
    databases.insert(database_of(table));
    if (has_definition(table))
      find_partition_file(table, all);
    else
      lost.push_back(table);
  }
  for (const std::string &table : lost) {
    if (is_intermediate(table) && !somebody_lacks_partitions(database_of(table), all))
      drop_partitions(table, all.at(table));
    else
      sql_print_warning(
          "TidesDB: %s has partitions and no definition (.frm). A crash inside DROP TABLE leaves them "
          "so, and DROP TABLE removes them; one that was lost otherwise comes back with a backup's "
          ".frm and .par.",
          table.c_str());
  }
  for (const std::string &database : databases) remove_partition_files(database);
}

}  // namespace tidesdb

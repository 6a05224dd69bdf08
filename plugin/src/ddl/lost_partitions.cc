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
#include "ddl/table_record.h"
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
    const std::string name = table_of_family(family), suffix = partition_suffix(name);
    if (suffix.empty() || is_temporary(name)) continue;
    (*partitions)[whole_table(name)].insert(suffix.substr(sizeof(PARTITION_MARK) - 1));
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

/* The .frm files of tables that have their partitions here, by identity. */
class Definitions {
 public:
  Definitions() {
    for (const std::string &database : names_in(".")) {
      if (database[0] == '.') continue;
      for (const std::string &table : tables_in(database + '/', reg_ext)) {
        DefinitionFile definition;
        if (!read_partitioned(table, &definition)) continue;
        tables_.push_back(table);
        by_identity_[definition.identity].push_back(table);
      }
    }
  }

  const std::vector<std::string> &tables() const { return tables_; }

  /* The table whose .frm has the identity that the partitions under the name `table` were written with:
     `table` itself where its .frm has that of any of them; empty where no .frm has it, or several have. A
     crash inside a change of partitions, and earlier builds, leave older identities, which no .frm
     has. */
  std::string owner_of(const std::string &table, const std::set<std::string> &partitions) const {
    std::string owner;
    for (const std::string &partition : partitions) {
      TableRecord record;
      if (!read_record(table + PARTITION_MARK + partition, &record)) continue;
      const auto found = by_identity_.find(record.definition);
      if (found == by_identity_.end()) continue;
      const std::vector<std::string> &owners = found->second;
      if (std::find(owners.begin(), owners.end(), table) != owners.end()) return table;
      if (owners.size() == 1) owner = owners[0];
    }
    return owner;
  }

 private:
  std::vector<std::string> tables_;
  std::map<std::string, std::vector<std::string>> by_identity_;
};

/* Whether `table` lacks exactly what stands under the name `lost`, by its .par file or, where it has none, by
   that of `lost`. */
bool lacks(const std::string &table, const std::string &lost, const Partitions &all) {
  const bool has_par = is_there(path_of(table, PARTITION_FILE));
  const std::set<std::string> missing = missing_partitions(table, has_par ? table : lost, all);
  return !missing.empty() && missing == all.at(lost);
}

/* The table that the partitions under the name `lost` are to be given to; empty: none, or nobody can say. */
std::string heir_of(const std::string &lost, const Definitions &definitions, const Partitions &all) {
  const std::string owner = definitions.owner_of(lost, all.at(lost));
  if (!owner.empty()) return owner != lost && lacks(owner, lost, all) ? owner : std::string();
  if (has_definition(lost)) return {};
  /* No .frm knows them: the one table without a .par file that lacks what theirs names. */
  std::string heir;
  for (const std::string &table : definitions.tables()) {
    if (is_there(path_of(table, PARTITION_FILE)) || !lacks(table, lost, all)) continue;
    if (!heir.empty()) return {};
    heir = table;
  }
  return heir;
}

bool rename_partition_file(const std::string &from, const std::string &to) {
  if (my_rename(path_of(from, PARTITION_FILE).c_str(), path_of(to, PARTITION_FILE).c_str(),
                MYF(MY_SYNC_DIR)) == 0)
    return true;
  sql_print_error("TidesDB: %s.par cannot be renamed to %s.par (errno %d): %s cannot be opened without it",
                  from.c_str(), to.c_str(), my_errno, to.c_str());
  return false;
}

bool give_back(const std::string &lost, const std::string &owner, const std::set<std::string> &partitions) {
  if (!is_there(path_of(owner, PARTITION_FILE)) && !rename_partition_file(lost, owner)) return false;
  const int status = change_families(lost + PARTITION_MARK, [&](DdlGroup *group, const std::string &name) {
    return group->rename(name, owner + name.substr(lost.size()));
  });
  if (status == TIDESDB_OK)
    sql_print_information("TidesDB: a crash had left %zu partitions of %s under the name %s; they are back",
                          partitions.size(), owner.c_str(), lost.c_str());
  else
    sql_print_error("TidesDB: partitions of %s stay under the name %s: %s", owner.c_str(), lost.c_str(),
                    tidesdb_last_error());
  return status == TIDESDB_OK;
}

/* Two tables, or more, that have each other's partitions: those of `table` make room under a name of their
   own, and will be given to `owner` when its name is free. */
bool set_aside(const std::string &table, const std::string &owner, const Definitions &definitions,
               const Partitions &all) {
  /* Once is enough: what stands aside already waits for its name. */
  if (is_intermediate(table)) return false;
  const auto occupants = all.find(owner);
  if (occupants == all.end() || occupants->second != all.at(table)) return false;
  const std::string theirs = definitions.owner_of(owner, occupants->second);
  if (theirs.empty() || theirs == owner) return false;
  /* The names are the same, and a .par file says no more. */
  const std::string par = path_of(table, PARTITION_FILE), owners_par = path_of(owner, PARTITION_FILE);
  if (!is_there(owners_par) && my_copy(par.c_str(), owners_par.c_str(), MYF(0))) return false;
  const std::string database = database_of(table);
  const std::string aside = database + "#sql-moved-" + table.substr(database.size());
  return change_families(table + PARTITION_MARK, [&](DdlGroup *group, const std::string &name) {
           return group->rename(name, aside + name.substr(table.size()));
         }) == TIDESDB_OK;
}

/* Lets partitions follow the .frm, one table's after the other: what is given back may make room for what was
   renamed before it. False: they cannot be listed. */
bool give_all_back(const Definitions &definitions, Partitions *all) {
  const auto move_one = [&] {
    for (const auto &[table, partitions] : *all) {
      const std::string heir = heir_of(table, definitions, *all);
      if (!heir.empty() && give_back(table, heir, partitions)) return true;
    }
    for (const auto &[table, partitions] : *all) {
      const std::string owner = definitions.owner_of(table, partitions);
      if (!owner.empty() && owner != table && set_aside(table, owner, definitions, *all)) return true;
    }
    return false;
  };
  while (move_one()) {
    all->clear();
    if (!list_partitions(all)) return false;
  }
  return true;
}

/* Of a table that has its .frm and its partitions, and no .par file: one that names these partitions and
   belongs to nobody is what the server had renamed last, or not yet. Not where the partitions are another
   table's. */
void find_partition_file(const std::string &table, const Definitions &definitions, const Partitions &all) {
  DefinitionFile definition;
  if (is_there(path_of(table, PARTITION_FILE)) || !read_partitioned(table, &definition)) return;
  const std::string owner = definitions.owner_of(table, all.at(table));
  if (!owner.empty() && owner != table) {
    sql_print_error(
        "TidesDB: the partitions under the name %s are those of %s. Neither is opened: a crash inside RENAME "
        "TABLE left them so, and both names are in use.",
        table.c_str(), owner.c_str());
    return;
  }
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

/* Partitions under a name without a .frm: what an ALTER has left, and no table's .frm knows, goes; of others
   the log says what to do. */
void end_lost(const std::string &table, const std::set<std::string> &partitions,
              const Definitions &definitions, const Partitions &all) {
  if (is_intermediate(table) && definitions.owner_of(table, partitions).empty() &&
      !somebody_lacks_partitions(database_of(table), all)) {
    drop_partitions(table, partitions);
    return;
  }
  sql_print_warning(
      "TidesDB: %s has partitions and no definition (.frm). A crash inside DROP TABLE leaves them so, and "
      "DROP TABLE removes them. First see that no table misses its partitions (error 1932): a crash inside "
      "RENAME TABLE or CONVERT PARTITION leaves them so, too; they come back with that table's .frm and .par "
      "under this name.",
      table.c_str());
}

/* Nothing is to be done for it. Of a table of an earlier build the start finds out once whose partitions it
   has, and lets them adopt the definition. */
bool is_settled(const std::string &table, const std::set<std::string> &partitions) {
  DefinitionFile definition;
  if (!is_there(path_of(table, PARTITION_FILE)) || !read_partitioned(table, &definition)) return false;
  return std::any_of(partitions.begin(), partitions.end(), [&](const std::string &partition) {
    return was_written_with(table + PARTITION_MARK + partition, definition.identity);
  });
}

}  // namespace

void find_lost_partitions() {
  Partitions all;
  if (!list_partitions(&all) || all.empty()) return;
  const bool settled = std::all_of(all.begin(), all.end(),
                                   [](const auto &entry) { return is_settled(entry.first, entry.second); });
  if (!settled) {
    const Definitions definitions;
    if (!give_all_back(definitions, &all)) return;
    for (const auto &[table, partitions] : all) {
      if (!has_definition(table)) {
        end_lost(table, partitions, definitions, all);
        continue;
      }
      find_partition_file(table, definitions, all);
      if (definitions.owner_of(table, partitions).empty()) adopt_definition(("./" + table).c_str());
    }
  }
  std::set<std::string> databases;
  for (const auto &entry : all) databases.insert(database_of(entry.first));
  for (const std::string &database : databases) remove_partition_files(database);
}

}  // namespace tidesdb

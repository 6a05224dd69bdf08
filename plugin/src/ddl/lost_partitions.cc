#include "ddl/lost_partitions.h"

#include <strings.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "key/sql_headers.h"
#include "log.h"
#include "my_sys.h"

#include "ddl/family_group.h"
#include "ddl/server_ddl_log.h"
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

/* What the .par file of a table names; nothing: there is none that can be read. */
std::set<std::string> named_in_file(const std::string &table) {
  const std::vector<std::string> names = read_partition_names(path_of(table, PARTITION_FILE));
  return {names.begin(), names.end()};
}

/* What the .par file `file` names and `table` does not have. */
std::set<std::string> missing_partitions(const std::string &table, const std::string &file,
                                         const Partitions &all) {
  std::set<std::string> missing = named_in_file(file);
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
        tables_.insert(table);
        if (!definition.identity.empty()) by_identity_[definition.identity].push_back(table);
      }
    }
  }

  const std::set<std::string> &tables() const { return tables_; }

  /* The table whose .frm has the identity that a partition under the name `table` was written with: `table`
     itself where its .frm has it; empty where no .frm has it, or several others have. A crash inside a change
     of partitions, and earlier builds, leave identities that no .frm has. */
  std::string owner_of(const std::string &table, const std::string &partition) const {
    TableRecord record;
    if (!read_record(table + PARTITION_MARK + partition, &record)) return {};
    const auto found = by_identity_.find(record.definition);
    if (found == by_identity_.end()) return {};
    const std::vector<std::string> &owners = found->second;
    if (std::find(owners.begin(), owners.end(), table) != owners.end()) return table;
    return owners.size() == 1 ? owners[0] : std::string();
  }

  /* Owners of any of a table's partitions. */
  std::set<std::string> owners_of(const std::string &table, const std::set<std::string> &partitions) const {
    std::set<std::string> owners;
    for (const std::string &partition : partitions) {
      const std::string owner = owner_of(table, partition);
      if (!owner.empty()) owners.insert(owner);
    }
    return owners;
  }

 private:
  std::set<std::string> tables_;
  std::map<std::string, std::vector<std::string>> by_identity_;
};

/* The one table without a .par file that lacks exactly what stands under the name `lost`, which has no .frm,
   by the .par file there: where no identity tells. Tables in `served` get partitions by identity: a copy that
   an ALTER has left would fit as well. */
std::string only_table_lacking(const std::string &lost, const Definitions &definitions, const Partitions &all,
                               const std::set<std::string> &served) {
  if (has_definition(lost)) return {};
  std::string found;
  for (const std::string &table : definitions.tables()) {
    if (served.count(table) || is_there(path_of(table, PARTITION_FILE)) ||
        missing_partitions(table, lost, all) != all.at(lost))
      continue;
    if (!found.empty()) return {};
    found = table;
  }
  return found;
}

/* Partitions that are to have another table's name: table and partition, and that table. */
using Moves = std::map<std::pair<std::string, std::string>, std::string>;

/* Where the .frm files say that partitions belong. What no .frm knows goes along with the others that stand
   under its name, unless one of them belongs there. */
Moves moves_to_owners(const Definitions &definitions, const Partitions &all) {
  Moves moves;
  std::map<std::string, std::set<std::string>> owners_of;
  std::set<std::string> served;
  for (const auto &[table, partitions] : all)
    for (const std::string &owner : owners_of[table] = definitions.owners_of(table, partitions))
      if (owner != table) served.insert(owner);
  for (const auto &[table, partitions] : all) {
    const std::set<std::string> &owners = owners_of[table];
    std::string of_unknown;
    if (owners.empty()) of_unknown = only_table_lacking(table, definitions, all, served);
    if (owners.size() == 1) of_unknown = *owners.begin();
    for (const std::string &partition : partitions) {
      std::string owner = definitions.owner_of(table, partition);
      if (owner.empty()) owner = of_unknown;
      if (!owner.empty() && owner != table) moves[{table, partition}] = owner;
    }
  }
  return moves;
}

/* What stands under each name after the moves. `crowded`: owners that would get two of one name. */
Partitions after_moves(const Partitions &all, const Moves &moves, std::set<std::string> *crowded) {
  Partitions after;
  for (const auto &[table, partitions] : all)
    for (const std::string &partition : partitions)
      if (!moves.count({table, partition})) after[table].insert(partition);
  for (const auto &[partition, owner] : moves)
    if (!after[owner].insert(partition.second).second) crowded->insert(owner);
  return after;
}

std::set<std::string> ends_of(const Moves &moves) {
  std::set<std::string> tables;
  for (const auto &[partition, owner] : moves) {
    tables.insert(partition.first);
    tables.insert(owner);
  }
  return tables;
}

/* The table whose .par file names exactly these partitions of `table`: itself; one that takes part in the
   moves, first where its partitions come from; one of the database without a .frm. Of several that is not in
   `taken`. Empty: none. */
std::string partition_file_for(const std::string &table, const std::set<std::string> &partitions,
                               const Moves &moves, const std::set<std::string> &taken = {}) {
  std::vector<std::string> candidates{table};
  for (const auto &[partition, owner] : moves)
    if (owner == table) candidates.push_back(partition.first);
  for (const std::string &other : ends_of(moves)) candidates.push_back(other);
  for (const std::string &other : tables_in(database_of(table), PARTITION_FILE))
    if (!has_definition(other)) candidates.push_back(other);
  std::string found;
  for (const std::string &candidate : candidates) {
    if (named_in_file(candidate) != partitions) continue;
    if (!taken.count(candidate)) return candidate;
    found = candidate;
  }
  return found;
}

/* Leaves out what would not make a table whole: each that gets or loses partitions, and has a .frm, must have
   a .par file for all of them then. */
void keep_sound_moves(const Partitions &all, Moves *moves) {
  for (bool sound = false; !sound;) {
    sound = true;
    std::set<std::string> crowded;
    Partitions after = after_moves(all, *moves, &crowded);
    for (const std::string &table : ends_of(*moves)) {
      const std::set<std::string> &partitions = after[table];
      if (!crowded.count(table) && (!has_definition(table) || partitions.empty() ||
                                    !partition_file_for(table, partitions, *moves).empty()))
        continue;
      sound = false;
      for (auto move = moves->begin(); move != moves->end();)
        move = move->first.first == table || move->second == table ? moves->erase(move) : std::next(move);
      break;
    }
  }
}

/* All of them by one commit. */
int rename_partitions(const Moves &moves) {
  /* Names that stand in nothing but the group: tables may swap theirs. */
  static constexpr char ASIDE[] = "#moved/";
  std::vector<std::pair<std::string, std::string>> names;
  DdlGroup group;
  int status = group.begin(plugin.db);
  for (const auto &[partition, owner] : moves) {
    std::vector<std::string> families;
    const std::string from = partition.first + PARTITION_MARK + partition.second;
    if (status == TIDESDB_OK) status = list_families(plugin.db, families_of(from), &families);
    for (const std::string &family : families)
      names.emplace_back(family, owner + family.substr(partition.first.size()));
  }
  for (const auto &[from, to] : names)
    if (status == TIDESDB_OK) status = group.rename(from, ASIDE + from);
  for (const auto &[from, to] : names)
    if (status == TIDESDB_OK) status = group.rename(ASIDE + from, to);
  return status == TIDESDB_OK ? group.commit() : status;
}

/* A name for the .par file that a table is to get, until it has it. */
std::string file_in_waiting(const std::string &table) {
  const std::string database = database_of(table);
  return database + "#sql-moved-" + table.substr(database.size());
}

bool report_file(const std::string &from, const std::string &to) {
  sql_print_error("TidesDB: %s.par cannot become %s.par (errno %d): %s cannot be opened without it",
                  from.c_str(), to.c_str(), my_errno, to.c_str());
  return false;
}

/* Tables, and whose .par file they are to get. */
using PartitionFiles = std::map<std::string, std::string>;

/* All files are copied before the first one is replaced, since they may be each other's. A crash leaves
   copies, and the next start finds them. */
bool copy_partition_files(const PartitionFiles &files) {
  for (const auto &[table, source] : files) {
    const std::string waiting = file_in_waiting(table);
    if (source != waiting && my_copy(path_of(source, PARTITION_FILE).c_str(),
                                     path_of(waiting, PARTITION_FILE).c_str(), MYF(MY_SYNC)))
      return report_file(source, table);
  }
  return true;
}

bool replace_partition_files(const PartitionFiles &files) {
  for (const auto &[table, source] : files) {
    if (my_rename(path_of(file_in_waiting(table), PARTITION_FILE).c_str(),
                  path_of(table, PARTITION_FILE).c_str(), MYF(MY_SYNC_DIR)))
      return report_file(source, table);
    sql_print_information("TidesDB: a crash had left the .par file of %s as %s.par; it is back",
                          table.c_str(), source.c_str());
  }
  return true;
}

/* Of tables that have no partitions now, and no .frm that says otherwise. */
void remove_moved_files(const std::set<std::string> &tables, const Partitions &all) {
  for (const std::string &table : tables) {
    DefinitionFile definition;
    const bool is_plain =
        !has_definition(table) ||
        (read_definition_file(path_of(table, reg_ext), &definition) && definition.partition_engine.empty());
    if (is_plain && !all.count(table)) my_delete(path_of(table, PARTITION_FILE).c_str(), MYF(0));
  }
}

void report_moves(const Moves &moves) {
  std::map<std::pair<std::string, std::string>, size_t> counts;
  for (const auto &[partition, owner] : moves) counts[{owner, partition.first}]++;
  for (const auto &[names, count] : counts)
    sql_print_information("TidesDB: a crash had left %zu partitions of %s under the name %s; they are back",
                          count, names.first.c_str(), names.second.c_str());
}

/* Lets partitions and .par files follow the .frm files. False: it failed, and the log was told. */
bool give_back(const Definitions &definitions, Partitions *all) {
  Moves moves = moves_to_owners(definitions, *all);
  keep_sound_moves(*all, &moves);
  std::set<std::string> crowded;
  Partitions after = after_moves(*all, moves, &crowded);
  PartitionFiles files;
  std::set<std::string> taken;
  for (const auto &[table, partitions] : after) {
    if (partitions.empty() || !definitions.tables().count(table)) continue;
    const std::string source = partition_file_for(table, partitions, moves, taken);
    if (source.empty() || source == table) continue;
    files[table] = source;
    taken.insert(source);
  }
  if (!copy_partition_files(files)) return false;
  if (!moves.empty()) {
    if (rename_partitions(moves) != TIDESDB_OK) {
      sql_print_error("TidesDB: partitions that a crash left under other names stay there: %s",
                      tidesdb_last_error());
      return false;
    }
    report_moves(moves);
  }
  for (auto entry = after.begin(); entry != after.end();)
    entry = entry->second.empty() ? after.erase(entry) : std::next(entry);
  *all = std::move(after);
  if (!replace_partition_files(files)) return false;
  std::set<std::string> left = ends_of(moves);
  left.insert(taken.begin(), taken.end());
  remove_moved_files(left, *all);
  return true;
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
  if (is_intermediate(table) && definitions.owners_of(table, partitions).empty() &&
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

/* A table that has its .frm, and all the others that its .par file names: nothing but the identity of some
   may be that of an earlier definition. */
void end_found(const std::string &table, const std::set<std::string> &partitions,
               const Definitions &definitions) {
  std::set<std::string> others = definitions.owners_of(table, partitions);
  others.erase(table);
  for (const std::string &owner : others)
    sql_print_error(
        "TidesDB: partitions under the name %s are those of %s, and there is no .par file for both. A crash "
        "inside RENAME TABLE left them so",
        table.c_str(), owner.c_str());
  if (others.empty() && named_in_file(table) == partitions) adopt_definition(("./" + table).c_str());
}

/* Nothing is to be done for it. */
bool is_settled(const std::string &table, const std::set<std::string> &partitions) {
  DefinitionFile definition;
  if (!read_partitioned(table, &definition) || named_in_file(table) != partitions) return false;
  return std::all_of(partitions.begin(), partitions.end(), [&](const std::string &partition) {
    return was_written_with(table + PARTITION_MARK + partition, definition.identity);
  });
}

}  // namespace

void finish_drops() {
  for (const std::string &path : tables_being_dropped()) {
    const std::string table = canonical_table(path.c_str());
    /* DROP removes it first. Where it is still there, the server begins with it again. */
    if (is_there(path_of(table, PARTITION_FILE))) continue;
    DefinitionFile definition;
    const bool is_defined = read_partitioned(table, &definition);
    const int status = change_families(table + PARTITION_MARK, drop_family);
    if (status != TIDESDB_OK && status != TIDESDB_NOT_FOUND) {
      sql_print_error("TidesDB: a crash had ended DROP TABLE of %s; its partitions stay: %s", table.c_str(),
                      tidesdb_last_error());
      continue;
    }
    /* The server raises an error for one without a .par, and does not get to the binary log. */
    if (is_defined) my_delete(path_of(table, reg_ext).c_str(), MYF(MY_WME));
    if (status == TIDESDB_OK)
      sql_print_information("TidesDB: a crash had ended DROP TABLE of %s; its partitions are removed",
                            table.c_str());
  }
}

int undo_create(const char *path) {
  const std::string table = canonical_table(path);
  DefinitionFile definition;
  if (!read_partitioned(table, &definition)) return HA_ERR_NO_SUCH_TABLE;
  Partitions all;
  if (!list_partitions(&all)) return HA_ERR_GENERIC;
  for (const std::string &partition : all[table])
    if (!was_written_with(table + PARTITION_MARK + partition, definition.identity))
      return HA_ERR_NO_SUCH_TABLE;
  const int status = change_families(table + PARTITION_MARK, drop_family);
  if (status != TIDESDB_OK && status != TIDESDB_NOT_FOUND) {
    sql_print_error("TidesDB: a crash had ended CREATE TABLE of %s; its partitions stay: %s", table.c_str(),
                    tidesdb_last_error());
    return HA_ERR_GENERIC;
  }
  my_delete(path_of(table, PARTITION_FILE).c_str(), MYF(0));
  return 0;
}

void find_lost_partitions() {
  Partitions all;
  if (!list_partitions(&all) || all.empty()) return;
  const bool settled = std::all_of(all.begin(), all.end(),
                                   [](const auto &entry) { return is_settled(entry.first, entry.second); });
  if (!settled) {
    const Definitions definitions;
    if (!give_back(definitions, &all)) return;
    for (const auto &[table, partitions] : all) {
      if (has_definition(table))
        end_found(table, partitions, definitions);
      else
        end_lost(table, partitions, definitions, all);
    }
  }
  std::set<std::string> databases;
  for (const auto &entry : all) databases.insert(database_of(entry.first));
  for (const std::string &database : databases) remove_partition_files(database);
}

}  // namespace tidesdb

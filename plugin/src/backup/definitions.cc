#include "backup/definitions.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>

#include "log.h"
#include "mysqld.h"
#include "sql_table.h"

#include "ddl/server_files.h"
#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "store/data_identity.h"
#include "store/handles.h"
#include "store/store.h"

namespace tidesdb {

namespace {

constexpr const char IDENTITY[] = "tidesdb_identity";

bool exists(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_view(const std::string &path) {
  static const std::string mark = "TYPE=VIEW";
  std::string begin(mark.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return file.read(&begin[0], static_cast<std::streamsize>(begin.size())) && begin == mark;
}

/* The file name of the table that a .TRN file names; "" for another file. */
std::string table_of_trigger(const std::string &path) {
  static const std::string key = "trigger_table=";
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    std::string table;
    for (size_t i = key.size(); i < line.size(); i++) {
      if (line[i] == '\\' && i + 1 < line.size()) i++;
      table += line[i];
    }
    char name[FN_REFLEN];
    return std::string(name, tablename_to_filename(table.c_str(), name, sizeof(name)));
  }
  return "";
}

/* Tables of the store by database, as the server's files are called. */
int tables_by_database(std::map<std::string, std::set<std::string>> *tables) {
  std::vector<std::string> families;
  const int status = list_families(plugin.db, "", &families);
  for (const std::string &family : families) {
    const std::string table = table_of_family(family);
    const size_t slash = table.find('/');
    if (slash == std::string::npos || is_temporary(table) || is_intermediate(table)) continue;
    /* '#' stands in the names of parts of tables alone: partitions, and indexes of their own. */
    const std::string name = table.substr(slash + 1);
    (*tables)[table.substr(0, slash)].insert(name.substr(0, name.find('#')));
  }
  return status;
}

}  // namespace

int list_definitions(const std::string &data_directory, Definitions *definitions) {
  std::map<std::string, std::set<std::string>> databases;
  const int status = tables_by_database(&databases);
  if (status != TIDESDB_OK) return status;
  auto &files = definitions->files;
  for (const auto &[database, tables] : databases) {
    const std::string directory = data_directory + "/" + database + "/";
    for (const std::string &table : tables) {
      const std::string name = database + "/" + table;
      if (exists(directory + table + ".frm"))
        files.push_back(name + ".frm");
      else
        definitions->missing.push_back(name);
      for (const char *extension : {".par", ".TRG"})
        if (exists(directory + table + extension)) files.push_back(name + extension);
    }
    for (const std::string &name : names_in(directory)) {
      const bool wanted = name == "db.opt" || (ends_with(name, ".frm") && is_view(directory + name)) ||
                          (ends_with(name, ".TRN") && tables.count(table_of_trigger(directory + name)));
      if (wanted) files.push_back(database + "/" + name);
    }
  }
  if (exists(data_directory + "/" + IDENTITY)) files.push_back(IDENTITY);
  return TIDESDB_OK;
}

void finish_restore() {
  const std::string mark = std::string(mysql_real_data_home) + "/" + RESTORED_FILE;
  if (!exists(mark)) return;
  std::vector<std::string> families;
  std::set<std::string> left;
  bool failed = list_families(plugin.db, "", &families) != TIDESDB_OK;
  for (const std::string &family : families) {
    const std::string table = table_of_family(family);
    if (is_intermediate(table) && !is_temporary(table)) left.insert(table);
  }
  for (const std::string &table : left) {
    const int error = drop_table(table.c_str());
    failed |= error != 0;
    if (error)
      sql_print_error("TidesDB: '%s', which an ALTER had begun when the backup was taken, stays",
                      table.c_str());
  }
  sql_print_information(
      "TidesDB: the store was restored from a backup; %zu tables that an ALTER had begun are gone",
      left.size());
  if (!failed && unlink(mark.c_str()) != 0)
    sql_print_warning("TidesDB: cannot remove '%s': %s", mark.c_str(), strerror(errno));
}

}  // namespace tidesdb

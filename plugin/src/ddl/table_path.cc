#include "ddl/table_path.h"

#include <algorithm>
#include <cstring>

#include "key/sql_headers.h"
#include "mysqld.h"
#include "sql_table.h"

namespace tidesdb {

namespace {

/* What create_temporary_table() of the server begins the names of files with. */
constexpr char TEMPORARY_FILE[] = "#sql-temptable-";

/* What the server puts between the names of a partition and its part. */
constexpr char SUBPARTITION_MARK[] = "#SP#";

}  // namespace

std::string canonical_table(const char *path) {
  const char *const slash = strrchr(path, '/');
  const char *const file = slash ? slash + 1 : path;
  if (!strncmp(file, TEMPORARY_FILE, sizeof(TEMPORARY_FILE) - 1)) return TEMPORARY_SCHEMA + std::string(file);
  return plain_table(path);
}

std::string plain_table(const char *path) {
  const char *from = path;
  const size_t home = strlen(mysql_real_data_home);
  if (home != 0 && !strncmp(from, mysql_real_data_home, home)) from += home;
  if (from[0] == '.' && from[1] == '/') from += 2;
  while (*from == '/') from++;
  return from;
}

std::string canonical_database(const char *path) {
  std::string database = canonical_table(path);
  if (database.empty() || database.back() != '/') database += '/';
  return database;
}

std::string decoded_name(const std::string &file_name) {
  char name[NAME_LEN + MYSQL50_TABLE_NAME_PREFIX_LENGTH + 1];
  const uint size = filename_to_tablename(file_name.c_str(), name, sizeof(name), true);
  return std::string(name, size);
}

TableNames table_names(const std::string &table) {
  TableNames names;
  const size_t slash = table.find('/');
  std::string file = table.substr(slash == std::string::npos ? 0 : slash + 1);
  if (is_temporary(table)) {
    names.schema = TEMPORARY_SCHEMA;
    names.schema.pop_back();
    names.table = file;
    return names;
  }
  if (slash != std::string::npos) names.schema = decoded_name(table.substr(0, slash));
  const size_t mark = file.find(PARTITION_MARK);
  if (mark != std::string::npos) {
    std::string partition = file.substr(mark + sizeof(PARTITION_MARK) - 1);
    const size_t sub = partition.find(SUBPARTITION_MARK);
    if (sub != std::string::npos) partition = partition.substr(sub + sizeof(SUBPARTITION_MARK) - 1);
    names.partition = decoded_name(partition);
    file.resize(mark);
  }
  names.table = decoded_name(file);
  return names;
}

std::string index_prefix(const std::string &table, uint32_t index_id) {
  std::string name = table;
  name += '\0';
  name += 'i';
  for (int shift = 24; shift >= 0; shift -= 8) name += static_cast<char>(index_id >> shift);
  return name;
}

bool index_of_family(const std::string &family, uint32_t *index_id) {
  constexpr size_t MARK = 2, NUMBER = 4; /* the bytes before the number, and its own */
  const size_t end = family.find('\0');
  if (end == std::string::npos || family.size() < end + MARK + NUMBER || family[end + 1] != 'i') return false;
  *index_id = 0;
  for (size_t i = end + MARK; i < end + MARK + NUMBER; i++)
    *index_id = *index_id << 8 | static_cast<unsigned char>(family[i]);
  return true;
}

std::string changes_family(const std::string &table) { return families_of(table) + 'c'; }

bool is_temporary(const std::string &table) { return table.rfind(TEMPORARY_TABLES, 0) == 0; }

/* Where it begins; the size of a name without one. The directory of a database may have the mark in its
   name, by `#mysql50#`. */
static size_t mark_in(const std::string &table) {
  const size_t slash = table.rfind('/');
  return std::min(table.find(PARTITION_MARK, slash == std::string::npos ? 0 : slash), table.size());
}

std::string partition_suffix(const std::string &table) { return table.substr(mark_in(table)); }

std::string whole_table(const std::string &table) { return table.substr(0, mark_in(table)); }

bool is_intermediate(const std::string &table) {
  const size_t slash = table.rfind('/');
  const char *name = table.c_str() + (slash == std::string::npos ? 0 : slash + 1);
  return !strncmp(name, "#sql", 4);
}

bool is_renamed_when_filled(const std::string &table) {
  if (is_intermediate(table)) return true;
  /* Also of one with subpartitions: the server marks the last part of the name. */
  constexpr char MARK[] = "#TMP#";
  const size_t length = sizeof(MARK) - 1;
  return table.size() > length && !table.compare(table.size() - length, length, MARK);
}

}  // namespace tidesdb

#include "store/home.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "key/sql_headers.h"
#include "log.h"

#include "ddl/server_files.h"
#include "sysvars.h"

namespace tidesdb {

namespace {

bool is_directory(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool make_directory(const std::string &path) {
  return is_directory(path) || mkdir(path.c_str(), my_umask_dir) == 0;
}

/* Whether a path is below a directory. */
bool lies_in(const std::string &path, const std::string &directory) {
  return path.rfind(directory == "/" ? directory : directory + "/", 0) == 0;
}

/* Whether a directory holds what the server keeps for a database. */
bool is_database(const std::string &directory) {
  const std::vector<std::string> names = names_in(directory);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string &name) { return name == "db.opt" || ends_with(name, ".frm"); });
}

/* The directory that tidesdb_data_home_dir names; "": none. */
std::string configured_home(const std::string &data_directory) {
  const char *configured = sysvars::data_home_dir();
  if (!configured || !*configured) return "";
  return *configured == '/' ? std::string(configured) : data_directory + "/" + configured;
}

std::string directory_inside(const std::string &data_directory) {
  return data_directory + "/" + INSIDE_DIRECTORY;
}

std::string directory_beside(const std::string &data_directory) {
  const size_t slash = data_directory.rfind('/');
  return data_directory.substr(0, slash == std::string::npos ? 0 : slash) + "/" + BESIDE_DIRECTORY;
}

}  // namespace

std::string real_place(const std::string &path) {
  const size_t last = path.find_last_not_of('/');
  const size_t slash = last == std::string::npos ? 0 : path.rfind('/', last);
  const bool has_parent = slash != 0 && slash != std::string::npos;
  if (has_parent && access(path.c_str(), F_OK) != 0)
    return real_place(path.substr(0, slash)) + path.substr(slash, last + 1 - slash);
  char resolved[FN_REFLEN];
  if (my_realpath(resolved, path.c_str(), MYF(0))) return path;
  std::string result = resolved;
  while (result.size() > 1 && result.back() == '/') result.pop_back();
  return result;
}

bool has_store(const std::string &home) {
  const std::vector<std::string> names = names_in(home);
  return std::any_of(names.begin(), names.end(), [](const std::string &name) {
    return name == "CURRENT" || name.rfind("MANIFEST-", 0) == 0 || ends_with(name, ".sst");
  });
}

void take_back_renamed(const std::string &data_directory) {
  const std::string inside = directory_inside(data_directory);
  const std::string renamed = data_directory + "/" + RENAMED_DIRECTORY;
  const std::string configured = configured_home(data_directory);
  struct stat info;
  if ((!configured.empty() && configured != inside) || lstat(inside.c_str(), &info) == 0) return;
  /* The mark of a store: a database of a user has no such file. */
  if (access((renamed + "/OWNER").c_str(), F_OK) != 0 || access((renamed + "/CURRENT").c_str(), F_OK) != 0)
    return;
  if (rename(renamed.c_str(), inside.c_str()) != 0) {
    sql_print_error("TidesDB: the store '%s' was renamed to '%s', and cannot be renamed back: %s",
                    inside.c_str(), renamed.c_str(), strerror(errno));
    return;
  }
  unlink((inside + "/db.opt").c_str());
  sql_print_warning(
      "TidesDB: '%s' is the store's directory, renamed by mariadb-upgrade on a server without the engine: "
      "it is '%s' again",
      renamed.c_str(), inside.c_str());
}

bool refuse_home(const std::string &data_directory) {
  const std::string configured = configured_home(data_directory);
  if (configured.empty()) return false;
  const std::string home = real_place(configured);
  const char *why = nullptr;
  if (home == "/")
    why = "it is the root of the file system";
  else if (home == data_directory)
    why = "it is the data directory";
  else if (lies_in(data_directory, home))
    why = "the data directory lies in it";
  else if (lies_in(home, data_directory)) {
    const std::string below = home.substr(data_directory.size() + 1);
    const std::string first = below.substr(0, below.find('/'));
    if (first[0] != '#' && (is_database(data_directory + "/" + first) || !has_store(home)))
      why = "the server takes it for a database";
  }
  if (!why) return false;
  sql_print_error(
      "TidesDB: tidesdb_data_home_dir='%s' cannot be the directory of the store: %s. Name a directory of its "
      "own, outside of the data directory '%s', or one in it whose name begins with '#'",
      sysvars::data_home_dir(), why, data_directory.c_str());
  return true;
}

std::string find_home(const std::string &data_directory) {
  const std::string configured = configured_home(data_directory);
  if (!configured.empty()) return configured;
  const std::string inside = directory_inside(data_directory);
  return is_directory(inside) ? inside : directory_beside(data_directory);
}

std::string make_home(const std::string &data_directory) {
  const std::string inside = directory_inside(data_directory);
  std::string chosen = configured_home(data_directory);
  if (!chosen.empty()) {
    if (!make_directory(chosen)) {
      sql_print_error("TidesDB: cannot make the directory tidesdb_data_home_dir='%s': %s", chosen.c_str(),
                      strerror(errno));
      return "";
    }
    return chosen;
  }
  if (is_directory(inside)) return inside;
  const std::string beside = directory_beside(data_directory);
  if (make_directory(beside) && access(beside.c_str(), W_OK) == 0) return beside;
  if (make_directory(inside)) return inside;
  sql_print_error("TidesDB: can make neither '%s' nor '%s': %s", beside.c_str(), inside.c_str(),
                  strerror(errno));
  return "";
}

}  // namespace tidesdb

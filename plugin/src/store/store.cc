/*
  Opening and closing the store: where it lives, with what options, whom it belongs to.
*/
#include "store/store.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "log.h"

#include "store/data_identity.h"
#include "store/engine_log.h"
#include "store/least_disk.h"
#include "sysvars.h"
#include "txn/wait_observer.h"

namespace tidesdb {

Plugin plugin;

namespace {

bool is_directory(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string real_path(const char *path) {
  char resolved[FN_REFLEN];
  if (my_realpath(resolved, path, MYF(0))) return path;
  std::string result = resolved;
  while (result.size() > 1 && result.back() == '/') result.pop_back();
  return result;
}

bool make_directory(const std::string &path) { return is_directory(path) || mkdir(path.c_str(), 0750) == 0; }

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

/* mariadb-upgrade renames directories that look like databases of an old release, and the store's looks so to
   a server without the engine. It gets its name back, and loses the file that the server put into it. */
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

/* Where the store is, if there is one. */
std::string find_home(const std::string &data_directory) {
  const std::string configured = configured_home(data_directory);
  if (!configured.empty()) return configured;
  const std::string inside = directory_inside(data_directory);
  return is_directory(inside) ? inside : directory_beside(data_directory);
}

/* The directory of a new store; "" and a line in the log where none can be made. */
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

}  // namespace

namespace {

/* Such a store opens and answers reads. */
void warn_of_small_disk() {
  struct statvfs disk;
  if (statvfs(plugin.home.c_str(), &disk) != 0) return;
  const ulonglong size = static_cast<ulonglong>(disk.f_blocks) * disk.f_frsize >> 20;
  if (size < LEAST_DISK_MB)
    sql_print_warning(
        "TidesDB: the file system of the store '%s' has %llu MB. A store needs %llu MB before it holds a "
        "table; "
        "without them definitions and changes are refused (1021)",
        plugin.home.c_str(), size, LEAST_DISK_MB);
}

}  // namespace

bool open_store() {
  const std::string data_directory = real_path(mysql_real_data_home);
  take_back_renamed(data_directory);
  plugin.home = find_home(data_directory);

  tidesdb_options options;
  tidesdb_options_init(&options);
  if (sysvars::fill_store_options(&options)) return true;
  DataIdentity data;
  if (choose_data_identity(data_directory, plugin.home, sysvars::replace_missing_store(), &data)) return true;
  if (data.makes_store) plugin.home = make_home(data_directory);
  if (plugin.home.empty() || keep_data_identity(data_directory, plugin.home, data)) return true;
  const std::string owner = data.identity + "\n" + data_directory;
  options.owner = owner.c_str();
  options.create_if_missing = data.makes_store || !data.recorded;
  options.write_buffer_variable = "tidesdb_unified_memtable_write_buffer_size";
  options.observer = wait_observer();
  open_engine_log(data_directory);
  options.log = engine_log_line;

  tidesdb_db *db = nullptr;
  const int status = tidesdb_open(plugin.home.c_str(), &options, &db);
  if (status != TIDESDB_OK) {
    const std::string recorded = data.place.empty() || data.place == plugin.home
                                     ? ""
                                     : "; the data directory's store was last opened in '" + data.place + "'";
    sql_print_error("TidesDB: cannot open the store in '%s' for the data directory '%s': %s%s",
                    plugin.home.c_str(), data_directory.c_str(), tidesdb_last_error(), recorded.c_str());
    close_engine_log();
    return true;
  }
  plugin.db = db;
  record_store(data_directory, plugin.home, data);
  warn_of_small_disk();
  sql_print_information("TidesDB: library %s, store in '%s'", tidesdb_version(), plugin.home.c_str());
  return false;
}

void close_store() {
  if (!plugin.db) return;
  tidesdb_db *db = plugin.db;
  plugin.db = nullptr;
  if (tidesdb_close(db) != TIDESDB_OK)
    sql_print_error("TidesDB: closing the store: %s", tidesdb_last_error());
  close_engine_log();
}

}  // namespace tidesdb

/*
  Opening and closing the store: where it lives, with what options, whom it belongs to.
*/
#include "store/store.h"

#include <sys/statvfs.h>

#include "log.h"

#include "ddl/known_families.h"
#include "store/data_identity.h"
#include "store/engine_log.h"
#include "cluster/participation.h"
#include "store/home.h"
#include "store/least_disk.h"
#include "sysvars.h"
#include "txn/wait_observer.h"

namespace tidesdb {

Plugin plugin;

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
  const std::string data_directory = real_place(mysql_real_data_home);
  if (refuse_home(data_directory)) return true;
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
  const std::string remembered = remembered_store(data_directory, data);
  options.owner = owner.c_str();
  options.remembered = remembered.empty() ? nullptr : remembered.c_str();
  options.create_if_missing = data.makes_store || !data.recorded;
  options.write_buffer_variable = "tidesdb_unified_memtable_write_buffer_size";
  options.observer = wait_observer();
  /* Commit records have positions in the cluster. */
  if (cluster::takes_part()) options.least_format = 2;
  open_engine_log(data_directory);
  options.log = engine_log_line;
  options.family_label = family_label;

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
  char mark[TIDESDB_MARK_SIZE] = "";
  if (tidesdb_mark(db, mark) != TIDESDB_OK) *mark = 0;
  record_store(data_directory, plugin.home, data, mark);
  warn_of_small_disk();
  sql_print_information("TidesDB: library %s, store in '%s'", tidesdb_version(), plugin.home.c_str());
  return false;
}

bool close_store() {
  if (!plugin.db) return false;
  tidesdb_db *db = plugin.db;
  plugin.db = nullptr;
  const bool closed = tidesdb_close(db) == TIDESDB_OK;
  if (!closed) sql_print_error("TidesDB: closing the store: %s", tidesdb_last_error());
  close_engine_log();
  return closed;
}

}  // namespace tidesdb

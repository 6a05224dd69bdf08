/*
  Registration: what the server learns of the engine when it loads ha_tidesdb.so.
*/
#include "handler/ha_tidesdb.h"

#include <mysql/plugin.h>

#include "log.h"

#include "backup/definitions.h"
#include "cluster/local_changes.h"
#include "cluster/participation.h"
#include "cluster/position.h"
#include "cluster/state_transfer.h"
#include "cluster/victims.h"
#include "ddl/lost_partitions.h"
#include "ddl/partitioned_drop.h"
#include "ddl/tables.h"
#include "foreign/registry.h"
#include "i_s/tables.h"
#include "search/ngram_parser.h"
#include "search/settings.h"
#include "server.h"
#include "status.h"
#include "status_text.h"
#include "store/crashed_binary_log.h"
#include "store/home.h"
#include "store/store.h"
#include "sysvars.h"
#include "txn/transactions.h"

/* sql/mysqld.cc; in no public header. */
void ignore_db_dirs_append(const char *dirname_arg);

namespace tidesdb {

namespace {

handler *create_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *mem_root) {
  if (!share) note_partition_files(current_thd);
  return new (mem_root) ha_tidesdb(hton, share);
}

int drop_table_call(handlerton *, const char *path) {
  const int error = drop_table(path);
  return error == HA_ERR_NO_SUCH_TABLE && !plugin.ddl_recovery_done ? undo_create(path) : error;
}

void drop_database_call(handlerton *, char *path) { drop_database(path); }

int check_version_call(handlerton *, const char *path, const LEX_CUSTRING *definition, ulonglong) {
  return check_definition(path, definition);
}

/* Called alongside the .par file: of a change of partitions when the new .frm has taken the old one's place,
   from a name that the server makes (build_table_shadow_filename() in sql/sql_table.cc). */
int partitioning_metadata_call(const char *path, const char *old_path, chf_create_flags action) {
  static constexpr char SHADOW[] = "#sql-shadow-";
  if (action != CHF_RENAME_FLAG || !old_path) return 0;
  const char *name = strrchr(old_path, FN_LIBCHAR);
  if (!strncmp(name ? name + 1 : old_path, SHADOW, sizeof(SHADOW) - 1)) adopt_definition(path);
  return 0;
}

int ddl_recovery_done(handlerton *) {
  plugin.ddl_recovery_done = true;
  cluster::stand_around_innodb();
  if (!plugin.db) return 0;
  finish_restore();
  find_lost_partitions();
  return 0;
}

/* The engine does not start. Without it a node of a cluster would go on, and miss its tables. */
int end_of_init() {
  if (cluster::takes_part() && !opt_bootstrap) unireg_abort(1);
  return 1;
}

/* A server that says its position (--wsrep-recover) says that it has none, and the start that follows asks
   for another transfer. The script of that transfer runs before this. */
int begin_with_half_transfer() {
  if (cluster::tells_position_alone()) return 0;
  sql_print_error(
      "TidesDB: a state transfer into this node did not finish, and none took its place: the node has half a "
      "state. Remove 'grastate.dat' of the data directory, and start it in its cluster: it asks for another "
      "one. The server ends here");
  return end_of_init();
}

int init(void *pointer) {
  handlerton *hton = static_cast<handlerton *>(pointer);
  plugin.hton = hton;
  hton->create = create_handler;
  hton->drop_table = drop_table_call;
  hton->drop_database = drop_database_call;
  hton->check_version = check_version_call;
  hton->create_partitioning_metadata = partitioning_metadata_call;
  hton->signal_ddl_recovery_done = ddl_recovery_done;
  hton->show_status = show_engine_status;
  hton->table_options = sysvars::table_options;
  hton->field_options = sysvars::field_options;
  hton->index_options = sysvars::index_options;
  hton->flags =
      HTON_SUPPORTS_EXTENDED_KEYS | HTON_TRUNCATE_REQUIRES_EXCLUSIVE_USE | HTON_REQUIRES_CLOSE_AFTER_TRUNCATE;
  cluster::decide_participation(hton, sysvars::cluster());
  register_costs(hton);
  register_transaction_calls(hton);
  if (cluster::refuses_state_transfer()) return end_of_init();
  ignore_db_dirs_append(INSIDE_DIRECTORY);
  if (cluster::takes_part() && cluster::has_half_transfer()) return begin_with_half_transfer();
  if (cluster::is_received_elsewhere()) return end_of_init();
  if (open_store()) {
    keep_crashed_binary_log();
    return end_of_init();
  }
  cluster::note_opened();
  drop_temporary_tables();
  if (foreign::load() != TIDESDB_OK) {
    sql_print_error("TidesDB: cannot read the foreign keys of the store: %s", tidesdb_last_error());
    close_store();
    return end_of_init();
  }
  finish_drops();
  if (WSREP_PROVIDER_EXISTS_ && !cluster::takes_part()) cluster::say_at_start();
  if (!cluster::watch_victims()) {
    sql_print_error("TidesDB: no thread can be made that passes on kills of Galera");
    foreign::clear();
    close_store();
    return end_of_init();
  }
  if (cluster::takes_part()) cluster::open_for_donations();
  return 0;
}

int deinit(void *) {
  cluster::close_for_donations();
  cluster::leave_victims();
  cluster::leave_innodb();
  foreign::clear();
  if (close_store()) cluster::note_clean_end();
  return 0;
}

struct st_mysql_storage_engine engine = {MYSQL_HANDLERTON_INTERFACE_VERSION};

}  // namespace

}  // namespace tidesdb

/* A table of INFORMATION_SCHEMA. The server warns of each plugin of a library that is less mature than
   itself; the engine's warning is enough, and the tables have no other maturity than what they show. */
#define INFORMATION_TABLE(name, init, description)                                                          \
  {                                                                                                         \
    MYSQL_INFORMATION_SCHEMA_PLUGIN, &tidesdb::i_s::interface, name, "The TidesDB developers", description, \
        PLUGIN_LICENSE_GPL, tidesdb::i_s::init, nullptr, 0x0001, nullptr, nullptr, "0.1.0",                 \
        MariaDB_PLUGIN_MATURITY_STABLE                                                                      \
  }

maria_declare_plugin(tidesdb){MYSQL_STORAGE_ENGINE_PLUGIN,
                              &tidesdb::engine,
                              "TidesDB",
                              "The TidesDB developers",
                              "Log-structured merge-tree engine: transactions, row locks, crash-safe",
                              PLUGIN_LICENSE_GPL,
                              tidesdb::init,
                              tidesdb::deinit,
                              0x0001,
                              tidesdb::status_variables,
                              tidesdb::sysvars::variables,
                              "0.1.0",
                              MariaDB_PLUGIN_MATURITY_GAMMA},
    {MYSQL_FTPARSER_PLUGIN,
     &tidesdb::full_text::ngram_parser,
     tidesdb::NGRAM_PARSER,
     "The TidesDB developers",
     "Parser of FULLTEXT indexes: all parts of so many characters, for languages without spaces",
     PLUGIN_LICENSE_GPL,
     nullptr,
     nullptr,
     0x0001,
     nullptr,
     tidesdb::full_text::ngram_variables,
     "0.1.0",
     MariaDB_PLUGIN_MATURITY_GAMMA},
    INFORMATION_TABLE("TIDESDB_COLUMN_FAMILIES", init_column_families,
                      "Tables and indexes of TidesDB: shape, size, options"),
    INFORMATION_TABLE("TIDESDB_SSTABLES", init_sstables, "Segments of TidesDB's table files"),
    INFORMATION_TABLE("TIDESDB_VALUE_FILES", init_value_files, "Files of TidesDB with large values"),
    INFORMATION_TABLE("TIDESDB_LOCKS", init_locks, "Locks of TidesDB, and who waits for whom"),
    INFORMATION_TABLE("TIDESDB_TRX", init_trx, "Transactions of TidesDB"),
    INFORMATION_TABLE("TIDESDB_COMPACTIONS", init_compactions,
                      "Compactions of TidesDB that run, and the last that ran"),
    INFORMATION_TABLE("TIDESDB_METRICS", init_metrics, "Status variables of TidesDB with their meaning"),
    INFORMATION_TABLE("TIDESDB_MEMORY", init_memory, "Who holds the memory of TidesDB"),
    INFORMATION_TABLE("TIDESDB_FOREIGN_KEYS", init_foreign_keys,
                      "Foreign keys of TidesDB tables, and the index of the parent that each goes by"),
    INFORMATION_TABLE("TIDESDB_FULLTEXT", init_full_text,
                      "Full text indexes of TidesDB: rules of their words, size") maria_declare_plugin_end;

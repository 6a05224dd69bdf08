#include "unbuilt_features.h"

#include <mysql/plugin.h>

#include <iterator>

#include "log.h"
#include "sql_class.h"

#include "set_var.h"

#include "boolean_value.h"
#include "server.h"
#include "sysvars.h"

namespace tidesdb {
namespace unbuilt {

namespace {

constexpr char OBJECT_STORE[] = "the object store", REPLICA_MODE[] = "replica mode",
               ENCRYPTION[] = "encryption";

const char *backend_names[] = {"LOCAL", "S3", "FS", NullS};
TYPELIB backend_type = CREATE_TYPELIB_FOR(backend_names);

constexpr ulonglong NO_BOUND = ~0ULL;

ulong opt_backend;
char *opt_s3_endpoint, *opt_s3_bucket, *opt_s3_prefix, *opt_s3_access_key, *opt_s3_secret_key, *opt_s3_region,
    *opt_s3_tls_ca_path, *opt_objstore_fs_path;
my_bool opt_s3_use_ssl, opt_s3_path_style, opt_s3_tls_insecure_skip_verify;
ulonglong opt_wal_sync_threshold;
my_bool opt_wal_sync_on_commit, opt_cache_on_read, opt_cache_on_write, opt_sync_manifest, opt_wal_upload_sync,
    opt_replicate_wal;
my_bool opt_replica_mode, opt_replica_replay_wal, opt_promote_primary;
ulonglong opt_replica_sync_interval;

/* A global variable as the server's header lays it out: the place of its value, then its default. */
template <class Value>
struct GlobalVariable {
  MYSQL_PLUGIN_VAR_HEADER;
  Value *value;
  const Value standard;
};

template <class Value>
const GlobalVariable<Value> &as(const st_mysql_sys_var *variable) {
  return *reinterpret_cast<const GlobalVariable<Value> *>(variable);
}

/* The whole name: the server has put the plugin's before it. */
const char *name_of(const st_mysql_sys_var *variable) { return as<char>(variable).name; }

int refuse_set(const char *name, const char *feature) {
  my_printf_error(ER_NOT_SUPPORTED_YET,
                  "TidesDB: %s asks for %s, which this build does not have; only the default is taken",
                  MYF(0), name, feature);
  return 1;
}

/* The value of a SET that is the variable's default; any other is an error. */
template <const char *FEATURE>
int check_bool(THD *, st_mysql_sys_var *variable, void *save, st_mysql_value *value) {
  my_bool wanted;
  if (!read_bool(value, &wanted)) return 1;
  *static_cast<my_bool *>(save) = wanted;
  return wanted == as<my_bool>(variable).standard ? 0 : refuse_set(name_of(variable), FEATURE);
}

template <bool STANDARD>
int check_session_bool(const char *name, void *save, st_mysql_value *value) {
  my_bool wanted;
  if (!read_bool(value, &wanted)) return 1;
  *static_cast<my_bool *>(save) = wanted;
  return static_cast<bool>(wanted) == STANDARD ? 0 : refuse_set(name, OBJECT_STORE);
}

}  // namespace

#define AT_START (PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG)
#define AT_START_BOOL (PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG)
#define AT_START_TEXT (AT_START | PLUGIN_VAR_MEMALLOC)
#define NO_OBJECT_STORE "Only the default: this build has no object store"
#define NO_REPLICA_MODE "Only the default: this build has no replica mode"

static MYSQL_SYSVAR_ENUM(object_store_backend, opt_backend, AT_START, NO_OBJECT_STORE, nullptr, nullptr, 0,
                         &backend_type);
static MYSQL_SYSVAR_STR(s3_endpoint, opt_s3_endpoint, AT_START_TEXT, NO_OBJECT_STORE, nullptr, nullptr, "");
static MYSQL_SYSVAR_STR(s3_bucket, opt_s3_bucket, AT_START_TEXT, NO_OBJECT_STORE, nullptr, nullptr, "");
static MYSQL_SYSVAR_STR(s3_prefix, opt_s3_prefix, AT_START_TEXT, NO_OBJECT_STORE, nullptr, nullptr, "");
static MYSQL_SYSVAR_STR(s3_access_key, opt_s3_access_key, AT_START_TEXT, NO_OBJECT_STORE, nullptr, nullptr,
                        "");
static MYSQL_SYSVAR_STR(s3_secret_key, opt_s3_secret_key, AT_START_TEXT, NO_OBJECT_STORE, nullptr, nullptr,
                        "");
static MYSQL_SYSVAR_STR(s3_region, opt_s3_region, AT_START_TEXT, NO_OBJECT_STORE, nullptr, nullptr, "");
static MYSQL_SYSVAR_BOOL(s3_use_ssl, opt_s3_use_ssl, AT_START_BOOL, NO_OBJECT_STORE, nullptr, nullptr, TRUE);
static MYSQL_SYSVAR_BOOL(s3_path_style, opt_s3_path_style, AT_START_BOOL, NO_OBJECT_STORE, nullptr, nullptr,
                         FALSE);
static MYSQL_SYSVAR_STR(s3_tls_ca_path, opt_s3_tls_ca_path, AT_START_TEXT, NO_OBJECT_STORE, nullptr, nullptr,
                        "");
static MYSQL_SYSVAR_BOOL(s3_tls_insecure_skip_verify, opt_s3_tls_insecure_skip_verify, AT_START_BOOL,
                         NO_OBJECT_STORE, nullptr, nullptr, FALSE);
static MYSQL_SYSVAR_STR(objstore_fs_path, opt_objstore_fs_path, AT_START_TEXT, NO_OBJECT_STORE, nullptr,
                        nullptr, "");
static MYSQL_SYSVAR_ULONGLONG(objstore_wal_sync_threshold, opt_wal_sync_threshold, AT_START, NO_OBJECT_STORE,
                              nullptr, nullptr, 1024 * 1024, 0, NO_BOUND, 0);
static MYSQL_SYSVAR_BOOL(objstore_wal_sync_on_commit, opt_wal_sync_on_commit, AT_START_BOOL, NO_OBJECT_STORE,
                         nullptr, nullptr, FALSE);
static MYSQL_SYSVAR_BOOL(objstore_cache_on_read, opt_cache_on_read, AT_START_BOOL, NO_OBJECT_STORE, nullptr,
                         nullptr, TRUE);
static MYSQL_SYSVAR_BOOL(objstore_cache_on_write, opt_cache_on_write, AT_START_BOOL, NO_OBJECT_STORE, nullptr,
                         nullptr, TRUE);
static MYSQL_SYSVAR_BOOL(objstore_sync_manifest, opt_sync_manifest, AT_START_BOOL, NO_OBJECT_STORE, nullptr,
                         nullptr, TRUE);
static MYSQL_SYSVAR_BOOL(objstore_wal_upload_sync, opt_wal_upload_sync, AT_START_BOOL, NO_OBJECT_STORE,
                         nullptr, nullptr, FALSE);
static MYSQL_SYSVAR_BOOL(objstore_replicate_wal, opt_replicate_wal, AT_START_BOOL, NO_OBJECT_STORE, nullptr,
                         nullptr, TRUE);
static MYSQL_SYSVAR_BOOL(replica_mode, opt_replica_mode, AT_START_BOOL, NO_REPLICA_MODE, nullptr, nullptr,
                         FALSE);
static MYSQL_SYSVAR_ULONGLONG(replica_sync_interval, opt_replica_sync_interval, AT_START, NO_REPLICA_MODE,
                              nullptr, nullptr, 5000000, 1, NO_BOUND, 0);
static MYSQL_SYSVAR_BOOL(replica_replay_wal, opt_replica_replay_wal, AT_START_BOOL, NO_REPLICA_MODE, nullptr,
                         nullptr, TRUE);
static MYSQL_SYSVAR_BOOL(promote_primary, opt_promote_primary, PLUGIN_VAR_OPCMDARG, NO_REPLICA_MODE,
                         check_bool<REPLICA_MODE>, nullptr, FALSE);

namespace {

struct UnbuiltVariable {
  st_mysql_sys_var *variable;
  const char *feature;
};

const UnbuiltVariable unbuilt_variables[] = {
    {MYSQL_SYSVAR(object_store_backend), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_endpoint), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_bucket), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_prefix), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_access_key), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_secret_key), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_region), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_use_ssl), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_path_style), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_tls_ca_path), OBJECT_STORE},
    {MYSQL_SYSVAR(s3_tls_insecure_skip_verify), OBJECT_STORE},
    {MYSQL_SYSVAR(objstore_fs_path), OBJECT_STORE},
    {MYSQL_SYSVAR(objstore_wal_sync_threshold), OBJECT_STORE},
    {MYSQL_SYSVAR(objstore_wal_sync_on_commit), OBJECT_STORE},
    {MYSQL_SYSVAR(objstore_cache_on_read), OBJECT_STORE},
    {MYSQL_SYSVAR(objstore_cache_on_write), OBJECT_STORE},
    {MYSQL_SYSVAR(objstore_sync_manifest), OBJECT_STORE},
    {MYSQL_SYSVAR(objstore_wal_upload_sync), OBJECT_STORE},
    {MYSQL_SYSVAR(objstore_replicate_wal), OBJECT_STORE},
    {MYSQL_SYSVAR(replica_mode), REPLICA_MODE},
    {MYSQL_SYSVAR(replica_sync_interval), REPLICA_MODE},
    {MYSQL_SYSVAR(replica_replay_wal), REPLICA_MODE},
    {MYSQL_SYSVAR(promote_primary), REPLICA_MODE},
};
static_assert(std::size(unbuilt_variables) == VARIABLES);

template <class Value>
bool has_default(const st_mysql_sys_var *variable) {
  return *as<Value>(variable).value == as<Value>(variable).standard;
}

bool is_at_default(const st_mysql_sys_var *variable) {
  constexpr int TYPE = 0x7f;
  switch (as<char>(variable).flags & TYPE) {
    case PLUGIN_VAR_BOOL:
      return has_default<my_bool>(variable);
    case PLUGIN_VAR_LONGLONG:
      return has_default<ulonglong>(variable);
    case PLUGIN_VAR_ENUM:
      return has_default<ulong>(variable);
    case PLUGIN_VAR_DOUBLE:
      return has_default<double>(variable);
    default: {
      const char *text = *as<char *>(variable).value;
      return !text || !*text;
    }
  }
}

/* Without the value, which may be a secret. */
void log_refusal(const char *name, const char *feature) {
  sql_print_error("TidesDB: %s asks for %s, which this build does not have; only the default is taken", name,
                  feature);
}

}  // namespace

struct st_mysql_sys_var *variable(size_t number) {
  return unbuilt_variables[number].variable;
}

bool refuse_variables() {
  bool refused = false;
  for (const UnbuiltVariable &unbuilt : unbuilt_variables) {
    if (is_at_default(unbuilt.variable)) continue;
    log_refusal(name_of(unbuilt.variable), unbuilt.feature);
    refused = true;
  }
  return refused;
}

void log_object_store_variable(const char *name) { log_refusal(name, OBJECT_STORE); }

const char *refused_option(const ha_table_option_struct &options) {
  if (options.encrypted) return "encryption (ENCRYPTED)";
  if (options.encryption_key_id != 1) return "encryption (ENCRYPTION_KEY_ID)";
  if (options.object_lazy_compaction) return "the object store (OBJECT_LAZY_COMPACTION)";
  if (!options.object_prefetch_compaction) return "the object store (OBJECT_PREFETCH_COMPACTION)";
  return nullptr;
}

int check_object_lazy_compaction(THD *, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return check_session_bool<false>("tidesdb_default_object_lazy_compaction", save, value);
}

int check_object_prefetch_compaction(THD *, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return check_session_bool<true>("tidesdb_default_object_prefetch_compaction", save, value);
}

}  // namespace unbuilt
}  // namespace tidesdb

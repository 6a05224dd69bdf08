#include "cluster/position.h"

#include "cluster/wsrep_service.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "log.h"
#include "set_var.h"
#include "sql_class.h"
#include "sys_vars_shared.h"

#include "wsrep_mysqld.h"
#include "wsrep_xid.h"

#include "cluster/commit_hooks.h"
#include "cluster/participation.h"
#include "mutant.h"
#include "store/home.h"
#include "store/regular_file.h"
#include "store/store.h"
#include "txn/xid.h"

namespace tidesdb::cluster {

namespace {

/* The form of the server's identifiers (sql/wsrep_xid.cc). */
constexpr size_t XID_UUID = 8, XID_NUMBER = XID_UUID + 16, XID_GTID = XID_NUMBER + 8;
constexpr char XID_WITH_GTID = 'f';

/* In the store's directory: the boot of the machine that the last server ran in, after INNODB_LATE or
   INNODB_UNSYNCED if InnoDB has not written or not synced its log when the store asked for it; IN_ORDER with
   InnoDB's position, if it ended so; or NEEDS_TRANSFER until there was one, which no start and no end takes
   away. */
constexpr char END_FILE[] = "cluster-end";
constexpr char IN_ORDER[] = "clean ", INNODB_LATE[] = "late ", INNODB_UNSYNCED[] = "unsynced ",
               NEEDS_TRANSFER[] = "unknown\n";

/* Before this version InnoDB does for others what innodb_flush_log_at_trx_commit says: it writes nothing with
   0, and syncs nothing with 2. */
constexpr ulong SYNCS_FOR_OTHERS = 110000;

struct Innodb {
  handlerton *hton = nullptr;
  int (*get)(handlerton *, XID *) = nullptr;
  int (*set)(handlerton *, const XID *) = nullptr;
};
Innodb innodb;
/* From the start on, until the server sets the position that a transfer or a new cluster brings: it makes the
   old one undefined before. */
std::atomic<bool> is_unknown{false}, begins_anew{false};
/* Of a server that ends: what END_FILE says of an end in order. */
std::string end_in_order;
/* The last commit of the store, if it had changes in the store alone. */
std::atomic<long long> last_alone{-1};
/* The last one of the store on its way to the binary log: InnoDB's log has what InnoDB prepared before it. */
std::atomic<long long> last_before_binary_log{-1};
/* What InnoDB's log has not had when the store asked for it, at worst. */
enum class Lag { NONE, UNSYNCED, LATE };
std::atomic<Lag> innodb_lag{Lag::NONE};

std::string path_of_end() { return plugin.home + "/" + END_FILE; }

std::string present_boot() {
  std::string boot;
  read_regular_file("/proc/sys/kernel/random/boot_id", &boot);
  return boot;
}

void write_end_or_say(const std::string &text) {
  if (!text.empty() && !replace_regular_file(plugin.home, END_FILE, text)) return;
  sql_print_error("TidesDB: cannot write '%s': %s. After the next start this node may need a state transfer",
                  path_of_end().c_str(), strerror(errno));
  unlink(path_of_end().c_str());
}

bool own_position(tidesdb_position *position) {
  return tidesdb_get_position(plugin.db, position) == TIDESDB_OK;
}

bool from_xid(const XID *xid, tidesdb_position *position) {
  if (!wsrep_is_wsrep_xid(xid)) return false;
  *position = {};
  memcpy(position->uuid, xid->data + XID_UUID, sizeof(position->uuid));
  position->number = wsrep_xid_seqno(xid);
  if (xid->data[XID_UUID - 1] == XID_WITH_GTID) {
    wsrep_server_gtid_t gtid;
    memcpy(&gtid, xid->data + XID_GTID, sizeof(gtid));
    position->has_gtid = 1;
    position->gtid_domain = gtid.domain_id;
    position->gtid_server = gtid.server_id;
    position->gtid_number = gtid.seqno;
  }
  return true;
}

void to_xid(const tidesdb_position &position, XID *xid) {
  wsrep::gtid gtid(wsrep::id(position.uuid, sizeof(position.uuid)), wsrep::seqno(position.number));
  wsrep_server_gtid_t server{position.gtid_domain, position.gtid_server, position.gtid_number};
  wsrep_xid_init(xid, gtid, server);
}

bool same_cluster(const tidesdb_position &own, const tidesdb_position &other) {
  return memcmp(own.uuid, other.uuid, sizeof(own.uuid)) == 0;
}

bool is_behind(const tidesdb_position &own, const tidesdb_position &other) {
  return !same_cluster(own, other) || own.number < other.number;
}

/* A place in the cluster's order. */
bool defined_in(const XID *xid, tidesdb_position *position) {
  return from_xid(xid, position) && position->number >= 0;
}

/* The mark of a server that runs. */
std::string running() {
  const Lag lag = innodb_lag.load();
  return (lag == Lag::LATE ? INNODB_LATE : lag == Lag::UNSYNCED ? INNODB_UNSYNCED : "") + present_boot();
}

/* Takes a mark's beginning off. */
bool cut(const char *beginning, std::string *mark) {
  if (mark->rfind(beginning, 0) != 0) return false;
  mark->erase(0, strlen(beginning));
  return true;
}

/* What InnoDB leaves out at each prepare and each commit of its own, by innodb_flush_log_at_trx_commit. */
Lag innodb_lag_of_each() {
  static const sys_var *variable = nullptr;
  static constexpr char name[] = "innodb_flush_log_at_trx_commit";
  if (!variable) variable = intern_find_sys_var(name, sizeof(name) - 1);
  const uchar *value = variable ? variable->value_ptr(current_thd, OPT_GLOBAL, &null_clex_str) : nullptr;
  const ulong set = value ? *reinterpret_cast<const ulong *>(value) : 0;
  return set == 0 ? Lag::LATE : set == 2 ? Lag::UNSYNCED : Lag::NONE;
}

/* The store is about to claim what InnoDB may have in memory alone. */
void write_innodb_log() {
  innodb.hton->flush_logs(innodb.hton);
  if (MYSQL_VERSION_ID >= SYNCS_FOR_OTHERS) return;
  const Lag lag = innodb_lag_of_each();
  if (lag <= innodb_lag.load()) return;
  innodb_lag.store(lag);
  sql_print_warning(
      "TidesDB: with innodb_flush_log_at_trx_commit=%s InnoDB of this server does not %s its log before that "
      "of "
      "the store. After a %s this node may need a state transfer. Set it to 1",
      lag == Lag::LATE ? "0" : "2", lag == Lag::LATE ? "write" : "sync",
      lag == Lag::LATE ? "crash" : "power cut");
  if (!is_unknown.load()) write_end_or_say(running());
}

/* The mark of an end in order, with InnoDB's position: another one at the next start is another's files. */
std::string in_order_at(const XID &xid) { return IN_ORDER + wsrep_xid_print(&xid) + "\n"; }

/* How the last server ended decides on what the two logs may have lost. From now on this server is the last.
 */
void begin_server() {
  if (!plugin.db) return is_unknown.store(true);
  std::string before;
  const bool found = read_regular_file(path_of_end(), &before);
  const std::string boot = present_boot();
  tidesdb_position own, other;
  XID xid;
  xid.null();
  innodb.get(innodb.hton, &xid);
  const bool has_any = own_position(&own), has_own = has_any && own.number >= 0;
  const bool has_undefined = has_any && !has_own;
  const bool has_other = defined_in(&xid, &other);
  const bool was_late = cut(INNODB_LATE, &before), was_unsynced = cut(INNODB_UNSYNCED, &before);
  const bool ended = before.rfind(IN_ORDER, 0) == 0;
  const bool in_order = found && (before == in_order_at(xid) || (!boot.empty() && before == boot));
  bool unknown = found && before == NEEDS_TRANSFER;
  /* Files of another InnoDB, or older ones. */
  if (ended && !in_order && (has_own || has_other)) unknown = true;
  if (has_own && has_other && !same_cluster(own, other)) unknown = true;
  if (has_own && !in_order && (!has_other || is_behind(own, other))) unknown = true;
  /* InnoDB may have lost commits between the two. */
  if ((was_late || (was_unsynced && !in_order)) && has_own && (!has_other || own.number > other.number))
    unknown = true;
  /* A node has had a position since it joined first. A repair takes it from a store that lost something. */
  if ((found || has_undefined) && !has_own && has_other) unknown = true;
  if (MUTANT(UnknownIsKnown)) unknown = false;
  if (unknown)
    sql_print_warning(
        "TidesDB: the position in the cluster is unknown: after a power cut, with another's files of InnoDB, "
        "or with a log that InnoDB wrote late, the store has commits up to %lld and InnoDB up to %lld. This "
        "node needs a state transfer",
        has_own ? static_cast<long long>(own.number) : -1,
        has_other ? static_cast<long long>(other.number) : -1);
  is_unknown.store(unknown);
  write_end_or_say(unknown ? NEEDS_TRANSFER : boot);
}

/* The later of InnoDB's position, in `xid`, and the store's. */
int get_checkpoint(handlerton *hton, XID *xid) {
  if (const int error = innodb.get(hton, xid)) return error;
  tidesdb_position own, other;
  if (is_unknown.load())
    wsrep_xid_init(xid, wsrep::gtid::undefined(), wsrep_gtid_server.undefined());
  else if (own_position(&own) && own.number >= 0 && (!defined_in(xid, &other) || !is_behind(own, other)))
    to_xid(own, xid);
  return 0;
}

[[noreturn]] void end_without_transfer(long long number) {
  sql_print_error(
      "TidesDB: this node joins the cluster at %lld by commits alone, and does not know which of those "
      "before are in its store. It needs a state transfer: the server ends here",
      number);
  abort();
}

/* InnoDB's commits up to the position are in its file before the store claims them. */
int set_checkpoint(handlerton *hton, const XID *xid) {
  tidesdb_position position;
  if (!from_xid(xid, &position)) return innodb.set(hton, xid);
  const bool is_defined = position.number >= 0;
  if (!is_defined) begins_anew.store(true);
  if (is_defined && is_unknown.load() && !begins_anew.load()) end_without_transfer(position.number);
  if (is_defined) write_innodb_log();
  last_alone.store(-1);
  last_before_binary_log.store(-1);
  if (const int status = tidesdb_set_position(plugin.db, &position)) {
    sql_print_error("TidesDB: cannot write the position of the cluster: %s", tidesdb_strerror(status));
    return 1;
  }
  const int error = innodb.set(hton, xid);
  if (error == 0 && is_defined && is_unknown.exchange(false)) write_end_or_say(running());
  return error;
}

}  // namespace

void stand_around_innodb() {
  if (!takes_part() || innodb.hton) return;
  handlerton *hton = ha_resolve_by_legacy_type(current_thd, DB_TYPE_INNODB);
  if (!hton || !hton->get_checkpoint || !hton->set_checkpoint) return;
  innodb = {hton, hton->get_checkpoint, hton->set_checkpoint};
  begin_server();
  hton->get_checkpoint = get_checkpoint;
  hton->set_checkpoint = set_checkpoint;
}

/* At the server's end InnoDB may be gone before this engine. */
static bool has_innodb_still() {
  return innodb.hton && ha_resolve_by_legacy_type(nullptr, DB_TYPE_INNODB) == innodb.hton;
}

void note_last_position() {
  if (!has_innodb_still()) return;
  XID xid;
  xid.null();
  innodb.get(innodb.hton, &xid);
  end_in_order = in_order_at(xid);
}

void leave_innodb() {
  if (!has_innodb_still()) return;
  note_last_position();
  innodb.hton->get_checkpoint = innodb.get;
  innodb.hton->set_checkpoint = innodb.set;
}

void note_refused_transfer() {
  plugin.home = find_home(real_place(mysql_real_data_home));
  std::string before;
  if (read_regular_file(path_of_end(), &before)) write_end_or_say(NEEDS_TRANSFER);
}

bool claim_position() {
  XID now;
  now.null();
  tidesdb_position both, own;
  if (!innodb.hton || get_checkpoint(innodb.hton, &now) || !defined_in(&now, &both)) return false;
  if (own_position(&own) && own.number >= 0 && !is_behind(own, both)) return true;
  write_innodb_log();
  return tidesdb_set_position(plugin.db, &both) == TIDESDB_OK;
}

static bool position_of(const THD *thd, tidesdb_position *position) {
  return WSREP_NNULL(thd) && defined_in(thd->get_xid(), position);
}

bool has_position(const THD *thd) {
  tidesdb_position position;
  return position_of(thd, &position);
}

bool needs_no_synced_prepare(const THD *thd) { return takes_part() && !opt_bin_log && has_position(thd); }

bool note_position(THD *thd, tidesdb_txn *txn, bool alone) {
  tidesdb_position position;
  if (!position_of(thd, &position)) return false;
  if (MUTANT(BinaryLogFirst) || MUTANT(InnodbSkipped)) my_sleep(MUTANT_DELAY);
  if (innodb.hton && !(alone && last_alone.load() + 1 == position.number) && !MUTANT(InnodbUnwritten))
    write_innodb_log();
  last_alone.store(alone ? position.number : -1);
  if (MUTANT(PositionOutsideRecord) && tidesdb_txn_has_writes(txn)) return true;
  if (tidesdb_txn_set_position(txn, &position) != TIDESDB_OK) end_after_failed_commit(thd);
  return true;
}

/* The server asks in the order of the binary log, for one at a time. No call of an engine comes between the
   last of a group and the group's write. Where InnoDB syncs each prepare itself, its log has those before:
   with another setting at the last call some may be older. */
void write_innodb_before_binary_log(const THD *thd, bool alone) {
  static bool synced_each = false;
  tidesdb_position position;
  if (!innodb.hton || MUTANT(BinaryLogFirst) || !position_of(thd, &position)) return;
  const bool syncs_each = innodb_lag_of_each() == Lag::NONE;
  const bool has_all =
      alone && (last_before_binary_log.load() + 1 == position.number || MUTANT(InnodbSkipped));
  if (!has_all && !(syncs_each && synced_each)) write_innodb_log();
  synced_each = syncs_each;
  last_before_binary_log.store(position.number);
}

int commit_decided(const XID &xid, const EncodedXid &encoded) {
  tidesdb_position of_xid, own;
  if (takes_part() && defined_in(&xid, &of_xid) && !(own_position(&own) && !is_behind(own, of_xid)))
    return tidesdb_commit_by_xid_at(plugin.db, encoded.bytes, encoded.size, &of_xid);
  return tidesdb_commit_by_xid(plugin.db, encoded.bytes, encoded.size);
}

void decide_prepared(std::vector<XID> *prepared) {
  if (!takes_part()) return;
  stand_around_innodb();
  XID now;
  now.null();
  tidesdb_position upto, own;
  if (innodb.hton) get_checkpoint(innodb.hton, &now);
  const bool known = defined_in(&now, &upto);
  const auto decided = [&](const XID &xid) {
    if (!from_xid(&xid, &own)) return false;
    const bool commits = known && !is_behind(upto, own) && !MUTANT(PreparedRolledBack);
    EncodedXid encoded;
    encode_xid(xid, &encoded);
    const int status = commits ? tidesdb_commit_by_xid(plugin.db, encoded.bytes, encoded.size)
                               : tidesdb_rollback_by_xid(plugin.db, encoded.bytes, encoded.size);
    if (status != TIDESDB_OK)
      sql_print_error("TidesDB: transaction %lld of the cluster cannot be %s: %s", wsrep_xid_seqno(&xid),
                      commits ? "committed" : "rolled back", tidesdb_last_error());
    return status == TIDESDB_OK;
  };
  prepared->erase(std::remove_if(prepared->begin(), prepared->end(), decided), prepared->end());
}

void note_clean_end() {
  if (!end_in_order.empty() && !is_unknown.load()) write_end_or_say(end_in_order);
}

}  // namespace tidesdb::cluster

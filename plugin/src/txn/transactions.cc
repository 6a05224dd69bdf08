#include "txn/transactions.h"

#include <mysql/plugin.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "log.h"
#include "sql_class.h"

#include "server.h"
#include "backup/stage_moment.h"
#include "cluster/commit_hooks.h"
#include "cluster/participation.h"
#include "cluster/position.h"
#include "cluster/state_transfer.h"
#include "store/store.h"
#include "txn/copy_alter_guard.h"
#include "txn/session.h"
#include "txn/xid.h"

namespace tidesdb {

namespace {

/* all=false is the end of the transaction in autocommit, else only of a statement. */
bool ends_transaction(THD *thd, bool all) {
  return all || !thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
}

int close_connection(THD *thd) {
  Session::close(thd);
  return 0;
}

int prepare(THD *thd, bool all) {
  Session *session = Session::find(thd);
  if (!session) return 0;
  /* XA PREPARE, a replica's too; XA COMMIT ... ONE PHASE comes here as a commit of the server's. */
  if (all && thd->transaction->xid_state.is_explicit_XA() && thd_sql_command(thd) != SQLCOM_XA_COMMIT)
    return session->prepare_xa();
  const bool real = ends_transaction(thd, all);
  return cluster::takes_part() ? cluster::prepare(thd, session, all, real) : session->prepare(real);
}

void commit_ordered(THD *thd, bool) {
  if (Session *session = Session::find(thd)) session->order();
}

int commit(THD *thd, bool all) {
  Session *session = Session::find(thd);
  return session ? session->commit(ends_transaction(thd, all)) : 0;
}

int rollback(THD *thd, bool all) {
  Session *session = Session::find(thd);
  if (!session) return 0;
  const bool real = ends_transaction(thd, all);
  return cluster::takes_part() && thd_sql_command(thd) == SQLCOM_ROLLBACK_TO_SAVEPOINT
             ? cluster::rollback_to_savepoint(thd, session, real)
             : session->rollback(real);
}

int start_consistent_snapshot(THD *thd) {
  Session *session = Session::get(thd);
  return session ? session->start_snapshot() : HA_ERR_OUT_OF_MEM;
}

int savepoint_set(THD *thd, void *savepoint) {
  Session *session = Session::find(thd);
  return session ? session->savepoint_set(savepoint) : 0;
}

int savepoint_rollback(THD *thd, void *savepoint) {
  Session *session = Session::find(thd);
  return session ? session->savepoint_rollback(savepoint) : 0;
}

int savepoint_release(THD *thd, void *savepoint) {
  if (Session *session = Session::find(thd)) session->savepoint_release(savepoint);
  return 0;
}

/* Locks stay when changes are undone: the names of their tables have to stay locked too. */
bool savepoint_rollback_can_release_mdl(THD *thd) {
  const Session *session = Session::find(thd);
  return !session || !session->holds_locks();
}

void kill_query(handlerton *, THD *thd, thd_kill_levels) {
  /* A commit that waits for room in the log cannot be killed, and would keep the server from its end. */
  if (abort_loop) tidesdb_end_log_waits(plugin.db);
  if (Session *session = Session::find(thd)) session->kill();
}

/* --- recovery --- */

int remember_xid(void *context, tidesdb_slice bytes) {
  XID xid;
  if (decode_xid(bytes, &xid))
    static_cast<std::vector<XID> *>(context)->push_back(xid);
  else
    sql_print_error("TidesDB: a prepared transaction has an identifier of %zu bytes that is not ours",
                    bytes.size);
  return 0;
}

/* The server asks in portions, until one is not full, and then starts again from the beginning. */
struct RecoveryList {
  std::mutex mutex;
  std::vector<XID> xids;
  size_t next = 0;
};
RecoveryList recovery;

int recover(XID *list, uint length) {
  if (!plugin.db) return 0;
  std::lock_guard<std::mutex> guard(recovery.mutex);
  if (recovery.next == 0) {
    recovery.xids.clear();
    if (tidesdb_prepared_list(plugin.db, remember_xid, &recovery.xids) != TIDESDB_OK) {
      sql_print_error("TidesDB: prepared transactions: %s", tidesdb_last_error());
      return 0;
    }
    if (!opt_bin_log) cluster::decide_prepared(&recovery.xids);
  }
  uint count = 0;
  while (count < length && recovery.next < recovery.xids.size())
    list[count++] = recovery.xids[recovery.next++];
  if (count < length) recovery.next = 0;
  return static_cast<int>(count);
}

/* Answers of the X/Open XA interface, which the server gives on to clients. */
constexpr int XAER_NOTA = -4;   /* no such transaction */
constexpr int XAER_RMFAIL = -7; /* the engine cannot answer now */

int xa_answer(int status, const char *what) {
  if (status == TIDESDB_OK) return 0;
  if (status == TIDESDB_NOT_FOUND) return XAER_NOTA;
  sql_print_error("TidesDB: %s: %s", what, tidesdb_last_error());
  /* The server keeps the identifier only when it sees an error. */
  my_printf_error(ER_XAER_RMERR, "TidesDB: %s: %s", MYF(0), what, tidesdb_last_error());
  return XAER_RMFAIL;
}

int commit_by_xid(XID *xid) {
  EncodedXid encoded;
  encode_xid(*xid, &encoded);
  note_decision(encoded.bytes, encoded.size);
  Session::hear_shutdown(current_thd);
  const int status = cluster::commit_decided(*xid, encoded);
  if (status == TIDESDB_OK) ChangedTables::commit_prepared(encoded.bytes, encoded.size);
  return xa_answer(status, "commit of a prepared transaction");
}

int rollback_by_xid(XID *xid) {
  EncodedXid encoded;
  encode_xid(*xid, &encoded);
  Session::hear_shutdown(current_thd);
  const int status = tidesdb_rollback_by_xid(plugin.db, encoded.bytes, encoded.size);
  if (status == TIDESDB_OK) ChangedTables::forget_prepared(encoded.bytes, encoded.size);
  return xa_answer(status, "rollback of a prepared transaction");
}

/* --- durability --- */

struct CheckpointRequest {
  void *cookie;
  /* RESET MASTER waits for the answer, and then removes the binary logs. */
  bool waits;
};

/*
  After a failure of the log a request is not answered: the binary log keeps what recovery needs to decide
  the transactions whose commit may be lost. Rotation and purging live with that. RESET MASTER does not: it
  waits without end, for nothing can interrupt it, with the binary log locked for everybody; and an answer
  would let it remove those files. The restart that the engine needs anyway is the way out.
*/
void checkpoint_failed(const CheckpointRequest &request, const char *why) {
  sql_print_error("TidesDB: a checkpoint of the binary log is not answered: %s", why);
  if (!request.waits) return;
  sql_print_error(
      "TidesDB: RESET MASTER would remove binary logs that recovery needs after the failure of TidesDB's "
      "log; the server ends here, a restart recovers, and then RESET MASTER can be repeated");
  abort();
}

void checkpoint_done(void *context, int status) {
  std::unique_ptr<CheckpointRequest> request(static_cast<CheckpointRequest *>(context));
  if (status == TIDESDB_OK)
    commit_checkpoint_notify_ha(request->cookie);
  else
    checkpoint_failed(*request, tidesdb_last_error());
}

void commit_checkpoint_request(void *cookie) {
  const THD *thd = current_thd;
  const int command = thd ? thd_sql_command(thd) : SQLCOM_END;
  /* SET GLOBAL gtid_binlog_state resets too. */
  const bool waits = command == SQLCOM_RESET || command == SQLCOM_SET_OPTION;
  std::unique_ptr<CheckpointRequest> request(new (std::nothrow) CheckpointRequest{cookie, waits});
  if (!request) {
    checkpoint_failed({cookie, waits}, "out of memory");
    return;
  }
  if (tidesdb_checkpoint_request(plugin.db, request.get(), checkpoint_done) == TIDESDB_OK)
    (void)request.release(); /* the call of checkpoint_done frees it, or has done so */
  else
    checkpoint_failed(*request, tidesdb_last_error());
}

bool flush_logs(handlerton *) {
  if (!plugin.db) return false;
  offer_moment(current_thd);
  if (cluster::donate(current_thd)) return true;
  if (tidesdb_flush_log(plugin.db) == TIDESDB_OK) return false;
  sql_print_error("TidesDB: FLUSH LOGS: %s", tidesdb_last_error());
  return true;
}

/*
  Connections and appliers are gone; the server closes its coordinator's log next. Closed in order, that log
  says that no transaction waits for it. After a failure of TidesDB's log some do: the next start would find
  them prepared, and ask for tc-heuristic-recover. Also, the binary log would wait without end for checkpoints
  that are never answered. An end without that step is a crash, and recovery decides each transaction by the
  log.
*/
void pre_shutdown() {
  cluster::note_last_position();
  if (!plugin.db || tidesdb_flush_log(plugin.db) == TIDESDB_OK) return;
  sql_print_error(
      "TidesDB: %s; the server ends here without closing the binary log, and the next start recovers by it",
      tidesdb_last_error());
  _exit(EXIT_FAILURE);
}

}  // namespace

void register_transaction_calls(handlerton *hton) {
  hton->close_connection = hton_call<close_connection>;
  hton->prepare = hton_call<prepare>;
  hton->commit_ordered = hton_call<commit_ordered>;
  hton->commit = hton_call<commit>;
  hton->rollback = hton_call<rollback>;
  hton->savepoint_offset = Session::savepoint_size;
  hton->savepoint_set = hton_call<savepoint_set>;
  hton->savepoint_rollback = hton_call<savepoint_rollback>;
  hton->savepoint_rollback_can_release_mdl = hton_call<savepoint_rollback_can_release_mdl>;
  hton->savepoint_release = hton_call<savepoint_release>;
  hton->start_consistent_snapshot = hton_call<start_consistent_snapshot>;
  hton->kill_query = kill_query;
  hton->recover = hton_call<recover>;
  hton->commit_by_xid = hton_call<commit_by_xid>;
  hton->rollback_by_xid = hton_call<rollback_by_xid>;
  hton->commit_checkpoint_request = commit_checkpoint_request;
  hton->flush_logs = flush_logs;
  hton->prepare_for_backup = note_backup_without_store;
  hton->pre_shutdown = pre_shutdown;
}

}  // namespace tidesdb

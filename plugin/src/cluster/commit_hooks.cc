#include "cluster/commit_hooks.h"

#include "cluster/wsrep_service.h"

#include "log.h"
#include "sql_class.h"

#include "wsrep_trans_observer.h"

#include "cluster/participation.h"
#include "cluster/position.h"
#include "mutant.h"
#include "txn/session.h"

namespace tidesdb::cluster {

namespace {

using Transaction = wsrep::transaction;

bool is_flagged(const Ha_trx_info *of) {
  return of->is_trx_read_write() && of->ht()->flags & HTON_WSREP_REPLICATION;
}

/* Whether another engine has changes in the transaction. While engines commit, the server clears the entries
   of those that have, with the way to the rest. */
bool has_others(THD *thd) {
  const THD_TRANS &all = thd->transaction->all;
  for (const Ha_trx_info *info = all.ha_list ? all.ha_list : thd->transaction->stmt.ha_list;
       info && info->is_started(); info = info->next())
    if (is_flagged(info)) return true;
  return false;
}

/* Not where another engine came first: the server has run the hooks for it. A transaction of another node is
   certified from its beginning. */
bool hooks_are_to_run(const THD *thd) {
  if (wsrep_thd_is_local(thd)) return !thd->wsrep_trx().certified() || MUTANT(HooksAgain);
  const auto state = thd->wsrep_trx().state();
  return state == Transaction::s_executing || state == Transaction::s_replaying;
}

/* Prepares the engines with the flag that come after this one, and moves them before it. */
int prepare_others(THD *thd, bool all) {
  THD_TRANS *transaction = all ? &thd->transaction->all : &thd->transaction->stmt;
  struct Part {
    Ha_trx_info *info;
    TransactionParticipant *engine;
    bool writes, no_rollback;
  };
  std::vector<Part> before, moved, after;
  bool passed = false;
  Part own{};
  for (Ha_trx_info *info = transaction->ha_list; info; info = info->next()) {
    const Part part{info, info->ht(), info->is_trx_read_write(), info->is_trx_no_rollback()};
    if (part.engine == participant()) {
      own = part;
      passed = true;
    } else if (!passed) {
      before.push_back(part);
    } else {
      (is_flagged(info) ? moved : after).push_back(part);
    }
  }
  if (moved.empty()) return 0;
  for (const Part &part : moved)
    if (const int error = prepare_in(part.engine, thd, all)) return error;
  std::vector<Part> parts = before;
  parts.insert(parts.end(), moved.begin(), moved.end());
  parts.push_back(own);
  parts.insert(parts.end(), after.begin(), after.end());
  for (const Part &part : parts) part.info->reset();
  transaction->ha_list = nullptr;
  /* Each goes to the head of the list. */
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    part->info->register_ha(transaction, part->engine);
    if (part->writes) part->info->set_trx_read_write();
    if (part->no_rollback) part->info->set_trx_no_rollback();
  }
  return 0;
}

}  // namespace

bool is_certified(const THD *thd) {
  if (!WSREP_NNULL(thd) || !wsrep_thd_is_local(thd)) return false;
  mysql_mutex_lock(&thd->LOCK_thd_data);
  const wsrep::transaction &transaction = thd->wsrep_trx();
  const auto state = transaction.state();
  const bool certified = transaction.active() && transaction.certified() &&
                         state != Transaction::s_aborting && state != Transaction::s_must_abort &&
                         state != Transaction::s_must_replay;
  mysql_mutex_unlock(&thd->LOCK_thd_data);
  return certified;
}

void end_after_failed_commit(const THD *thd) {
  sql_print_error(
      "TidesDB: the other nodes of the cluster have transaction %lld of thread %llu, and this one cannot "
      "commit it: %s; the server ends here, and the next start gets it from them",
      wsrep_thd_trx_seqno(thd), static_cast<ulonglong>(thd_get_thread_id(thd)), tidesdb_last_error());
  abort();
}

int prepare(THD *thd, Session *session, bool all, bool real) {
  if (!real || !session->writes()) return session->prepare(real);
  if (!wsrep_run_commit_hook(thd, all)) return session->prepare(real);
  const bool runs_hooks = hooks_are_to_run(thd);
  if (runs_hooks) {
    if (const int error = session->ready()) return error;
    if (wsrep_before_prepare(thd, all)) return HA_ERR_LOCK_DEADLOCK;
  }
  session->hear_no_kill();
  int error = runs_hooks ? prepare_others(thd, all) : 0;
  if (error == 0) error = session->prepare(real);
  if (error != 0) {
    if (is_certified(thd)) end_after_failed_commit(thd);
    return error;
  }
  return runs_hooks && wsrep_after_prepare(thd, all) ? HA_ERR_LOCK_DEADLOCK : 0;
}

bool has_innodb(THD *thd) {
  const handlerton *innodb = ha_resolve_by_legacy_type(thd, DB_TYPE_INNODB);
  return innodb && thd->ha_data[innodb->slot].ha_info[1].is_started();
}

void before_binary_log(THD *thd, bool) {
  const Session *session = Session::find(thd);
  if (session && session->is_prepared()) write_innodb_before_binary_log(thd, !has_others(thd));
}

/* InnoDB may have committed its changes already where there are none here. */
bool before_order(THD *thd, tidesdb_txn *txn) {
  return note_position(thd, txn, tidesdb_txn_has_writes(txn) && !has_others(thd));
}

bool is_in_order(THD *thd, bool alone) { return has_position(thd) && !(alone && has_others(thd)); }

OrderLock::OrderLock() { mysql_mutex_lock(&LOCK_commit_ordered); }
OrderLock::~OrderLock() { mysql_mutex_unlock(&LOCK_commit_ordered); }

void leave_commit_order(THD *thd) {
  if (WSREP_NNULL(thd)) wsrep_commit_ordered(thd);
}

int rollback_to_savepoint(THD *thd, Session *session, bool real) {
  /* The hooks end the transaction in the provider. Changes of others are in it, and stay. */
  if (!WSREP_NNULL(thd) || has_others(thd) || MUTANT(SavepointStays)) return session->rollback(real);
  wsrep_before_rollback(thd, real);
  const int error = session->rollback(real);
  wsrep_after_rollback(thd, real);
  return error;
}

}  // namespace tidesdb::cluster

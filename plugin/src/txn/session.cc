/*
  Session: begin, statements, prepare, order, commit, rollback (docs/protocols.md section 2; the server's
  calls: docs/server-contract.md section 2).
*/
#include "txn/session.h"

#include <mysql/plugin.h>

#include <ctime>
#include <mutex>

#include "debug.h"
#include "log.h"
#include "sql_class.h"
#include "sys_vars_shared.h"

#include "cluster/commit_hooks.h"
#include "cluster/position.h"
#include "cluster/participation.h"
#include "ddl/table_path.h"
#include "mutant.h"
#include "store/store.h"
#include "sysvars.h"
#include "txn/applier.h"
#include "txn/wait_observer.h"
#include "txn/xid.h"

namespace tidesdb {

/* Transactions of one connection: its first number has so many zero bits at the end. */
constexpr int TRANSACTION_NUMBER_BITS = 40;

static ulonglong first_number_of_a_session() {
  static std::atomic<ulonglong> sessions{0};
  return (sessions.fetch_add(1, std::memory_order_relaxed) + 1) << TRANSACTION_NUMBER_BITS;
}

Session::Session(THD *thd, ulonglong first_number)
    : thd_(thd), ticket_(thd), transaction_number_(first_number), changed_tables_(first_number) {}

Session *Session::find(const THD *thd) { return static_cast<Session *>(thd_get_ha_data(thd, plugin.hton)); }

Session *Session::get(THD *thd) {
  if (Session *session = find(thd)) return session;
  std::unique_ptr<Session> session(new (std::nothrow) Session(thd, first_number_of_a_session()));
  if (!session || create_txn(plugin.db, &session->txn_) != TIDESDB_OK) return nullptr;
  tidesdb_txn_set_cookie(session->txn(), thd);
  tidesdb_txn_set_session(session->txn(), thd_get_thread_id(thd));
  thd_set_ha_data(thd, plugin.hton, session.get());
  watch_connection(thd, session.get());
  return session.release();
}

void Session::hear_shutdown(THD *thd) {
  /* At a start the server cannot hear of a shutdown, and may have no place for a session yet. */
  if (!thd || !plugin.ddl_recovery_done) return;
  get(thd);
  /* The connection was told before it had a session. */
  if (abort_loop) tidesdb_end_log_waits(plugin.db);
}

void Session::close(THD *thd) {
  Session *session = find(thd);
  if (!session) return;
  forget_connection(thd, session);
  thd_set_ha_data(thd, plugin.hton, nullptr);
  delete session;
}

Session::~Session() {
  /* Freeing one that XA PREPARE answered leaves it with the engine. */
  if (state_ != State::IDLE && state_ != State::XA_PREPARED) tidesdb_txn_rollback(txn());
}

bool Session::in_multi_statement_transaction() const {
  return thd_test_options(thd_, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN) != 0;
}

int Session::level_for(THD *thd, int table_level) {
  switch (thd_tx_isolation(thd)) {
    case ISO_READ_UNCOMMITTED:
      return TIDESDB_READ_UNCOMMITTED;
    case ISO_READ_COMMITTED:
      return TIDESDB_READ_COMMITTED;
    case ISO_SERIALIZABLE:
      return TIDESDB_SERIALIZABLE;
    default:
      return table_level;
  }
}

int Session::begin(int level) {
  unsigned flags = 0;
  const bool multi = in_multi_statement_transaction();
  /* Certification has decided on conflicts: one found at the commit would come too late. */
  optimistic_ = !sysvars::pessimistic_locking() && !cluster::takes_part();
  if (optimistic_) flags |= TIDESDB_TXN_OPTIMISTIC;
  if (!multi) flags |= TIDESDB_TXN_AUTOCOMMIT;
  /* Rows that the primary changed in time may have expired when the change arrives. */
  if (is_applier(thd_)) flags |= TIDESDB_TXN_SEES_EXPIRED;
  if (is_in_group(thd_)) flags |= TIDESDB_TXN_ORDERED_WAITS;
  if (cluster::goes_first(thd_) && !MUTANT(PriorityUnset)) flags |= TIDESDB_TXN_PRIORITY;
  isolation_ = level;
  names_snapshot_ = may_pass_snapshot_ = may_have_passed_snapshot_ = false;
  ticket_.enter();
  const int status = tidesdb_txn_begin(txn(), level, flags);
  if (status != TIDESDB_OK) {
    ticket_.leave();
    return fail(status);
  }
  if (is_in_group(thd_)) tidesdb_txn_set_preference(txn(), survival_wish(thd_));
  state_ = State::ACTIVE;
  next_transaction_number();
  holder_statement_.clear();
  return 0;
}

/* innodb_lock_wait_timeout: NOWAIT and WAIT n set it for the statement, and users know it. */
static ulonglong innodb_timeout_ms(THD *thd) {
  static std::atomic<sys_var *> variable{nullptr};
  sys_var *found = variable.load(std::memory_order_relaxed);
  if (!found) {
    static const char name[] = "innodb_lock_wait_timeout";
    found = intern_find_sys_var(name, sizeof(name) - 1);
    if (!found) return TIDESDB_NO_TIMEOUT;
    variable.store(found, std::memory_order_relaxed);
  }
  const uchar *value = found->value_ptr(thd, OPT_SESSION, &null_clex_str);
  const ulonglong seconds = value ? *reinterpret_cast<const uint *>(value) : 100000000;
  return seconds >= 100000000 ? TIDESDB_NO_TIMEOUT : seconds * 1000;
}

ulonglong Session::lock_timeout_ms(THD *thd) {
  if (cluster::goes_first(thd)) return TIDESDB_NO_TIMEOUT;
  const ulonglong own = sysvars::lock_wait_timeout_ms(thd);
  ulonglong timeout = own == 0 ? TIDESDB_NO_TIMEOUT : own;
  timeout = std::min(timeout, static_cast<ulonglong>(thd->variables.lock_wait_timeout) * 1000);
  return std::min(timeout, innodb_timeout_ms(thd));
}

void Session::set_lock_timeout() {
  const ulonglong timeout = lock_timeout_ms(thd_);
  if (timeout == lock_timeout_ms_) return;
  lock_timeout_ms_ = timeout;
  tidesdb_txn_set_lock_timeout(txn(), timeout);
}

void Session::renew_kill() {
  tidesdb_txn_clear_kill(txn());
  if (hears_no_kill_) return;
  /* One that came before the call is seen here; one that comes now goes to kill(). */
  if (thd_kill_level(thd_) != THD_IS_NOT_KILLED) tidesdb_txn_kill(txn());
}

/*
  Each statement goes by the variable as it is then, a statement of a function too: so does InnoDB. A table
  with ISOLATION_LEVEL=SNAPSHOT asks for the comparison by name.
*/
void Session::set_snapshot_isolation(int level) {
  names_snapshot_ |= level == TIDESDB_SNAPSHOT;
  const bool newest = !names_snapshot_ && !sysvars::snapshot_conflicts(thd_);
  if (newest == may_pass_snapshot_) return;
  may_pass_snapshot_ = newest;
  may_have_passed_snapshot_ |= newest;
  if (newest_reads_ != 0) return;
  tidesdb_txn_set_snapshot_isolation(txn(), !newest);
}

int Session::enter_statement(int level, bool may_write) {
  if (state_ == State::ABORTED) return HA_ERR_ROLLBACK;
  if (statement_open_) {
    set_snapshot_isolation(level);
    if (level == TIDESDB_SNAPSHOT && isolation_ == TIDESDB_REPEATABLE_READ)
      if (const int status = tidesdb_txn_take_snapshot(txn())) return fail(status);
    return 0;
  }
  const bool multi = in_multi_statement_transaction();
  trans_register_ha(thd_, false, cluster::participant(), 0);
  if (multi) trans_register_ha(thd_, true, cluster::participant(), 0);
  if (state_ == State::IDLE)
    if (const int error = begin(level)) return error;
  set_lock_timeout();
  set_snapshot_isolation(level);
  /* An applier that gave up would only be repeated, ten times, and then stop the replica. */
  const ulonglong patience =
      is_applier(thd_) ? TIDESDB_NO_TIMEOUT : sysvars::backpressure_wait_timeout_ms(thd_);
  renew_kill();
  const int status = tidesdb_txn_statement_begin(txn(), may_write && !is_in_turn(thd_), patience);
  if (status != TIDESDB_OK) return fail(status);
  statement_open_ = true;
  changed_tables_.begin_statement();
  if (level == TIDESDB_SNAPSHOT && isolation_ == TIDESDB_REPEATABLE_READ)
    if (const int error = tidesdb_txn_take_snapshot(txn())) return fail(error);
  return 0;
}

int Session::start_snapshot() {
  if (state_ != State::IDLE) return 0;
  trans_register_ha(thd_, true, cluster::participant(), 0);
  const int level = level_for(thd_, TIDESDB_REPEATABLE_READ);
  if (const int error = begin(level)) return error;
  if (level == TIDESDB_READ_UNCOMMITTED || level == TIDESDB_READ_COMMITTED) {
    push_warning(thd_, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                 "TidesDB: WITH CONSISTENT SNAPSHOT is ignored below REPEATABLE READ");
    return 0;
  }
  /* The server holds its order lock: at what it has ordered, the binary log's position stands. */
  const int status = tidesdb_txn_take_ordered_snapshot(txn());
  return status == TIDESDB_OK ? 0 : fail(status);
}

int Session::lock_definition(tidesdb_family *family) {
  set_lock_timeout();
  const unsigned flags = cluster::goes_first(thd_) ? unsigned{TIDESDB_TXN_PRIORITY} : 0;
  const int status =
      definition_locks_++ == 0 ? tidesdb_txn_begin(txn(), TIDESDB_READ_COMMITTED, flags) : TIDESDB_OK;
  /* KILL ends a wait. It does not keep a free lock away: the server may be in the middle of many renames, of
     which it undoes those that are done, or goes on, also when the statement was killed. */
  renew_kill();
  return status == TIDESDB_OK ? tidesdb_lock_table(txn(), family, TIDESDB_LOCK_EXCLUSIVE) : status;
}

int Session::try_lock_table(tidesdb_family *family, int mode) {
  tidesdb_txn_set_lock_timeout(txn(), TIDESDB_NO_WAIT);
  const int status = tidesdb_lock_table(txn(), family, mode);
  tidesdb_txn_set_lock_timeout(txn(), lock_timeout_ms_);
  return status;
}

int Session::watch_copied(const std::string &family_name) {
  const int status = copy_guard_.begin(thd_, family_name);
  return status == TIDESDB_OK ? 0 : fail(status);
}

int Session::savepoint_set(void *savepoint) {
  if (state_ != State::ACTIVE) return HA_ERR_ROLLBACK;
  uint64_t id = 0;
  const int status = tidesdb_txn_savepoint_set(txn(), &id);
  const uint64_t parts[] = {id, changed_tables_.mark(),
                            cluster::replicates(thd_) && cluster::has_innodb(thd_)};
  static_assert(sizeof parts == savepoint_size);
  memcpy(savepoint, parts, sizeof parts);
  return status == TIDESDB_OK ? 0 : fail(status);
}

int Session::savepoint_rollback(const void *savepoint) {
  if (state_ != State::ACTIVE) return HA_ERR_ROLLBACK;
  uint64_t parts[3];
  memcpy(parts, savepoint, sizeof parts);
  note_removal();
  if (cluster::replicates(thd_) && parts[2] == 0 && cluster::has_innodb(thd_)) {
    my_printf_error(
        ER_LOCK_DEADLOCK,
        "TidesDB: InnoDB has joined the transaction since the savepoint, and Galera cannot undo its part "
        "alone: the whole transaction is rolled back",
        MYF(0));
    thd_->mark_transaction_to_rollback(true);
    state_ = State::ABORTED;
    return HA_ERR_LOCK_DEADLOCK;
  }
  const int status = tidesdb_txn_savepoint_rollback(txn(), parts[0]);
  if (status != TIDESDB_OK) return fail(status);
  changed_tables_.cut(parts[1]);
  return 0;
}

void Session::savepoint_release(const void *savepoint) {
  uint64_t id = 0;
  memcpy(&id, savepoint, sizeof id);
  tidesdb_txn_savepoint_release(txn(), id);
}

void Session::end_statement() {
  if (!statement_open_) return;
  tidesdb_txn_statement_end(txn());
  statement_open_ = false;
}

/* A copy that is not what its table is fails. */
int Session::end_copy() {
  if (state_ != State::ACTIVE) return 0;
  if (copy_error_ != 0) {
    const int error = copy_error_;
    if (!thd_->is_error()) say_commit_error(error, copy_error_text_.c_str());
    rollback_all();
    return error;
  }
  if (copy_guard_.is_empty()) return 0;
  const bool missed = copy_guard_.has_missed_something(txn());
  lock_timeout_ms_ = ~0ULL - 1;
  copy_guard_.clear();
  if (!missed) return 0;
  my_printf_error(
      ER_UNKNOWN_ERROR,
      "TidesDB: a prepared XA transaction whose connection is gone, or a commit that failed, changed "
      "the table while it was copied; end it (XA RECOVER) and repeat the statement, or use "
      "LOCK=SHARED",
      MYF(0));
  rollback_all();
  return HA_ERR_GENERIC;
}

int Session::may_prepare() {
  if (const int error = end_copy()) return error;
  return state_ == State::ABORTED ? HA_ERR_ROLLBACK : 0;
}

int Session::ready() {
  if (const int error = may_prepare()) return error;
  if (!writes()) return 0;
  renew_kill();
  const int status = tidesdb_txn_ready(txn());
  return status == TIDESDB_OK ? 0 : commit_failed(status);
}

int Session::prepare(bool real) {
  if (!real) return 0; /* a statement's end: commit(thd, false) follows */
  if (const int error = may_prepare()) return error;
  if (!writes()) return 0;
  renew_kill();
  ticket_.leave();
  EncodedXid xid;
  encode_session_xid(thd_, &xid);
  const auto call =
      cluster::needs_no_synced_prepare(thd_) ? tidesdb_txn_prepare_written : tidesdb_txn_prepare;
  const int status = call(txn(), xid.bytes, xid.size);
  if (status != TIDESDB_OK) return commit_failed(status);
  state_ = State::PREPARED;
  return 0;
}

int Session::prepare_xa() {
  if (state_ == State::ABORTED) return HA_ERR_ROLLBACK;
  if (state_ != State::ACTIVE) return 0;
  end_statement();
  renew_kill();
  ticket_.leave();
  EncodedXid xid;
  encode_session_xid(thd_, &xid);
  const int status = tidesdb_txn_prepare_dormant(txn(), xid.bytes, xid.size);
  if (status != TIDESDB_OK) return commit_failed(status);
  changed_tables_.prepare(xid.bytes, xid.size);
  state_ = State::XA_PREPARED;
  return 0;
}

void Session::order() {
  if (state_ != State::PREPARED) return;
  if (cluster::takes_part()) in_cluster_order_ = cluster::before_order(thd_, txn());
  tidesdb_txn_order(txn());
  state_ = State::ORDERED;
  if (cluster::takes_part()) cluster::leave_commit_order(thd_);
}

void Session::hear_no_kill() {
  if (MUTANT(KillAfterCertification)) return my_sleep(MUTANT_DELAY);
  mysql_mutex_lock(&thd_->LOCK_thd_data);
  hears_no_kill_ = true;
  tidesdb_txn_clear_kill(txn());
  mysql_mutex_unlock(&thd_->LOCK_thd_data);
}

void Session::leave_cluster_order() {
  in_cluster_order_ = false;
  mysql_mutex_lock(&thd_->LOCK_thd_data);
  hears_no_kill_ = false;
  mysql_mutex_unlock(&thd_->LOCK_thd_data);
}

int Session::finish(bool defer_sync) {
  const int status = tidesdb_txn_finish(txn(), defer_sync);
  if (status == TIDESDB_OK) changed_tables_.commit();
  if (status != TIDESDB_OK && in_cluster_order_) cluster::end_after_failed_commit(thd_);
  end();
  return status == TIDESDB_OK ? 0 : commit_failed(status);
}

void Session::order_alone() {
  if (!cluster::takes_part()) {
    tidesdb_txn_order(txn());
    thd_wakeup_subsequent_commits(thd_, 0);
    return;
  }
  if (MUTANT(OrderLeftFirst)) {
    cluster::leave_commit_order(thd_);
    my_sleep(MUTANT_DELAY);
  }
  {
    const cluster::OrderLock lock;
    in_cluster_order_ = cluster::before_order(thd_, txn());
    tidesdb_txn_order(txn());
  }
  thd_wakeup_subsequent_commits(thd_, 0);
  if (MUTANT(OrderLeftFirst)) return;
  if (MUTANT(OrderLeftUnwritten)) {
    cluster::leave_commit_order(thd_);
    return my_sleep(MUTANT_DELAY);
  }
  if (tidesdb_txn_wait_written(txn()) == TIDESDB_OK)
    cluster::leave_commit_order(thd_);
  else if (in_cluster_order_)
    cluster::end_after_failed_commit(thd_);
}

int Session::commit(bool real) {
  if (!real) {
    end_statement();
    return 0;
  }
  if (const int error = end_copy()) return error;
  int status = TIDESDB_OK;
  switch (state_) {
    case State::IDLE:
      return 0;
    case State::ABORTED:
      rollback_all();
      return HA_ERR_ROLLBACK;
    case State::ORDERED:
      /* Only the binary log decides after a crash: tc.log is written and never looked up
         (docs/server-contract.md 3). */
      return finish(!thd_->is_current_stmt_binlog_disabled());
    case State::ACTIVE:
      if (!tidesdb_txn_has_writes(txn())) {
        if (!cluster::takes_part() || !cluster::is_in_order(thd_, true)) {
          status = tidesdb_txn_commit(txn());
          end();
          return status == TIDESDB_OK ? 0 : commit_failed(status);
        }
        cluster::before_order(thd_, txn());
      }
      if (cluster::takes_part() && cluster::is_in_order(thd_, false)) hear_no_kill();
      renew_kill();
      ticket_.leave();
      status = tidesdb_txn_prepare(txn(), nullptr, 0);
      if (status != TIDESDB_OK) {
        if (cluster::takes_part() && cluster::is_certified(thd_)) cluster::end_after_failed_commit(thd_);
        const int error = commit_failed(status);
        rollback_all();
        return error;
      }
      break;
    case State::PREPARED:
      break;
    case State::XA_PREPARED:
      if (const int error = resume_xa()) return error;
      break;
  }
  order_alone();
  return finish(false);
}

/* The session goes on with another transaction. Freeing one that is prepared leaves it with the engine. */
static bool leave_to_engine(THD *thd, TxnHandle *txn) {
  TxnHandle fresh;
  if (create_txn(plugin.db, &fresh) != TIDESDB_OK) return false;
  tidesdb_txn_set_cookie(fresh.get(), thd);
  tidesdb_txn_set_session(fresh.get(), thd_get_thread_id(thd));
  mysql_mutex_lock(&thd->LOCK_thd_data); /* kill_query comes under it */
  std::swap(*txn, fresh);
  mysql_mutex_unlock(&thd->LOCK_thd_data);
  return true;
}

int Session::resume_xa() {
  const int status = tidesdb_txn_resume(txn());
  if (status == TIDESDB_OK) return 0;
  const int error = commit_failed(status);
  /* The server forgets the transaction with this answer; the engine keeps it for a decision by identifier. */
  sql_print_error("TidesDB: XA COMMIT failed, the transaction is still prepared: %s", tidesdb_last_error());
  if (!leave_to_engine(thd_, &txn_)) return error;
  lock_timeout_ms_ = ~0ULL - 1;
  changed_tables_.leave_prepared();
  end();
  return error;
}

int Session::rollback_all() {
  const bool is_prepared = state_ == State::PREPARED || state_ == State::XA_PREPARED;
  const int status = tidesdb_txn_rollback(txn());
  if (status != TIDESDB_OK && is_prepared) {
    sql_print_error("TidesDB: a rollback failed, the transaction is still prepared: %s",
                    tidesdb_last_error());
    if (leave_to_engine(thd_, &txn_)) {
      lock_timeout_ms_ = ~0ULL - 1;
      changed_tables_.leave_prepared();
    }
  }
  end();
  return status == TIDESDB_OK ? 0 : map_status(status, optimistic_).code;
}

int Session::rollback(bool real) {
  if (state_ == State::IDLE) return 0;
  if (real) return rollback_all();
  if (state_ == State::ABORTED || !statement_open_) return 0;
  note_removal();
  copy_error_ = 0;
  const int status = tidesdb_txn_statement_rollback(txn());
  changed_tables_.undo_statement();
  end_statement();
  return status == TIDESDB_OK ? 0 : fail(status);
}

void Session::report_conflict(int status) {
  if (status == TIDESDB_DEADLOCK && reported_deadlock_.exchange(false)) return;
  if (!sysvars::print_all_conflicts()) return;
  sql_print_information("TidesDB: %s: thread %llu: '%.*s' met %s", tidesdb_strerror(status),
                        static_cast<ulonglong>(thd_get_thread_id(thd_)),
                        static_cast<int>(std::min<size_t>(thd_->query_length(), 1024)),
                        thd_->query() ? thd_->query() : "",
                        holder_statement_.empty() ? "a committed change" : holder_statement_.c_str());
}

/* Damage is in the error log with its table, once a minute for each place: a scan may meet it again and
 * again. */
static void report_damage(const std::string &table, const char *error) {
  static constexpr time_t PAUSE = 60;
  static std::mutex mutex;
  static std::string last;
  static time_t reported = 0;
  std::string text = error;
  if (!table.empty()) {
    const TableNames names = table_names(table);
    text = "`" + names.schema + "`.`" + names.table + "`: " + text;
  }
  const time_t now = time(nullptr);
  const std::lock_guard<std::mutex> guard(mutex);
  if (text == last && now - reported < PAUSE) return;
  last = text;
  reported = now;
  sql_print_error("TidesDB: %s", text.c_str());
}

int Session::fail(int status, const std::string &table) {
  const MappedError mapped = map_status(status, optimistic_);
  error_text_.clear();
  switch (status) {
    case TIDESDB_BACKPRESSURE:
      push_warning_printf(
          thd_, Sql_condition::WARN_LEVEL_NOTE, ER_LOCK_WAIT_TIMEOUT,
          "TidesDB: back-pressure: writing was held back for tidesdb_backpressure_wait_timeout_ms: %s",
          tidesdb_last_error());
      break;
    case TIDESDB_CORRUPTION:
      report_damage(table, tidesdb_last_error());
      break;
    case TIDESDB_CONFLICT:
    case TIDESDB_DEADLOCK:
      report_conflict(status);
      break;
    default:
      break;
  }
  if (mapped.code >= ERROR_WITH_TEXT) error_text_ = tidesdb_last_error();
  if (mapped.code == ERROR_TOO_LARGE) error_text_ += " (XA RECOVER lists them)";
  if (mapped.code == ERROR_NO_MEMORY)
    error_text_ += " (tidesdb_max_memory_usage, less twice tidesdb_unified_memtable_write_buffer_size)";
  switch (mapped.rollback_scope) {
    case RollbackScope::NONE:
      break;
    case RollbackScope::STATEMENT:
      thd_->mark_transaction_to_rollback(false);
      break;
    case RollbackScope::TRANSACTION:
      thd_->mark_transaction_to_rollback(true);
      if (state_ == State::ACTIVE) state_ = State::ABORTED;
      break;
  }
  return mapped.code;
}

int Session::commit_failed(int status) {
  note_failed_commit();
  const MappedError mapped = map_status(status, optimistic_);
  if (mapped.code == HA_ERR_LOCK_DEADLOCK || mapped.code == HA_ERR_RECORD_CHANGED) report_conflict(status);
  say_commit_error(mapped.code, tidesdb_last_error());
  return mapped.code;
}

void Session::say_commit_error(int error, const char *text) {
  switch (error) {
    case HA_ERR_LOCK_DEADLOCK:
      my_error(ER_LOCK_DEADLOCK, MYF(0));
      break;
    case HA_ERR_RECORD_CHANGED:
      my_error(ER_CHECKREAD, MYF(0), "");
      break;
    case HA_ERR_LOCK_WAIT_TIMEOUT:
      my_error(ER_LOCK_WAIT_TIMEOUT, MYF(0));
      break;
    case HA_ERR_ABORTED_BY_USER:
      thd_->send_kill_message();
      break;
    case HA_ERR_DISK_FULL:
      my_error(ER_DISK_FULL, MYF(0), text, ENOSPC);
      break;
    default:
      my_error(ER_GET_ERRMSG, MYF(0), error, text, "TidesDB");
      break;
  }
}

}  // namespace tidesdb

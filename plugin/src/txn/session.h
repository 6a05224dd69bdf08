/*
  A connection's transaction in the engine.

  One Session stands with each THD (thd_set_ha_data) and keeps one engine transaction, which is begun by
  the first statement that uses a table and ended by the server's commit or rollback. A Session is used by
  its connection's thread, with two exceptions that the server makes: order() may come from the thread
  that leads a group commit while the owner waits for it, and kill() from any thread.

  States:   IDLE -> ACTIVE -> (PREPARED -> (ORDERED)) -> IDLE
            ACTIVE -> XA_PREPARED -> IDLE; when the connection or a replica's applier leaves it there, the
            engine keeps it, locks included, until somebody decides it by its identifier
            ACTIVE -> ABORTED (deadlock, conflict): every call fails with HA_ERR_ROLLBACK until rollback()
*/
#ifndef TIDESDB_TXN_SESSION_H
#define TIDESDB_TXN_SESSION_H

#include <atomic>
#include <string>
#include <vector>

#include "ddl/partitioned_drop.h"
#include "errors.h"
#include "key/sql_headers.h"
#include "store/handles.h"
#include "txn/admission.h"
#include "txn/changed_tables.h"
#include "txn/copy_alter_guard.h"

namespace tidesdb {

class Session {
 public:
  /* The connection's session, made when there is none; nullptr when the engine cannot make one. */
  static Session *get(THD *thd);
  /* The same, without making one. */
  static Session *find(const THD *thd);
  /* Before a call that may wait for room in the log without a kill: a shutdown of the server ends the wait.
     The server tells the engine of it through connections with a session alone. */
  static void hear_shutdown(THD *thd);
  /* Detaches from the THD and frees; what is open is rolled back, what XA PREPARE answered is kept. */
  static void close(THD *thd);

  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
  ~Session();

  tidesdb_txn *txn() const { return txn_.get(); }
  bool is_active() const { return state_ != State::IDLE; }
  /* Level of the running transaction (TIDESDB_READ_COMMITTED, ...). */
  int isolation() const { return isolation_; }
  bool optimistic() const { return optimistic_; }
  /* Another for every transaction of every connection (handlers go from one to the next by the server's
     table cache): what was locked under another number is locked no more. */
  ulonglong transaction_number() const { return transaction_number_.load(std::memory_order_relaxed); }

  /* The level at which a transaction that begins now with a table of `table_level` would run. */
  static int level_for(THD *thd, int table_level);

  /*
    Registers with the server, begins the transaction where none runs, and a statement where none is open.
    `level` is what level_for() says of the table, or that of a copy. Returns 0 or an error for the server.
  */
  int enter_statement(int level, bool may_write);
  /* START TRANSACTION WITH CONSISTENT SNAPSHOT. */
  int start_snapshot();

  /* Whether the transaction has changes to commit. */
  bool writes() const { return state_ == State::ACTIVE && tidesdb_txn_has_writes(txn()); }
  /* Whether the transaction is prepared, for a commit that the server orders. */
  bool is_prepared() const { return state_ == State::PREPARED; }

  /* Before the cluster decides on a transaction: an error, or 0 where nothing but the store keeps it from its
     prepare. The last that waits for other transactions. */
  int ready();
  /* The server's calls; `real`: the transaction ends, else the statement. Return 0 or an error. */
  int prepare(bool real);
  /* XA PREPARE. */
  int prepare_xa();
  void order();
  int commit(bool real);
  int rollback(bool real);
  /* Under LOCK_thd_data of the connection. */
  void kill() {
    if (hears_no_kill_) return;
    tidesdb_txn_kill(txn());
    ticket_.cancel();
  }
  /* The transaction is decided by others (cluster/commit_hooks.h), up to its end. */
  void hear_no_kill();
  /* It will not use a core for a while. */
  void leave_place() { ticket_.leave(); }

  /* Milliseconds for which a statement of the connection waits for a lock, or TIDESDB_NO_TIMEOUT. */
  static ulonglong lock_timeout_ms(THD *thd);
  /* A lock for a change of a table's definition, where no transaction runs: in a transaction of its own, of
     which the server does not know. Returns the engine's status; unlock_definition() ends it in any case. Of
     a table's partitions each may be locked: the last unlock_definition() gives all back. */
  int lock_definition(tidesdb_family *family);
  void unlock_definition() {
    if (--definition_locks_ == 0) tidesdb_txn_rollback(txn());
  }

  /* `savepoint` is the server's storage of savepoint_size bytes. */
  static constexpr uint savepoint_size = 3 * sizeof(uint64_t);
  int savepoint_set(void *savepoint);
  int savepoint_rollback(const void *savepoint);
  void savepoint_release(const void *savepoint);
  /* While one lives, locking reads take the newest version, whether the snapshot has it or not: checks of
     foreign keys, which never answer 1020. */
  class NewestReads {
   public:
    explicit NewestReads(Session *session) : session_(session) {
      if (session_->newest_reads_++ == 0 && !session_->may_pass_snapshot_)
        tidesdb_txn_set_snapshot_isolation(session_->txn(), 0);
    }
    ~NewestReads() {
      if (--session_->newest_reads_ == 0 && !session_->may_pass_snapshot_)
        tidesdb_txn_set_snapshot_isolation(session_->txn(), 1);
    }
    NewestReads(const NewestReads &) = delete;
    NewestReads &operator=(const NewestReads &) = delete;

    /* Rows that were read so are changed, too. */
    void allow_changes() { session_->may_have_passed_snapshot_ = true; }

   private:
    Session *session_;
  };

  /* Actions of foreign keys that are under way: tables below each other. */
  struct Cascade {
    /* Below the statement's row, as InnoDB counts. */
    static constexpr size_t DEEPEST = 15;
    struct Level {
      std::string table; /* canonical */
      bool is_update;
    };
    std::vector<Level> levels;
    /* Text for HA_ERR_NO_REFERENCED_ROW and HA_ERR_ROW_IS_REFERENCED: "`db`.`child`, CONSTRAINT ..." */
    std::string violation;
    /* For HA_ERR_FOREIGN_DUPLICATE_KEY. */
    std::string duplicate_table, duplicate_key;

    bool updates(const std::string &table) const {
      for (const Level &level : levels)
        if (level.is_update && level.table == table) return true;
      return false;
    }
  };
  Cascade &cascade() { return cascade_; }
  /* A row that others may refer to goes, or its insertion may be undone: what a statement found there counts
     no more. */
  void note_removal() { removals_++; }
  ulonglong removals() const { return removals_; }
  /* Whether a row of the transaction's own may not be the one that its snapshot's entries lead to
     (tidesdb_txn_passed_snapshot). */
  bool passed_snapshot() const { return may_have_passed_snapshot_ && tidesdb_txn_passed_snapshot(txn()); }
  bool holds_locks() const { return is_active() && tidesdb_txn_holds_locks(txn()); }

  /* Key number of the last HA_ERR_FOUND_DUPP_KEY. */
  uint duplicate_key() const { return duplicate_key_; }
  void set_duplicate_key(uint key) { duplicate_key_ = key; }

  /* Maps the status of a failed engine call and marks what the server has to roll back. `table`: the
     canonical name, where the call was about one, for the error log. */
  int fail(int status, const std::string &table = std::string());
  /* Fails a statement with a text of ours. */
  int refuse(std::string text) {
    error_text_ = std::move(text);
    return ERROR_WITH_TEXT;
  }
  /* Text for the last ERROR_WITH_TEXT. */
  const std::string &error_text() const { return error_text_; }

  /* ALTER by copy and its like: when the row that the statement has read last expires. A row of another
     engine's table leaves the number of an earlier statement. */
  struct CopiedRow {
    query_id_t statement = 0;
    uint64_t expiry = 0;
  };
  void note_copied_row(query_id_t statement, uint64_t expiry) { copied_row_ = {statement, expiry}; }
  const CopiedRow &copied_row() const { return copied_row_; }

  /* The end of a copy, where the server may not look at the answer: the commit fails, too. */
  void note_failed_copy(int error, const char *text) {
    if (copy_error_ != 0 || state_ == State::IDLE) return;
    copy_error_ = error;
    copy_error_text_ = text;
  }

  /* Tables copied by the statement, alongside writers of others. Returns 0 or an error. */
  int watch_copied(const std::string &family_name);

  /* A lock on a table, if it is free: TIDESDB_LOCK_TIMEOUT where it is not, and nothing has changed. */
  int try_lock_table(tidesdb_family *family, int mode);

  /* Whether this is the first call of the statement. */
  bool is_first_note_of(query_id_t statement) {
    const bool first = noted_ != statement;
    noted_ = statement;
    return first;
  }

  ChangedTables &changed_tables() { return changed_tables_; }
  PartitionedDrop &partitioned_drop() { return partitioned_drop_; }

  /* Words that a statement has read for its new indexes (search/variables.cc). */
  struct StopwordTable {
    query_id_t statement = 0;
    std::string name, list;
  };
  StopwordTable &stopword_table() { return stopword_table_; }

  /* Statements of those that the last wait of this session waited for (tidesdb_print_all_conflicts). */
  void remember_holder(std::string statement) { holder_statement_ = std::move(statement); }
  /* The session is the victim of a deadlock that was reported (txn/deadlocks.h). From any thread. */
  void note_reported_deadlock() { reported_deadlock_.store(true); }

 private:
  enum class State { IDLE, ACTIVE, PREPARED, XA_PREPARED, ORDERED, ABORTED };

  Session(THD *thd, ulonglong first_number);
  /* What keeps the transaction from its commit, before its prepare: an error, or 0. */
  int may_prepare();
  int begin(int level);
  void end() {
    state_ = State::IDLE;
    next_transaction_number();
    statement_open_ = false;
    copy_guard_.clear();
    changed_tables_.clear();
    copy_error_ = 0;
    if (hears_no_kill_ || in_cluster_order_) leave_cluster_order();
    ticket_.leave();
  }
  void leave_cluster_order();
  /* The end of a commit in the cluster's order: a failure ends the process. */
  int finish(bool defer_sync);
  /* The commit's place in one phase. */
  void order_alone();
  void next_transaction_number() {
    transaction_number_.store(transaction_number() + 1, std::memory_order_relaxed);
  }
  void end_statement();
  int end_copy();
  int rollback_all();
  /* What the commit of a transaction after XA PREPARE needs. After an error the session is without it. */
  int resume_xa();
  /* An error of a commit: says it to the client by its own name. */
  int commit_failed(int status);
  /* The same of a handler's error; `text` is the engine's. */
  void say_commit_error(int error, const char *text);
  void set_lock_timeout();
  /* Makes the engine know of a kill as the server does now: one of an earlier statement is forgotten. */
  void renew_kill();
  void report_conflict(int status);
  bool in_multi_statement_transaction() const;
  void set_snapshot_isolation(int level);

  THD *thd_;
  AdmissionTicket ticket_;
  TxnHandle txn_;
  State state_ = State::IDLE;
  bool statement_open_ = false;
  bool optimistic_ = false;
  /* Of the transaction: it has used a table whose ISOLATION_LEVEL is SNAPSHOT. */
  bool names_snapshot_ = false;
  /* As the engine knows them, of the statement (tidesdb_snapshot_conflicts=OFF) and of one in the
   * transaction. */
  bool may_pass_snapshot_ = false;
  bool may_have_passed_snapshot_ = false;
  /* Changed under LOCK_thd_data. */
  bool hears_no_kill_ = false;
  bool in_cluster_order_ = false;
  uint definition_locks_ = 0;
  int isolation_ = TIDESDB_REPEATABLE_READ;
  /* Others ask, while they look at waits. */
  std::atomic<ulonglong> transaction_number_;
  ulonglong lock_timeout_ms_ = ~0ULL - 1;
  uint duplicate_key_ = MAX_KEY;
  uint newest_reads_ = 0;
  Cascade cascade_;
  ulonglong removals_ = 0;
  CopiedRow copied_row_;
  int copy_error_ = 0;
  std::string copy_error_text_;
  query_id_t noted_ = 0;
  CopyAlterGuard copy_guard_;
  ChangedTables changed_tables_;
  PartitionedDrop partitioned_drop_;
  StopwordTable stopword_table_;
  std::string error_text_;
  std::string holder_statement_;
  std::atomic<bool> reported_deadlock_{false};
};

}  // namespace tidesdb
#endif

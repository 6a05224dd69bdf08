#include "txn/wait_observer.h"

#include <mysql/plugin.h>
#include <mysql/service_thd_wait.h>

#include <mutex>
#include <unordered_map>

#include "sql_class.h"

#include "cluster/brute_force.h"
#include "cluster/participation.h"
#include "mutant.h"
#include "sysvars.h"
#include "txn/deadlocks.h"
#include "txn/row_wait_graph.h"
#include "txn/session.h"

extern "C" int thd_rpl_deadlock_check(MYSQL_THD thd, MYSQL_THD other_thd);
extern "C" int thd_need_wait_reports(const MYSQL_THD thd);
extern "C" int thd_need_ordering_with(const MYSQL_THD thd, const MYSQL_THD other_thd);

namespace tidesdb {

namespace {

struct Connections {
  std::mutex mutex;
  std::unordered_map<THD *, Session *> living;
};
Connections connections;

std::string statement_of(THD *thd) {
  mysql_mutex_lock(&thd->LOCK_thd_data);
  const char *query = thd->query();
  std::string text(query ? query : "", query ? std::min<size_t>(thd->query_length(), STATEMENT_PART) : 0);
  mysql_mutex_unlock(&thd->LOCK_thd_data);
  return text;
}

void report_holders(THD *waiter, void *const *holders, size_t holder_count) {
  const bool replication = thd_need_wait_reports(waiter);
  const bool statements = sysvars::print_all_conflicts();
  if (!replication && !statements) return;
  std::lock_guard<std::mutex> guard(connections.mutex);
  if (replication && holder_count == 0) thd_rpl_deadlock_check(waiter, nullptr);
  std::string text;
  for (size_t i = 0; i < holder_count; i++) {
    THD *holder = static_cast<THD *>(holders[i]);
    const bool alive = holder && connections.living.count(holder);
    if (replication) thd_rpl_deadlock_check(waiter, alive ? holder : nullptr);
    if (statements && alive && holder != waiter) {
      if (!text.empty()) text += ", ";
      text += "thread " + std::to_string(thd_get_thread_id(holder)) + ": '" + statement_of(holder) + "'";
    }
  }
  if (statements)
    if (auto found = connections.living.find(waiter); found != connections.living.end())
      found->second->remember_holder(std::move(text));
}

/* Holders that a connection waits for, which goes before others. */
void abort_holders(THD *waiter, void *const *holders, size_t holder_count) {
  std::lock_guard<std::mutex> guard(connections.mutex);
  for (size_t i = 0; i < holder_count; i++) {
    THD *holder = static_cast<THD *>(holders[i]);
    if (!holder)
      sql_print_error(
          "TidesDB: the cluster waits for a lock of a prepared XA transaction without a connection: end it "
          "(XA RECOVER, XA COMMIT or XA ROLLBACK with wsrep_on=OFF)");
    if (!holder || holder == waiter) continue;
    if (auto found = connections.living.find(holder); found != connections.living.end())
      cluster::abort_holder(waiter, holder, found->second);
  }
}

void wait_begins(void *, void *waiter, void *const *holders, size_t holder_count) {
  THD *thd = static_cast<THD *>(waiter);
  if (!thd) return;
  if (Session *session = Session::find(thd)) session->leave_place();
  report_holders(thd, holders, holder_count);
  if (cluster::goes_first(thd) && !MUTANT(HolderSpared)) abort_holders(thd, holders, holder_count);
  row_wait_begins(thd, holders, holder_count);
  thd_wait_begin(thd, THD_WAIT_ROW_LOCK);
}

void wait_goes_on(void *, void *waiter, void *const *holders, size_t holder_count) {
  THD *thd = static_cast<THD *>(waiter);
  if (thd && cluster::goes_first(thd)) abort_holders(thd, holders, holder_count);
}

void wait_ends(void *, void *waiter) {
  THD *thd = static_cast<THD *>(waiter);
  if (!thd) return;
  thd_wait_end(thd);
  row_wait_ends(thd);
}

/* Two transactions of a parallel replica that commit in the primary's order need no gaps between them:
   there, the one's insertion did not come into what the other read. */
int gaps_conflict(void *, void *a, void *b) {
  THD *one = static_cast<THD *>(a), *other = static_cast<THD *>(b);
  std::lock_guard<std::mutex> guard(connections.mutex);
  if (!connections.living.count(one) || !connections.living.count(other)) return 1;
  return thd_need_ordering_with(one, other);
}

/* Of the connections that wait for each other, none goes on before this returns. */
void deadlock_found(void *, const tidesdb_deadlock *deadlock) {
  std::vector<std::string> statements(deadlock->wait_count);
  {
    std::lock_guard<std::mutex> guard(connections.mutex);
    for (size_t i = 0; i < deadlock->wait_count; i++) {
      THD *thd = static_cast<THD *>(deadlock->waits[i].cookie);
      const auto living = connections.living.find(thd);
      if (!thd || living == connections.living.end()) continue;
      statements[i] = statement_of(thd);
      if (i == deadlock->victim) living->second->note_reported_deadlock();
    }
  }
  note_deadlock(*deadlock, statements);
}

const tidesdb_wait_observer observer = {nullptr,       wait_begins,    wait_ends,
                                        gaps_conflict, deadlock_found, wait_goes_on};

}  // namespace

const tidesdb_wait_observer *wait_observer() { return &observer; }

void watch_connection(THD *thd, Session *session) {
  enter_wait_graph(thd, session);
  std::lock_guard<std::mutex> guard(connections.mutex);
  connections.living.emplace(thd, session);
}

void forget_connection(THD *thd, const Session *session) {
  leave_wait_graph(thd, session);
  std::lock_guard<std::mutex> guard(connections.mutex);
  if (auto found = connections.living.find(thd);
      found != connections.living.end() && found->second == session)
    connections.living.erase(found);
}

void visit_connections(void (*visit)(THD *thd, Session *session)) {
  std::lock_guard<std::mutex> guard(connections.mutex);
  for (const auto &[thd, session] : connections.living) visit(thd, session);
}

std::unordered_map<uint64_t, std::string> running_statements(const std::unordered_set<uint64_t> &threads) {
  std::unordered_map<uint64_t, std::string> statements;
  std::lock_guard<std::mutex> guard(connections.mutex);
  for (const auto &connection : connections.living) {
    const uint64_t thread = thd_get_thread_id(connection.first);
    if (threads.count(thread)) statements.emplace(thread, statement_of(connection.first));
  }
  return statements;
}

}  // namespace tidesdb

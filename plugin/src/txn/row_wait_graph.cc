#include "txn/row_wait_graph.h"

#include <mutex>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mdl.h"
#include "sql_class.h"
#include "table_cache.h"

#include "txn/session.h"

namespace tidesdb {

namespace {

/* A transaction, by the connection that runs it and its number there. */
struct Holder {
  THD *thd;
  ulonglong transaction;
};

/* The edges of one waiting connection. They are as the wait found them: transactions that have ended since
   count no more. Another may have come before the waiter meanwhile; its circle ends with the time for locks.
 */
class RowWait : public MDL_wait_for_subgraph {
 public:
  RowWait(THD *thd, std::vector<Holder> holders) : thd_(thd), holders_(std::move(holders)) {}

  const std::vector<Holder> &holders() const { return holders_; }
  THD *thd() const { return thd_; }

  bool accept_visitor(MDL_wait_for_graph_visitor *visitor) override;
  /* The visitor never enters a connection that waits here, so that it cannot be the victim: nobody would wake
   * it. */
  uint get_deadlock_weight() const override { return 2 * DEADLOCK_WEIGHT_DDL; }

 private:
  THD *thd_;
  const std::vector<Holder> holders_;
};

struct Graph {
  /* A search goes from one wait to the next, and comes back here. Held while other connections are looked at,
     so that they do not end. The server's locks of its graph are taken under it, for reading: it is a leaf
     for nobody who has one of them for writing. */
  std::recursive_mutex mutex;
  std::unordered_map<THD *, const Session *> living;
  std::unordered_map<THD *, RowWait *> waiting;
};
Graph graph;

/* For whom a wait waits, over any number of waits here. */
struct Reached {
  std::vector<THD *> all;
  std::vector<THD *> ends; /* those who run, or wait for the server */
};

Reached reached_from(const RowWait &wait) {
  Reached reached;
  std::unordered_set<THD *> seen{wait.thd()};
  std::vector<const RowWait *> waits{&wait};
  while (!waits.empty()) {
    const RowWait *next = waits.back();
    waits.pop_back();
    for (const Holder &holder : next->holders()) {
      const auto living = graph.living.find(holder.thd);
      if (living == graph.living.end() || living->second->transaction_number() != holder.transaction)
        continue;
      if (!seen.insert(holder.thd).second) continue;
      reached.all.push_back(holder.thd);
      const auto waiting = graph.waiting.find(holder.thd);
      if (waiting == graph.waiting.end())
        reached.ends.push_back(holder.thd);
      else
        waits.push_back(waiting->second);
    }
  }
  return reached;
}

bool RowWait::accept_visitor(MDL_wait_for_graph_visitor *visitor) {
  const std::lock_guard<std::recursive_mutex> guard(graph.mutex);
  const Reached reached = reached_from(*this);
  for (THD *thd : reached.all)
    if (visitor->inspect_edge(&thd->mdl_context)) return true;
  for (THD *thd : reached.ends)
    if (thd->mdl_context.visit_subgraph(visitor)) return true;
  return false;
}

/* Whether somebody may wait for a table that the waiter has open: the share is marked, and goes when all have
   closed the table. */
bool uses_flushed_table(const THD *thd) {
  for (const TABLE *table = thd->open_tables; table; table = table->next)
    if (table->s->tdc && table->s->tdc->flushed) return true;
  return false;
}

}  // namespace

void enter_wait_graph(THD *thd, const Session *session) {
  const std::lock_guard<std::recursive_mutex> guard(graph.mutex);
  graph.living.emplace(thd, session);
}

void leave_wait_graph(THD *thd, const Session *session) {
  const std::lock_guard<std::recursive_mutex> guard(graph.mutex);
  if (const auto found = graph.living.find(thd); found != graph.living.end() && found->second == session)
    graph.living.erase(found);
}

void row_wait_begins(THD *waiter, void *const *holders, size_t holder_count) {
  RowWait *wait;
  {
    const std::lock_guard<std::recursive_mutex> guard(graph.mutex);
    std::vector<Holder> found;
    found.reserve(holder_count);
    for (size_t i = 0; i < holder_count; i++) {
      THD *thd = static_cast<THD *>(holders[i]);
      const auto living = graph.living.find(thd);
      if (living != graph.living.end() && thd != waiter)
        found.push_back({thd, living->second->transaction_number()});
    }
    wait = new (std::nothrow) RowWait(waiter, std::move(found));
    if (!wait) return;
    graph.waiting[waiter] = wait;
  }
  waiter->mdl_context.will_wait_for(wait);
  /* Who waits for a table later looks itself. In the queue of a row the first waiters look for all: those
     after them have the same tables, as a rule, and a long way to search. */
  constexpr size_t FIRST_WAITERS = 4;
  if (holder_count <= FIRST_WAITERS || uses_flushed_table(waiter)) waiter->mdl_context.find_deadlock();
}

void row_wait_ends(THD *waiter) {
  /* No search is in the wait when this has come back. */
  waiter->mdl_context.done_waiting_for();
  const std::lock_guard<std::recursive_mutex> guard(graph.mutex);
  const auto waiting = graph.waiting.find(waiter);
  if (waiting == graph.waiting.end()) return;
  delete waiting->second;
  graph.waiting.erase(waiting);
}

}  // namespace tidesdb

#include "txn/applier.h"

#include "sql_class.h"

#include "rpl_rli.h"

namespace tidesdb {

bool is_applier(const THD *thd) { return thd->rgi_slave || thd->wsrep_applier; }

bool is_in_group(const THD *thd) { return thd->rgi_slave != nullptr; }

bool applies_rows(const THD *thd) {
  const rpl_group_info *group = thd->wsrep_applier ? thd->wsrep_rgi
                                : thd->rgi_slave   ? thd->rgi_slave
                                                   : thd->rgi_fake;
  return group && group->tables_to_lock;
}

int survival_wish(const THD *thd) {
  constexpr ulonglong range = 1U << 30;
  return static_cast<int>(range - thd->rgi_slave->gtid_sub_id % range);
}

bool is_in_turn(const THD *thd) {
  const rpl_group_info *applier = thd->rgi_slave;
  /* Without speculation all are in turn when they begin, and hold nobody up but the next. */
  if (!applier || !applier->is_parallel_exec || applier->speculation == rpl_group_info::SPECULATE_NO)
    return false;
  const wait_for_commit *order = thd->wait_for_commit_ptr;
  return order && order->waitee.load(std::memory_order_acquire) == nullptr;
}

}  // namespace tidesdb

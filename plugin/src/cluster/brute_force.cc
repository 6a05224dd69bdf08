#include "cluster/brute_force.h"

#include "cluster/wsrep_service.h"

#include "sql_class.h"

#include "wsrep.h"

#include "mutant.h"
#include "txn/session.h"

namespace tidesdb::cluster {

namespace {

/* The server does not tell InnoDB of a victim that another engine aborts. */
void end_wait_in_innodb(THD *thd, THD *victim) {
  handlerton *innodb = ha_resolve_by_legacy_type(thd, DB_TYPE_INNODB);
  if (innodb && innodb->abort_transaction) innodb->abort_transaction(innodb, thd, victim, true);
}

}  // namespace

void abort_holder(THD *thd, THD *holder, Session *session) {
  mysql_mutex_lock(&holder->LOCK_thd_kill);
  mysql_mutex_lock(&holder->LOCK_thd_data);
  if (!wsrep_thd_is_BF(holder, false) && !wsrep_thd_is_aborting(holder)) {
    WSREP_LOG_CONFLICT(thd, holder, TRUE);
    if (wsrep_thd_bf_abort(thd, holder, true) || !wsrep_on(holder)) {
      end_wait_in_innodb(thd, holder);
      if (!MUTANT(VictimSleeps)) session->kill();
    }
  }
  mysql_mutex_unlock(&holder->LOCK_thd_data);
  mysql_mutex_unlock(&holder->LOCK_thd_kill);
}

}  // namespace tidesdb::cluster

#include "cluster/brute_force.h"

#include "cluster/wsrep_service.h"

#include "sql_class.h"

#include "wsrep.h"
#include "wsrep_mysqld.h"

#include "mutant.h"
#include "txn/session.h"

namespace tidesdb::cluster {

namespace {

/* The server does not tell InnoDB of a victim that another engine aborts. */
void end_wait_in_innodb(THD *thd, THD *victim) {
  handlerton *innodb = ha_resolve_by_legacy_type(thd, DB_TYPE_INNODB);
  if (innodb && innodb->abort_transaction) innodb->abort_transaction(innodb, thd, victim, true);
}

/* A victim that is about to replicate waits until all replays are over, and looks for an abort every 10 ms
   alone. The replays may come after the applier that waits for the victim's lock. */
void end_wait_for_replays() {
  mysql_mutex_lock(&LOCK_wsrep_replaying);
  if (wsrep_replaying > 0) mysql_cond_broadcast(&COND_wsrep_replaying);
  mysql_mutex_unlock(&LOCK_wsrep_replaying);
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
  end_wait_for_replays();
}

}  // namespace tidesdb::cluster

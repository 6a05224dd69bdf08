#include "cluster/participation.h"

#include "log.h"
#include "sql_class.h"
#include "wsrep_sst.h"

#include "cluster/commit_hooks.h"
#include "cluster/position.h"
#include "cluster/wsrep_service.h"
#include "mutant.h"
#include "server.h"
#include "store/store.h"

namespace tidesdb::cluster {

namespace detail {
bool participates = false;
}

void decide_participation(handlerton *hton, bool wanted) {
  detail::participates = wanted && WSREP_PROVIDER_EXISTS_;
  if (!takes_part()) return;
  hton->flags |= HTON_WSREP_REPLICATION;
  if (opt_bin_log) hton->prepare_ordered = hton_call<before_binary_log>;
}

bool refuses_state_transfer() {
  if (!takes_part() || !wsrep_sst_method) return false;
  static const char *const methods[] = {"rsync",         "rsync_wan", "mariabackup",
                                        "xtrabackup-v2", "mysqldump", "skip"};
  for (const char *method : methods) {
    if (strcasecmp(wsrep_sst_method, method)) continue;
    sql_print_error(
        "TidesDB: with tidesdb_cluster=ON a state transfer by wsrep_sst_method=%s would leave this node with "
        "its old TidesDB tables, and InnoDB's of another node. Set wsrep_sst_method=tidesdb, which transfers "
        "both. The server ends here",
        method);
    note_refused_transfer();
    return true;
  }
  return false;
}

TransactionParticipant *participant() {
  if (!takes_part() || MUTANT(HooksForEachEngine)) return plugin.hton;
  /* The server gives the handlerton its numbers after the plugin's start. */
  static TransactionParticipant copy = [] {
    TransactionParticipant made = *plugin.hton;
    made.flags &= ~HTON_WSREP_REPLICATION;
    return made;
  }();
  return &copy;
}

bool is_brute_force(const THD *thd) { return wsrep_thd_is_BF(thd, false); }

bool is_replicated(const THD *thd) { return WSREP_NNULL(thd) && wsrep_thd_is_local(thd); }

}  // namespace tidesdb::cluster

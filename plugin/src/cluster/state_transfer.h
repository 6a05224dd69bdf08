/*
  State transfers of a Galera cluster, wsrep_sst_method=tidesdb: this server's part, for the script
  wsrep_sst_tidesdb. The script has the rest of them.

  On the donor the script leaves a request in the data directory, and asks the server for FLUSH TABLES WITH
  READ LOCK. Nobody commits while it is held, appliers neither, and InnoDB's files are copied meanwhile. The
  server flushes the logs of engines under it: a checkpoint of the store begins there, and its moment is
  InnoDB's. It is completed by a thread, while commits go on, in the store's directory `transfer`. It goes
  with the script.

  On the joiner the script runs before engines start, and puts the store in its place. A mark is in its
  directory from before the first file of any engine until after the last: with it, this node has half a
  state.
*/
#ifndef TIDESDB_CLUSTER_STATE_TRANSFER_H
#define TIDESDB_CLUSTER_STATE_TRANSFER_H

#include "key/sql_headers.h"

namespace tidesdb::cluster {

/* The logs of engines are flushed: begins a checkpoint, if this is the server's thread of a donor and the
   script asked for one. true: failed; the error log says why, and the transfer ends. */
bool donate(THD *thd);

/* The store is open: checkpoints can be made, and none is left of an earlier server. */
void open_for_donations();
/* Before the store is closed: none is made any more. No harm where the store was not opened. */
void close_for_donations();

/* Whether the server was started to say its position, and ends then (--wsrep-recover). */
bool tells_position_alone();

/* Whether the joiner's mark is in the store's directory. */
bool has_half_transfer();

/* Whether the script put the store into another directory than this server's: says so. A new store would be
   made, and the node would miss all rows. */
bool is_received_elsewhere();
/* The store of the transfer, if there was one, was opened. */
void note_opened();

}  // namespace tidesdb::cluster
#endif

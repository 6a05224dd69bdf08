/*
  Partitions whose table the server does not know by their name.

  The server renames a partitioned table partition by partition, then its .par, then its .frm, and its log of
  definitions goes back by the .par file of the new name, which may not be there yet. Killed in RENAME TABLE,
  or in an ALTER that renames or copies, it leaves partitions and .par under one name and the .frm under
  another, with every engine: the table is not to be opened. The store knows better, for each partition has
  the identity of the definition it was written with, and so has the .frm. What belongs to a .frm gets its
  name, all at once.

  DROP TABLE removes the .par before the partitions. Killed after that, it is finished from the server's log
  of definitions before the server reads it: without the .par the server would remove the .frm alone.
  CREATE TABLE stands in that log as one of a plain table of the partitions' engine. Killed, it leaves .par
  and partitions, and the server removes the .frm alone. Those with that .frm's identity go before it.

  Partitions without a .frm of which that log says nothing stay until a DROP TABLE, and the error log names
  them.
*/
#ifndef TIDESDB_DDL_LOST_PARTITIONS_H
#define TIDESDB_DDL_LOST_PARTITIONS_H

namespace tidesdb {

/* At the start, before the server repeats its log of definitions. */
void finish_drops();
/* While the server repeats its log: takes back CREATE TABLE of a partitioned table, `./db/table`, that has
   its .frm. Returns an error of the handler, HA_ERR_NO_SUCH_TABLE where the .frm tells of none. */
int undo_create(const char *path);
/* At the start, after the server's log of definitions and before anybody can open a table. */
void find_lost_partitions();

}  // namespace tidesdb
#endif

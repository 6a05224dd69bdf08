#include "handler/lock_choice.h"

#include "sql_class.h"

namespace tidesdb {

/* The rules of InnoDB (ha_innodb.cc:store_lock), which users and the server's code rely on. */
void LockChoice::choose(THD *thd, thr_lock_type lock_type) {
  const int command = thd_sql_command(thd);
  const bool in_lock_tables = thd_in_lock_tables(thd);
  const int level = thd_tx_isolation(thd);
  choose_skipping(lock_type);

  if (lock_type >= TL_FIRST_WRITE) {
    row = RowLock::EXCLUSIVE;
  } else if (command == SQLCOM_FLUSH) {
    row = RowLock::NONE;
  } else if ((in_lock_tables && (lock_type == TL_READ || lock_type == TL_READ_HIGH_PRIORITY)) ||
             lock_type == TL_READ_WITH_SHARED_LOCKS || lock_type == TL_READ_SKIP_LOCKED ||
             lock_type == TL_READ_NO_INSERT || command != SQLCOM_SELECT) {
    const bool snapshot_will_do =
        command == SQLCOM_CHECKSUM || command == SQLCOM_ANALYZE || command == SQLCOM_CHECK ||
        command == SQLCOM_HA_OPEN || command == SQLCOM_HA_READ || command == SQLCOM_SHOW_FIELDS ||
        command == SQLCOM_ALTER_TABLE || command == SQLCOM_CREATE_INDEX || command == SQLCOM_DROP_INDEX ||
        command == SQLCOM_OPTIMIZE ||
        (level <= ISO_READ_COMMITTED && (lock_type == TL_READ || lock_type == TL_READ_NO_INSERT));
    row = snapshot_will_do ? RowLock::NONE : RowLock::SHARED;
  } else {
    row = RowLock::NONE;
  }
  stored = row;
}

}  // namespace tidesdb

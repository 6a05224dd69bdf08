#include "cluster/row_keys.h"

#include "cluster/wsrep_service.h"

#include "log.h"
#include "sql_lex.h"
#include "wsrep_api.h"
#include "wsrep_trans_observer.h"

#include "mutant.h"
#include "server.h"

/* No header of the server has it. */
extern "C" int thd_binlog_format(const MYSQL_THD thd);

namespace tidesdb::cluster {

namespace {

/* From this version of the protocol on UPDATE is a use of its own. */
constexpr long WITH_UPDATES = 4;

Wsrep_service_key_type service_use(KeyUse use) {
  switch (use) {
    case KeyUse::REFERENCE:
      return WSREP_SERVICE_KEY_REFERENCE;
    case KeyUse::UPDATE:
      return wsrep_protocol_version >= WITH_UPDATES ? WSREP_SERVICE_KEY_UPDATE : WSREP_SERVICE_KEY_EXCLUSIVE;
    case KeyUse::EXCLUSIVE:
      break;
  }
  return WSREP_SERVICE_KEY_EXCLUSIVE;
}

/* `name`: the database and the table, each with a zero byte at its end. */
int append_named(THD *thd, LEX_CSTRING name, Slice key, KeyUse use) {
  constexpr size_t MOST_PARTS = 3;
  wsrep_buf_t parts[MOST_PARTS];
  size_t count = MOST_PARTS;
  const uchar *names = reinterpret_cast<const uchar *>(name.str);
  bool done = wsrep_prepare_key_for_innodb(thd, names, name.length, key.data, key.size, parts, &count);
  const wsrep_key_t whole{parts, count};
  done = done && !wsrep_thd_append_key(thd, &whole, 1, service_use(use));
  if (done) return 0;
  sql_print_warning("TidesDB: the write set does not take a key of a row of %s.%s", name.str,
                    name.str + strlen(name.str) + 1);
  return HA_ERR_INTERNAL_ERROR;
}

bool has_unique_index(const TABLE *table) {
  for (uint i = 0; i < table->s->keys; i++)
    if (table->key_info[i].flags & HA_NOSAME) return true;
  return false;
}

int append_digest(THD *thd, const TABLE *table, const uchar *record, KeyUse use) {
  if (MUTANT(DigestUngiven)) return 0;
  uchar digest[ROW_DIGEST_SIZE];
  digest_row(*table, record, digest);
  return append_named(thd, table->s->table_cache_key, {digest, sizeof(digest)}, use);
}

}  // namespace

int append_key(THD *thd, LEX_CSTRING database, LEX_CSTRING table, Slice key, KeyUse use) {
  char name[2 * (NAME_LEN + 1)];
  char *const end = strmake(strmake(name, database.str, NAME_LEN) + 1, table.str, NAME_LEN);
  return append_named(thd, {name, static_cast<size_t>(end + 1 - name)}, key, use);
}

/* The statements that InnoDB leaves out: rows of CREATE ... SELECT, which the table's own key covers, and
   those that a check of consistency inserts. */
bool gives_keys(THD *thd, const TABLE *table, bool inserts) {
  if (table->s->tmp_table != NO_TMP_TABLE || thd->wsrep_ignore_table) return false;
  const int command = thd_sql_command(thd);
  if (command == SQLCOM_CREATE_TABLE) return false;
  if (command == SQLCOM_LOAD && thd_binlog_format(thd) != BINLOG_FORMAT_ROW) return false;
  return !inserts || !wsrep_consistency_check(thd);
}

int append_row_keys(THD *thd, const TABLE *table, const RowChecks *checks, const uchar *old_record,
                    const uchar *new_record) {
  const LEX_CSTRING name = table->s->table_cache_key;
  const bool updates = old_record && new_record, has_unique = has_unique_index(table);
  const uchar *record = old_record ? old_record : new_record;
  KeyUse use = updates ? KeyUse::UPDATE : KeyUse::EXCLUSIVE;
  bool identified = false;
  InnodbKey key, new_key;
  for (uint index = 0; index < table->s->keys; index++) {
    const bool unique = table->key_info[index].flags & HA_NOSAME;
    if (has_unique && !unique && !(checks && checks->is_referenced(index))) continue;
    if (is_full_text(table->key_info[index])) continue;
    if (index == table->s->primary_key ? MUTANT(PrimaryKeyUngiven) : MUTANT(UniqueKeyUngiven)) {
      identified = true;
      continue;
    }
    key.row_key(*table, index, record);
    if (updates) {
      new_key.row_key(*table, index, new_record);
      if (key.is_null() != new_key.is_null() || !same_bytes(key.slice(), new_key.slice())) {
        if (unique) use = KeyUse::EXCLUSIVE;
        if (!new_key.is_null())
          if (const int error = append_named(thd, name, new_key.slice(), use)) return error;
      }
    }
    if (key.is_null()) {
      identified = identified || MUTANT(NullCountsAsKey);
      continue;
    }
    if (const int error = append_named(thd, name, key.slice(), use)) return error;
    identified = identified || unique;
  }
  if (identified || !wsrep_certify_nonPK) return 0;
  if (const int error = append_digest(thd, table, record, use)) return error;
  return updates ? append_digest(thd, table, new_record, use) : 0;
}

int append_table_keys(THD *thd, const TABLE *table) {
  const auto append = [thd](const LEX_CSTRING &database, const LEX_CSTRING &name,
                            Wsrep_service_key_type use) {
    return wsrep_thd_append_table_key(thd, database.str, name.str, use) != 0;
  };
  bool failed = wsrep_start_trx_if_not_started(thd) != 0 ||
                append(table->s->db, table->s->table_name, WSREP_SERVICE_KEY_EXCLUSIVE);
  for (const TABLE_LIST *read = thd->lex->query_tables; read && !failed; read = read->next_global)
    if (read->table && read->table != table && read->table->s->tmp_table == NO_TMP_TABLE)
      failed = append(read->table->s->db, read->table->s->table_name, WSREP_SERVICE_KEY_SHARED);
  return failed ? HA_ERR_INTERNAL_ERROR : 0;
}

int append_action_key(THD *thd, const ForeignKey &key, const TABLE *child) {
  if (MUTANT(ActionUngiven)) return 0;
  InnodbKey row;
  row.stored_key(*child, child->s->primary_key, child->record[0]);
  const LEX_CSTRING database{key.child_database.c_str(), key.child_database.size()},
      table{key.child_table.c_str(), key.child_table.size()};
  if (const int error = append_key(thd, database, table, row.slice(), KeyUse::EXCLUSIVE)) return error;
  wsrep_thd_set_PA_unsafe(thd);
  return 0;
}

}  // namespace tidesdb::cluster

/*
  MariaDB 10.11 as the plugin uses it: names and calls that other releases have in another form.

  Each folder of server/ has the same files for one release, and the build takes the folder of its prefix. The
  rest of the plugin sees one server.
*/
#ifndef TIDESDB_SERVER_SERVER_H
#define TIDESDB_SERVER_SERVER_H

#include <string>

#include "key/sql_headers.h"

#include "sql_class.h"
#include "lex_string.h"
#include "mysql_com.h"

/* As in the headers of later releases. */
#define CREATE_TYPELIB_FOR(names) \
  { static_cast<unsigned int>(array_elements(names)) - 1, "", names, nullptr }

namespace tidesdb {

template <auto CALL>
struct HtonCall;

template <typename Result, typename... Arguments, Result (*CALL)(Arguments...)>
struct HtonCall<CALL> {
  static Result call(handlerton *, Arguments... arguments) { return CALL(arguments...); }
};

/* A call of ours as a member of the handlerton, which 10.11 passes first. */
template <auto CALL>
constexpr auto hton_call = HtonCall<CALL>::call;

/* Whether the server takes both for one name of a column or an index. */
inline bool same_name(const LEX_CSTRING &a, const LEX_CSTRING &b) {
  return !lex_string_cmp(system_charset_info, &a, &b);
}

/*
  Writes the weights of a text and returns their bytes; `cut` tells that the room did not hold all. 10.11 ends
  before a weight that has no room, and does not say so: less is free then than the longest weight takes.
*/
inline size_t write_weights(const CHARSET_INFO *charset, uchar *to, size_t room, const uchar *text,
                            size_t size, uint flags, bool *cut) {
  constexpr size_t LONGEST_WEIGHT = 8;
  const size_t got = charset->strnxfrm(to, room, UINT_MAX32, text, size, flags);
  *cut = got + LONGEST_WEIGHT > room;
  return got;
}

/* Writes the weights of a text, as many as it has bytes at most, and returns their bytes. */
inline size_t write_some_weights(const CHARSET_INFO *charset, uchar *to, size_t room, const uchar *text,
                                 size_t size) {
  return charset->strnxfrm(to, room, static_cast<uint>(size), text, size, 0);
}

/* Name of what an ALTER drops. */
inline LEX_CSTRING name_of(const Alter_drop &drop) { return {drop.name, strlen(drop.name)}; }

/* A share of one's own, to read a table's definition into. `key` is the database, a zero byte and the table,
   and ends with another; key and path live as long. */
inline void init_private_share(THD *thd, TABLE_SHARE *share, const std::string &key, const char *path) {
  init_tmp_table_share(thd, share, key.c_str(), static_cast<uint>(key.size()),
                       key.c_str() + strlen(key.c_str()) + 1, path);
  /* Its memory, none so far, would be counted as the connection's, and a handler keeps it longer. */
  init_sql_alloc(PSI_NOT_INSTRUMENTED, &share->mem_root, TABLE_ALLOC_BLOCK_SIZE, 0, MYF(0));
}

/* Two digits for each byte, and a zero byte. */
inline void write_hex(char *to, const uchar *bytes, size_t size) {
  octet2hex(to, reinterpret_cast<const char *>(bytes), size);
}

/* 10.11 has no character_set_collations: each character set has one default collation. */
class CharsetCollations {
 public:
  static std::string text_of(THD *) { return std::string(); }
  bool parse(const std::string &text) { return text.empty(); }
  void exchange(THD *) {}
};

/* Whether an ALTER copies the table while others write to it; 10.11 lets nobody write. */
inline bool is_copied_beside_writers(const TABLE_SHARE *) { return false; }

/* 10.11 has no VECTOR indexes. */
inline bool has_vector_index(TABLE_SHARE *) { return false; }

/* Flag of a key. */
constexpr ulong SPATIAL_KEY = HA_SPATIAL;

/* Also of a definition that is not made yet, which has no algorithm. */
inline bool is_full_text(const KEY &key) { return key.flags & HA_FULLTEXT; }

/* Flag of a table that no ALTER fills while others write to its source: in 10.11 none does. */
constexpr handler::Table_flags NO_ONLINE_ALTER = 0;

/*
  Operations of handler::extra() around the copy of a table. The begin of one with IGNORE is another
  operation: an ALTER has asked for the load before, by HA_EXTRA_PREPARE_FOR_ALTER_TABLE, and CREATE TABLE ...
  IGNORE SELECT writes its rows one by one.
*/
constexpr ha_extra_function EXTRA_BEGIN_COPY = HA_EXTRA_BEGIN_COPY;
constexpr ha_extra_function EXTRA_END_COPY = HA_EXTRA_END_COPY;
constexpr ha_extra_function EXTRA_ABORT_COPY = HA_EXTRA_ABORT_COPY;

/* An engine as transactions know it. */
using TransactionParticipant = handlerton;
inline int prepare_in(TransactionParticipant *engine, THD *thd, bool all) {
  return engine->prepare(engine, thd, all);
}

/* Tells the server the costs of an access (costs.cc). */
void register_costs(handlerton *hton);

/* Rows that the server has counted for a handler's statement, TEMPORARY tables included. */
template <class Handler>
ulonglong counted_reads(const Handler &handler) {
  return handler.rows_read + handler.rows_tmp_read;
}
template <class Handler>
ulonglong counted_changes(const Handler &handler) {
  return handler.rows_changed;
}

/* Default of innodb_snapshot_isolation, and so of ours. */
constexpr my_bool INNODB_SNAPSHOT_ISOLATION = FALSE;

}  // namespace tidesdb
#endif

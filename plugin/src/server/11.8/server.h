/*
  MariaDB 11.8 as the plugin uses it: names and calls that other releases have in another form.

  Each folder of server/ has the same files for one release, and the build takes the folder of its prefix. The
  rest of the plugin sees one server.
*/
#ifndef TIDESDB_SERVER_SERVER_H
#define TIDESDB_SERVER_SERVER_H

#include <string>
#include <utility>

#include "key/sql_headers.h"

#include "sql_class.h"
#include "sql_string.h"

namespace tidesdb {

/* A call of ours as a member of the handlerton, which 11.8 does not pass. */
template <auto CALL>
constexpr auto hton_call = CALL;

/* Whether the server takes both for one name of a column or an index. */
inline bool same_name(const LEX_CSTRING &a, const LEX_CSTRING &b) { return Lex_ident_column(a).streq(b); }

/* Writes the weights of a text and returns their bytes; `cut` tells that the room did not hold all. */
inline size_t write_weights(const CHARSET_INFO *charset, uchar *to, size_t room, const uchar *text,
                            size_t size, uint flags, bool *cut) {
  const my_strnxfrm_ret_t got = charset->strnxfrm(to, room, UINT_MAX32, text, size, flags);
  *cut = got.m_warnings & MY_STRNXFRM_TRUNCATED_WEIGHT_REAL_CHAR;
  return got.m_result_length;
}

/* Writes the weights of a text, as many as it has bytes at most, and returns their bytes. */
inline size_t write_some_weights(const CHARSET_INFO *charset, uchar *to, size_t room, const uchar *text,
                                 size_t size) {
  return charset->strnxfrm(to, room, static_cast<uint>(size), text, size, 0).m_result_length;
}

/* Name of what an ALTER drops. */
inline LEX_CSTRING name_of(const Alter_drop &drop) { return drop.name; }

/* A share of one's own, to read a table's definition into. `key` is the database, a zero byte and the table,
   and ends with another; key and path live as long. */
inline void init_private_share(THD *thd, TABLE_SHARE *share, const std::string &key, const char *path) {
  init_tmp_table_share(thd, share, key.c_str(), static_cast<uint>(key.size()),
                       key.c_str() + strlen(key.c_str()) + 1, path, false);
}

/* Two digits for each byte, and a zero byte. */
inline void write_hex(char *to, const uchar *bytes, size_t size) { octet2hex(to, bytes, size); }

/* character_set_collations: the collation of each character set that an expression names without one. */
class CharsetCollations {
 public:
  CharsetCollations() { map_.init(); }
  static std::string text_of(THD *thd) {
    const Charset_collation_map_st &map = thd->variables.character_set_collations;
    std::string text(map.text_format_nbytes_needed() + 1, '\0');
    text.resize(map.print(text.data(), text.size()));
    return text;
  }
  /* false: a collation of another server. */
  bool parse(const std::string &text) {
    map_.init();
    return text.empty() || !map_.from_text({text.data(), text.size()}, MYF(MY_UTF8_IS_UTF8MB3));
  }
  /* The session has these, and this object the session's. */
  void exchange(THD *thd) { std::swap(map_, thd->variables.character_set_collations); }

 private:
  Charset_collation_map_st map_;
};

/* Whether an ALTER copies the table while others write to it. */
inline bool is_copied_beside_writers(const TABLE_SHARE *share) {
  return share->online_alter_binlog != nullptr;
}

inline bool has_vector_index(TABLE_SHARE *share) { return share->hlindexes() != 0; }

/* Flag of a key. */
constexpr ulong SPATIAL_KEY = HA_SPATIAL_legacy;

/* Also of a definition that is not made yet. */
inline bool is_full_text(const KEY &key) { return key.algorithm == HA_KEY_ALG_FULLTEXT; }

/* Flag of a table that no ALTER fills while others write to its source. */
constexpr handler::Table_flags NO_ONLINE_ALTER = HA_NO_ONLINE_ALTER;

/* Operations of handler::extra() around the copy of a table. */
constexpr ha_extra_function EXTRA_BEGIN_COPY = HA_EXTRA_BEGIN_ALTER_COPY;
constexpr ha_extra_function EXTRA_END_COPY = HA_EXTRA_END_ALTER_COPY;
constexpr ha_extra_function EXTRA_ABORT_COPY = HA_EXTRA_ABORT_ALTER_COPY;

/* An engine as transactions know it. */
using TransactionParticipant = transaction_participant;
inline int prepare_in(TransactionParticipant *engine, THD *thd, bool all) {
  return engine->prepare(thd, all);
}

/* Tells the server the costs of an access (costs.cc). */
void register_costs(handlerton *hton);

/* Rows that the server has counted for a handler's statement, TEMPORARY tables included. */
template <class Handler>
ulonglong counted_reads(const Handler &handler) {
  return handler.rows_stats.read + handler.rows_stats.tmp_read;
}
template <class Handler>
ulonglong counted_changes(const Handler &handler) {
  return handler.rows_stats.inserted + handler.rows_stats.updated + handler.rows_stats.deleted;
}

/* Default of innodb_snapshot_isolation, and so of ours. */
constexpr my_bool INNODB_SNAPSHOT_ISOLATION = TRUE;

}  // namespace tidesdb
#endif

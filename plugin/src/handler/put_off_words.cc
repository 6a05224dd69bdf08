/*
  Entries of full text indexes that wait for the end of a statement with many rows.

  They are inverted as those of a new index are (ddl/inversion.h), and go to the transaction in the order of
  their keys: its batch takes them without a search, and each run of a large transaction has keys that no
  other run of the statement has.

  Nothing may look for them before. The server begins a bulk insertion only where the statement runs no
  triggers or stored functions, and has read the table before, if at all. Nothing may take one away either:
  each row that is written stays, unless the whole statement is undone.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "ddl/entry_load.h"
#include "partition_info.h"
#include "search/full_text_kind.h"
#include "txn/applier.h"

using namespace tidesdb;

namespace {

/* A part of what an ALTER may take: there are more of these statements, and nobody plans for them. */
constexpr size_t SHARES_OF_MEMORY = 8;

/* Partitions times indexes: each has a sort with memory and files of its own. */
constexpr size_t MOST_SORTS = 64;

bool is_killed(THD *thd) { return thd_kill_level(thd) >= THD_ABORT_SOFTLY; }

/* A subquery of RETURNING or HAVING reads the table between two rows. */
bool is_named_again(const TABLE *table) {
  size_t times = 0;
  for (const TABLE_LIST *named = table->in_use->lex->query_tables; named; named = named->next_global)
    times += named->table && named->table->s == table->s;
  return times > 1;
}

}  // namespace

/* In a cluster the server commits in the middle of LOAD DATA. LIMIT ROWS EXAMINED ends a statement without an
   error, its rows stay, and the server does not hear of an error at the end of the insertion. */
bool ha_tidesdb::may_put_off_words() const {
  const THD *thd = table->in_use;
  const LEX *lex = thd->lex;
  const int command = lex->sql_command;
  if (command != SQLCOM_LOAD && command != SQLCOM_INSERT_SELECT && command != SQLCOM_INSERT) return false;
  return !full_text_kinds_.empty() && lex->duplicates == DUP_ERROR && !lex->ignore &&
         !inserts_.ignores_duplicates && !thd->in_sub_stmt && !bulk_ && !table->versioned() &&
         !is_applier(thd) && !WSREP_PROVIDER_EXISTS_ && !lex->limit_rows_examined &&
         (command != SQLCOM_INSERT || !lex->query_tables->next_global) && !is_named_again(table);
}

/* With the first row. Without memory for it each row writes its entries. */
void ha_tidesdb::begin_putting_words_off() {
  inserts_.words_begin = false;
  if (!may_put_off_words()) return;
  const partition_info *partitions = table->part_info;
  const size_t beside = partitions ? partitions->num_parts * std::max(1U, partitions->num_subparts) : 1;
  if (beside * full_text_kinds_.size() > MOST_SORTS) return;
  THD *const thd = table->in_use;
  try {
    put_off_words_.resize(table_share->keys);
    for (uint i = 0; i < table_share->keys; i++) {
      if (is_primary(i) || !index_kinds_[i]->full_text()) continue;
      EntryLoad::Owner owner{[thd] { return is_killed(thd); }, [this](int status) { return fail(status); },
                             [](Slice, Slice) { return HA_ERR_FOUND_DUPP_KEY; }};
      put_off_words_[i].reset(
          new EntryLoad(*index_kinds_[i], SHARES_OF_MEMORY * beside * full_text_kinds_.size(), owner));
    }
  } catch (const std::bad_alloc &) {
    put_off_words_.clear();
  }
}

/* Of a row that was written, whose key is in the writer. */
int ha_tidesdb::put_off_words(const uchar *record) {
  for (uint i = 0; i < put_off_words_.size(); i++) {
    if (!put_off_words_[i]) continue;
    if (const int error =
            put_off_words_[i]->add_row(row_of_index(i, record), writer_.new_primary.slice(), writer_.expiry))
      return error;
  }
  return entries_may_be_cut_short() ? HA_ERR_ABORTED_BY_USER : 0;
}

/* At the statement's end. One that has failed is undone, and needs none of them. */
int ha_tidesdb::write_put_off_words() {
  inserts_.words_begin = false;
  std::vector<std::unique_ptr<EntryLoad>> words;
  std::swap(words, put_off_words_);
  if (words.empty() || table->in_use->is_error()) return 0;
  const int kind = is_temporary_ ? TIDESDB_KEEP_ENTRY : TIDESDB_PUT_ENTRY;
  const int flags = is_temporary_ ? 0 : TIDESDB_OP_LOCK;
  for (uint i = 0; i < words.size(); i++) {
    if (!words[i]) continue;
    const EntryLoad::Sink sink{open_table_->index(i), static_cast<uint8_t>(kind), static_cast<uint8_t>(flags),
                               [this](const tidesdb_op *ops, size_t count) {
                                 size_t failed = 0;
                                 return tidesdb_write(session_->txn(), ops, count, &failed);
                               }};
    if (const int error = words[i]->write(sink)) return error;
    words[i].reset();
  }
  return 0;
}

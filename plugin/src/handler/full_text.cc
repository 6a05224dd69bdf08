/*
  Full text: the server's calls for MATCH ... AGAINST (search/search.h has the search itself).

  A search reads the entries of its words at the moment of the statement's first read, as the statement reads:
  at its snapshot with its own changes, or as they are now, with the ranges of the words locked. Where entries
  and rows may not fit (entries_may_not_fit()), each row is cut into words again, and its own words decide.

  The server asks for a row's score in two ways: of the row that ft_read() has just given, and of a row that
  came otherwise, of which it gives the record alone. The record has the primary key, which open_search() asks
  for.
*/
#include "handler/ha_tidesdb.h"

#include "item_func.h"
#include "sql_class.h"
#include "sql_lex.h"

#include "search/full_text_kind.h"
#include "search/search.h"
#include "search/variables.h"
#include "store/store.h"
#include "sysvars.h"

using namespace tidesdb;

namespace {

/* Bytes of what one search keeps of its words' entries. */
constexpr size_t MOST_SEARCH_MEMORY = size_t{1} << 30;
/* Entries between two looks at KILL. */
constexpr ulonglong ENTRIES_BETWEEN_LOOKS = 4096;

Slice slice_of(const String &text) { return {reinterpret_cast<const uchar *>(text.ptr()), text.length()}; }

/* Bytes of a character of a query. */
size_t character_size(const void *charset, const uchar *at, const uchar *end) {
  CHARSET_INFO *const cs = static_cast<CHARSET_INFO *>(const_cast<void *>(charset));
  const int size = my_ismbchar(cs, reinterpret_cast<const char *>(at), reinterpret_cast<const char *>(end));
  return size > 1 ? static_cast<size_t>(size) : 1;
}

float find_relevance(FT_INFO *info, uchar *record, uint) {
  FullTextSearch *const search = reinterpret_cast<FullTextSearch *>(info);
  return search->handler->score_of_record(*search, record);
}

float get_relevance(FT_INFO *info) { return reinterpret_cast<FullTextSearch *>(info)->score; }

void close_search(FT_INFO *info) { delete reinterpret_cast<FullTextSearch *>(info); }

/* Called by the handler of MyISAM alone. */
int read_next(FT_INFO *, char *) { return HA_ERR_UNSUPPORTED; }
void reinit_search(FT_INFO *) {}

_ft_vft calls = {read_next, find_relevance, close_search, get_relevance, reinit_search};

/* No call of the server asks for these. */
uint version() { return 1; }
ulonglong flags() { return 0; }
ulonglong docid(FT_INFO_EXT *) { return 0; }
ulonglong count(FT_INFO_EXT *) { return 0; }
_ft_vft_ext more_calls = {version, flags, docid, count};

}  // namespace

FullTextSearch::~FullTextSearch() = default;

FT_INFO *ha_tidesdb::ft_init_ext(uint flags, uint index, String *text) {
  std::unique_ptr<FullTextSearch> search(new (std::nothrow) FullTextSearch);
  if (!search) {
    my_error(ER_OUTOFMEMORY, MYF(0), static_cast<int>(sizeof(FullTextSearch)));
    return nullptr;
  }
  search->info = {&calls, &more_calls};
  search->handler = this;
  search->index = index;
  if (flags & FT_EXPAND) {
    my_error(ER_NOT_SUPPORTED_YET, MYF(0), "TidesDB: WITH QUERY EXPANSION");
    return nullptr;
  }
  if (!make_conditions(flags, *text, search.get())) return nullptr;
  const int error = open_search(search.get());
  if (error != 0) {
    /* The client has an error that names more than the server's call would. */
    if (!table->in_use->is_error()) print_error(error, MYF(0));
    return nullptr;
  }
  if (flags & FT_SORTED) search->rows->sort();
  search->by_score = flags & FT_SORTED;
  return reinterpret_cast<FT_INFO *>(search.release());
}

/* False: the query has an error, which the client was told. */
bool ha_tidesdb::make_conditions(uint flags, const String &text, FullTextSearch *search) {
  const FullTextKind &kind = *index_kinds_[search->index]->full_text();
  Bm25 scoring = full_text::scoring();
  const tidesdb_family_stats rows = stats_of(open_table_->primary()),
                             entries = stats_of(open_table_->index(search->index));
  scoring.rows = static_cast<double>(rows.entries);
  scoring.mean_length = rows.entries && entries.entries
                            ? static_cast<double>(entries.entries) / static_cast<double>(rows.entries)
                            : 1;
  std::unique_ptr<Conditions> conditions(new Conditions(kind, scoring));
  if (flags & FT_BOOL) {
    QueryNode query;
    std::string error;
    if (!read_boolean_query({slice_of(text), kind.charset(), character_size, kind.settings().blend}, &query,
                            &error)) {
      my_printf_error(ER_PARSE_ERROR, "%s", MYF(0), error.c_str());
      return false;
    }
    conditions->set(query);
  } else {
    conditions->add_words(slice_of(text));
  }
  search->rows.reset(new RowSearch(std::move(conditions)));
  return true;
}

int ha_tidesdb::open_search(FullTextSearch *search) {
  if (has_primary_key()) {
    for (const KeyPart &part : primary_codec_->parts()) bitmap_set_bit(table->read_set, part.field_index);
    column_bitmaps_signal();
  }
  if (const int error = begin_read()) return error == HA_ERR_END_OF_FILE ? 0 : error;
  if (const int error = lock_for_read()) return error;
  int error = 0;
  const RowSearch::Result result = search->rows->run(
      *index_kinds_[search->index]->full_text(),
      [&](const Lookup &lookup, const std::function<bool(Slice, Slice)> &take) {
        return read_postings(search->index, lookup, take);
      },
      MOST_SEARCH_MEMORY, &error);
  switch (result) {
    case RowSearch::Result::DONE:
      return 0;
    case RowSearch::Result::FAILED:
      return error;
    case RowSearch::Result::DAMAGED:
      return session_->refuse("an entry of the index '" +
                              std::string(table->key_info[search->index].name.str) +
                              "' cannot be decoded; CHECK TABLE says more");
    case RowSearch::Result::TOO_LARGE:
      break;
  }
  return session_->refuse("too many rows have the words of this query: they take more than " +
                          std::to_string(MOST_SEARCH_MEMORY >> 20) +
                          " MB; ask for rarer words, or for longer beginnings of words");
}

/* Entries of a lookup's terms, in the order of their keys. */
int ha_tidesdb::read_postings(uint index, const Lookup &lookup,
                              const std::function<bool(Slice, Slice)> &take) {
  tidesdb_cursor *cursor;
  if (const int status = cursor_of(index, &cursor)) return fail(status);
  tidesdb_seek seek;
  memset(&seek, 0, sizeof(seek));
  seek.key = reinterpret_cast<const uchar *>(lookup.first.data());
  seek.key_size = seek.prefix_size = lookup.first.size();
  seek.where = TIDESDB_SEEK_AT_OR_AFTER;
  const int mode = reads_latest()                 ? TIDESDB_READ_LATEST
                   : lock_choice_.locks_nothing() ? TIDESDB_READ_SNAPSHOT
                                                  : lock_choice_.gap_mode();
  seek.mode = static_cast<uint8_t>(mode);
  ulonglong entries = 0;
  int status = tidesdb_cursor_seek(cursor, reading_txn(), &seek);
  for (; status == TIDESDB_OK || status == TIDESDB_SKIPPED; status = tidesdb_cursor_next(cursor)) {
    if (++entries % ENTRIES_BETWEEN_LOOKS == 0 && thd_kill_level(table->in_use) >= THD_ABORT_SOFTLY)
      return HA_ERR_ABORTED_BY_USER;
    if (status == TIDESDB_SKIPPED) continue;
    const tidesdb_row &row = cursor->rows[cursor->position];
    if (!take({row.key, row.key_size}, {row.value, row.value_size})) break;
  }
  tidesdb_cursor_reset(cursor);
  return status == TIDESDB_OK || status == TIDESDB_NOT_FOUND ? 0 : fail(status);
}

/* Of the row in the record, which is whole in the columns of the index. */
float ha_tidesdb::score_by_words(const FullTextSearch &search, const uchar *record, Slice primary_key) {
  const Conditions &conditions = search.rows->conditions();
  const FullTextKind &kind = *index_kinds_[search.index]->full_text();
  EntrySet &own = buffers_.entries;
  make_entries(search.index, record, primary_key, &own);
  std::vector<Posting> postings(conditions.lookups().size());
  Conditions::Found found(postings.size(), nullptr);
  for (size_t i = 0; i < postings.size(); i++) {
    const Lookup &lookup = conditions.lookups()[i];
    const Slice first{reinterpret_cast<const uchar *>(lookup.first.data()), lookup.first.size()},
        whole{reinterpret_cast<const uchar *>(lookup.whole.data()), lookup.whole.size()};
    const EntrySet::Entry *at =
        std::lower_bound(own.begin(), own.end(), first, [](const EntrySet::Entry &entry, Slice sought) {
          return compare_bytes(entry.key.slice(), sought) < 0;
        });
    for (; at != own.end() && at->key.size() >= first.size && !memcmp(at->key.data(), first.data, first.size);
         at++) {
      Posting posting;
      Slice term, key;
      if (!read_posting(at->value.slice(), &posting) || !kind.terms().split(at->key.slice(), &term, &key))
        continue;
      if (lookup.is_prefix && !kind.terms().begins_with(term, whole)) continue;
      if (found[i])
        postings[i].frequency += posting.frequency;
      else
        postings[i] = posting;
      found[i] = &postings[i];
    }
  }
  float score;
  return conditions.matches(found, &score) ? score : 0;
}

/* Of a row that came by other means than the search. */
float ha_tidesdb::score_of_record(const FullTextSearch &search, const uchar *record) {
  ByteBuffer &key = buffers_.row_key;
  key.clear();
  if (has_primary_key())
    primary_codec_->append_columns(record, &key);
  else
    key.append(last_row_.number, HIDDEN_KEY_SIZE);
  if (entries_may_not_fit()) return score_by_words(search, record, key.slice());
  return search.rows->score_of(key.slice());
}

int ha_tidesdb::ft_init() {
  if (ft_handler) reinterpret_cast<FullTextSearch *>(ft_handler)->place = 0;
  return 0;
}

void ha_tidesdb::ft_end() {}

/* The next row of the search that the server has given to the handler. */
int ha_tidesdb::ft_read(uchar *buf) {
  if (!ft_handler) return HA_ERR_END_OF_FILE;
  FullTextSearch &search = *reinterpret_cast<FullTextSearch *>(ft_handler);
  if (const int error = begin_read()) return error;
  if (const int error = lock_for_read()) return error;
  const std::vector<Hit> &hits = search.rows->hits();
  while (search.place < hits.size()) {
    const size_t place = search.by_score ? search.rows->sorted()[search.place] : search.place;
    search.place++;
    const Hit &hit = hits[place];
    const int error = read_by_key(hit.row.key, buf, HA_ERR_KEY_NOT_FOUND, TIDESDB_READ_BY_ENTRY);
    if (error == HA_ERR_KEY_NOT_FOUND) {
      unlock_row();
      if (thd_kill_level(table->in_use) >= THD_ABORT_SOFTLY) return HA_ERR_ABORTED_BY_USER;
      continue;
    }
    if (error != 0) return error;
    search.score = hit.score;
    if (!entries_may_not_fit()) return 0;
    virtual_columns_.complete(search.index, buf);
    search.score = score_by_words(search, buf, hit.row.key);
    if (search.score != 0) return 0;
    give_back_other_row();
  }
  return HA_ERR_END_OF_FILE;
}

/*
  Full text: the server's calls for MATCH ... AGAINST (search/search.h has the search itself).

  A search reads the entries of its words at the moment of the statement's first read, as the statement reads:
  at its snapshot with its own changes, or as they are now, with the ranges of the words locked. Where entries
  and rows may not fit (entries_may_not_fit()), each row is cut into words again, and its own words decide.

  The server asks for a row's score in two ways: of the row that ft_read() has just given, and of a row that
  came otherwise, of which it gives the record alone. The record has the primary key, which choose_columns()
  asks for.
*/
#include "handler/ha_tidesdb.h"

#include <algorithm>
#include <map>

#include "ha_partition.h"
#include "item_func.h"
#include "sql_class.h"
#include "sql_lex.h"

#include "handler/full_text_need.h"
#include "key/part_shape.h"
#include "search/full_text_kind.h"
#include "search/search.h"
#include "search/variables.h"
#include "store/store.h"
#include "sysvars.h"

using namespace tidesdb;

namespace {

/* Bytes of what one search keeps of its words' entries. */
constexpr size_t MOST_SEARCH_MEMORY = size_t{1} << 30;
/* Rows whose words an expanded query takes, and so many of these words at most. */
constexpr size_t BEST_ROWS = 20, MOST_EXPANSION = 200;
/* Entries between two looks at KILL. */
constexpr ulonglong ENTRIES_BETWEEN_LOOKS = 4096;

Slice slice_of_text(const String &text) {
  return {reinterpret_cast<const uchar *>(text.ptr()), text.length()};
}

/* The entries of a lookup's terms. */
tidesdb_seek seek_of(const Lookup &lookup, int mode) {
  tidesdb_seek seek;
  memset(&seek, 0, sizeof(seek));
  seek.key = slice_of(lookup.first).data;
  seek.key_size = seek.prefix_size = lookup.first.size();
  seek.where = TIDESDB_SEEK_AT_OR_AFTER;
  seek.mode = static_cast<uint8_t>(mode);
  return seek;
}

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

/* Memory that is short ends the statement, and not the server. */
template <class Result, class Call>
Result without_memory_errors(Result failed, Call call) {
  try {
    return call();
  } catch (const std::bad_alloc &) {
    my_error(ER_OUT_OF_RESOURCES, MYF(0));
    return failed;
  }
}

/* The server's handler for partitions asks all of them, whatever one answers. */
FT_INFO *ha_tidesdb::ft_init_ext(uint flags, uint index, String *text) {
  THD *thd = table->in_use;
  if (thd->is_error()) return nullptr;
  /* 10.11 looks for no index where a MATCH stands in the SET of UPDATE. */
  if (index >= index_kinds_.size() || !index_kinds_[index] || !index_kinds_[index]->full_text()) {
    my_error(ER_FT_MATCHING_KEY_NOT_FOUND, MYF(0));
    return nullptr;
  }
  return without_memory_errors<FT_INFO *>(nullptr, [&]() -> FT_INFO * {
    std::unique_ptr<FullTextSearch> search(new FullTextSearch);
    search->info = {&calls, &more_calls};
    search->handler = this;
    search->index = index;
    if (!make_conditions(flags, *text, search.get())) return nullptr;
    int error = index < hidden_.size() && hidden_[index] ? refuse_search_by_hidden_index(index)
                                                         : open_search(search.get());
    if (error == 0 && flags & FT_EXPAND) error = expand_search(*text, search.get());
    if (error != 0) {
      /* The client may have an error that says more. */
      if (error == HA_ERR_ABORTED_BY_USER)
        thd->send_kill_message();
      else if (!thd->is_error())
        print_error(error, MYF(0));
      return nullptr;
    }
    if (!choose_rows(flags, search.get())) {
      thd->send_kill_message();
      return nullptr;
    }
    return reinterpret_cast<FT_INFO *>(search.release());
  });
}

int ha_tidesdb::refuse_search_by_hidden_index(uint index) {
  if (const int error = begin_read()) return error == HA_ERR_END_OF_FILE ? 0 : error;
  return refuse_index_of_others(index, "searched");
}

/* False: the query has an error, which the client was told. */
bool ha_tidesdb::make_conditions(uint flags, const String &text, FullTextSearch *search) {
  const FullTextKind &kind = *index_kinds_[search->index]->full_text();
  Bm25 scoring = full_text::scoring();
  SearchFigures &figures = figures_of_searches();
  const auto sized = figures.sizes.try_emplace(search->index);
  SearchFigures::Sizes &sizes = sized.first->second;
  if (sized.second)
    for_each_partition([&](ha_tidesdb *partition) {
      sizes.rows += stats_of(partition->open_table_->primary()).entries;
      sizes.entries += stats_of(partition->open_table_->index(search->index)).entries;
      return 0;
    });
  scoring.rows = static_cast<double>(sizes.rows);
  if (sizes.rows && sizes.entries)
    scoring.mean_length = static_cast<double>(sizes.entries) / static_cast<double>(sizes.rows);
  std::unique_ptr<Conditions> conditions(new Conditions(kind, scoring));
  if (flags & FT_BOOL) {
    QueryNode query;
    std::string error;
    if (!read_boolean_query({slice_of_text(text), kind.charset(), character_size, kind.settings().blend},
                            &query, &error)) {
      my_printf_error(ER_PARSE_ERROR, "%s", MYF(0), error.c_str());
      return false;
    }
    conditions->set(query);
  } else {
    conditions->add_words(slice_of_text(text));
  }
  if (conditions->has_too_many_words()) {
    my_printf_error(ER_UNKNOWN_ERROR,
                    "TidesDB: the query has more than %zu words, or a phrase of more than %zu", MYF(0),
                    MOST_LOOKUPS, MOST_PHRASE);
    return false;
  }
  search->rows.reset(new RowSearch(std::move(conditions)));
  return true;
}

/* Where rows are locked, those that a search looks at and leaves out are locked, too: they come to match by
   changes that are no insertion of a word. ft_read() judges them. */
int ha_tidesdb::open_search(FullTextSearch *search) {
  if (const int error = begin_read()) return error == HA_ERR_END_OF_FILE ? 0 : error;
  if (const int error = lock_for_read()) return error;
  THD *const thd = table->in_use;
  const RowSearch::Source source{[&](const Lookup &lookup, const std::function<bool(Slice, Slice)> &take) {
                                   return read_postings(search->index, lookup, take);
                                 },
                                 [&](const Lookup &lookup, uint64_t *rows) {
                                   return table->part_info ? count_in_partitions(search->index, lookup, rows)
                                                           : 0;
                                 },
                                 [thd] { return thd_kill_level(thd) >= THD_ABORT_SOFTLY; }};
  SearchFigures &figures = figures_of_searches();
  const size_t most_memory = MOST_SEARCH_MEMORY - std::min(figures.memory, MOST_SEARCH_MEMORY);
  const bool locks =
      !lock_choice_.locks_nothing() && !reads_latest() && session_->isolation() > TIDESDB_READ_COMMITTED;
  int error = 0;
  const RowSearch::Result result =
      search->rows->run(*index_kinds_[search->index]->full_text(), source, most_memory, locks, &error);
  switch (result) {
    case RowSearch::Result::DONE:
      figures.memory += search->rows->memory();
      return 0;
    case RowSearch::Result::FAILED:
      return error;
    case RowSearch::Result::KILLED:
      return HA_ERR_ABORTED_BY_USER;
    case RowSearch::Result::DAMAGED:
      return session_->refuse("an entry of the index '" +
                              std::string(table->key_info[search->index].name.str) +
                              "' cannot be decoded; CHECK TABLE says more");
    case RowSearch::Result::TOO_LARGE:
      break;
  }
  return session_->refuse("too many rows have the words of this statement's searches: they take more than " +
                          std::to_string(MOST_SEARCH_MEMORY >> 20) +
                          " MB; ask for rarer words, or for longer beginnings of words");
}

/* EXCHANGE and CONVERT PARTITION: whether a FULLTEXT index of the statement's other table, of which one of
   both is a partition, has other rules of words. The server compares neither these nor parsers. */
bool ha_tidesdb::has_other_words() {
  THD *const thd = table->in_use;
  for (const TABLE_LIST *named = thd->lex->query_tables; named; named = named->next_global) {
    TABLE *const other = named->table;
    if (!other || other == table || !other->part_info == !table->part_info) continue;
    handler *single[] = {other->file, nullptr};
    handler **files =
        other->part_info ? static_cast<ha_partition *>(other->file)->get_child_handlers() : single;
    for (; *files; files++) {
      if ((*files)->ht != plugin.hton) break;
      const LEX_CSTRING *const differing = index_with_other_words(*static_cast<ha_tidesdb *>(*files));
      if (!differing) continue;
      push_warning_printf(
          thd, Sql_condition::WARN_LEVEL_WARN, ER_TABLES_DIFFERENT_METADATA,
          "TidesDB: the FULLTEXT index '%s' has other rules of words or another parser in `%s` "
          "than in `%s`. DROP KEY and ADD FULLTEXT KEY give it those of now",
          differing->str, other->s->table_name.str, table->s->table_name.str);
      return true;
    }
  }
  return false;
}

/* Of indexes with one name. */
const LEX_CSTRING *ha_tidesdb::index_with_other_words(const ha_tidesdb &other) const {
  for (uint i = 0; i < table->s->keys && i < index_kinds_.size(); i++) {
    const FullTextKind *const ours = index_kinds_[i] ? index_kinds_[i]->full_text() : nullptr;
    if (!ours || !other.open_table_) continue;
    const LEX_CSTRING &name = table->key_info[i].name;
    for (uint j = 0; j < other.table->s->keys && j < other.index_kinds_.size(); j++) {
      const FullTextKind *const theirs = other.index_kinds_[j] ? other.index_kinds_[j]->full_text() : nullptr;
      if (theirs && same_name(name, other.table->key_info[j].name) && theirs->settings() != ours->settings())
        return &name;
    }
  }
  return nullptr;
}

/* Kept by the table's first partition. */
SearchFigures &ha_tidesdb::figures_of_searches() {
  ha_tidesdb *keeper = this;
  for_each_partition([&](ha_tidesdb *partition) {
    keeper = partition;
    return 1;
  });
  keeper->search_figures_.begin(table->in_use->query_id);
  return keeper->search_figures_;
}

/* Entries of a lookup's terms, in the order of their keys. */
int ha_tidesdb::read_postings(uint index, const Lookup &lookup,
                              const std::function<bool(Slice, Slice)> &take) {
  tidesdb_cursor *cursor;
  if (const int status = cursor_of(index, &cursor)) return fail(status);
  const int mode = reads_latest()                 ? TIDESDB_READ_LATEST
                   : lock_choice_.locks_nothing() ? TIDESDB_READ_SNAPSHOT
                                                  : lock_choice_.gap_mode();
  const tidesdb_seek seek = seek_of(lookup, mode);
  ulonglong entries = 0;
  struct Placed {
    tidesdb_cursor *cursor;
    ~Placed() { tidesdb_cursor_reset(cursor); }
  } const placed{cursor};
  int status = tidesdb_cursor_seek(cursor, reading_txn(), &seek);
  for (; status == TIDESDB_OK || status == TIDESDB_SKIPPED; status = tidesdb_cursor_next(cursor)) {
    if (++entries % ENTRIES_BETWEEN_LOOKS == 0 && thd_kill_level(table->in_use) >= THD_ABORT_SOFTLY)
      return HA_ERR_ABORTED_BY_USER;
    if (status == TIDESDB_SKIPPED) continue;
    const tidesdb_row &row = cursor->rows[cursor->position];
    if (!take({row.key, row.key_size}, {row.value, row.value_size})) break;
  }
  return status == TIDESDB_OK || status == TIDESDB_NOT_FOUND ? 0 : fail(status);
}

/* All that the table has and the server has opened, this one among them. Ends with the first result other
   than 0. */
int ha_tidesdb::for_each_partition(const std::function<int(ha_tidesdb *)> &look) {
  if (!is_partition()) return look(this);
  handler **partitions = static_cast<ha_partition *>(table->file)->get_child_handlers();
  for (; *partitions; partitions++) {
    ha_tidesdb *const partition = static_cast<ha_tidesdb *>(*partitions);
    if (!partition->open_table_) continue;
    if (const int result = look(partition)) return result;
  }
  return 0;
}

/* Scores are those of the whole table: how many rows of all partitions have the lookup's terms (of a
   beginning: entries). */
int ha_tidesdb::count_in_partitions(uint index, const Lookup &lookup, uint64_t *rows) {
  SearchFigures &figures = figures_of_searches();
  const auto counted = figures.rows_with.try_emplace({index, lookup.first}, 0);
  uint64_t &sum = counted.first->second;
  int error = 0;
  if (counted.second)
    error = for_each_partition([&](ha_tidesdb *partition) {
      return partition->count_entries_of(index, lookup, reading_txn(), &sum);
    });
  *rows = sum;
  if (error == 0) return 0;
  figures.rows_with.erase(counted.first);
  return fail(error);
}

/* Adds to *rows. Status of the engine. */
int ha_tidesdb::count_entries_of(uint index, const Lookup &lookup, tidesdb_txn *txn, uint64_t *rows) {
  CursorHandle cursor;
  int status = open_cursor(open_table_->index(index), &cursor);
  const tidesdb_seek seek = seek_of(lookup, TIDESDB_READ_SNAPSHOT);
  uint64_t entries = 0;
  if (status == TIDESDB_OK) status = tidesdb_cursor_seek(cursor.get(), txn, &seek);
  if (status == TIDESDB_OK) status = tidesdb_cursor_count(cursor.get(), &entries);
  *rows += entries;
  return status == TIDESDB_NOT_FOUND ? static_cast<int>(TIDESDB_OK) : status;
}

/*
  WITH QUERY EXPANSION: searches once more, with the words of the best rows, those first that most of them
  have. (MyISAM takes all words of 20 rows.)
*/
int ha_tidesdb::expand_search(const String &text, FullTextSearch *search) {
  THD *const thd = table->in_use;
  if (!search->rows->sort([thd] { return thd_kill_level(thd) >= THD_ABORT_SOFTLY; }))
    return HA_ERR_ABORTED_BY_USER;
  struct Found {
    size_t rows = 0, frequency = 0;
  };
  std::map<std::string, Found> terms;
  const FullTextKind &kind = *index_kinds_[search->index]->full_text();
  EntrySet own;
  for (size_t place = 0; place < std::min(search->rows->count(), BEST_ROWS); place++) {
    if (const int error = read_words(search->index, search->rows->hit(place).row.key, &own)) return error;
    for (const EntrySet::Entry &entry : own) {
      Slice term, key;
      Posting posting;
      if (!kind.terms().split(entry.key.slice(), &term, &key) || !read_posting(entry.value.slice(), &posting))
        continue;
      Found &found = terms[string_of(term)];
      found.rows++;
      found.frequency += posting.frequency;
    }
  }
  std::vector<std::pair<std::string, Found>> best(terms.begin(), terms.end());
  std::stable_sort(best.begin(), best.end(), [](const auto &a, const auto &b) {
    return a.second.rows != b.second.rows ? a.second.rows > b.second.rows
                                          : a.second.frequency > b.second.frequency;
  });
  if (best.size() > MOST_EXPANSION) best.resize(MOST_EXPANSION);
  std::unique_ptr<Conditions> conditions(new Conditions(kind, search->rows->conditions().scoring()));
  conditions->add_words(slice_of_text(text));
  for (const auto &[term, found] : best)
    if (conditions->lookups().size() < MOST_LOOKUPS) conditions->add_term(slice_of(term));
  SearchFigures &figures = figures_of_searches();
  figures.memory -= std::min(figures.memory, search->rows->memory());
  search->rows.reset(new RowSearch(std::move(conditions)));
  return open_search(search);
}

/* The entries of a row in the index; none: the row is gone. */
int ha_tidesdb::read_words(uint index, Slice primary_key, EntrySet *entries) {
  entries->clear();
  if (!whole_reader_) whole_reader_.reset(new (std::nothrow) RowReader(*row_codec_));
  tidesdb_cursor *cursor;
  if (const int error = row_cursor(&cursor)) return error;
  Slice value;
  const bool latest = reads_latest() || !lock_choice_.locks_nothing();
  const int status = tidesdb_cursor_get(cursor, reading_txn(), primary_key.data, primary_key.size,
                                        latest ? TIDESDB_READ_LATEST : TIDESDB_READ_SNAPSHOT, &value);
  if (status == TIDESDB_NOT_FOUND) return 0;
  if (status != TIDESDB_OK) return fail(status);
  buffers_.kept_record.clear();
  uchar *const record = buffers_.kept_record.reserve(table_share->reclength);
  if (!whole_reader_ || !whole_reader_->choose(nullptr)) return HA_ERR_OUT_OF_MEM;
  if (!whole_reader_->read(primary_key, value, record)) return undecodable_row(value);
  make_entries(index, record, primary_key, entries);
  buffers_.kept_record.clear();
  return 0;
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
    const Slice first = slice_of(lookup.first), whole = slice_of(lookup.whole);
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
  encode_primary(record, &key);
  if (changes_rows_ || entries_may_not_fit())
    return without_memory_errors<float>(0, [&] { return score_by_words(search, record, key.slice()); });
  return search.rows->score_of(key.slice());
}

/*
  Which of the rows ft_read() gives, in which order, and whether it has to read them. Where it does not, their
  keys give what the statement needs of them: of COUNT(*) nothing, of a sort by score the reference. False:
  the statement was killed.
*/
bool ha_tidesdb::choose_rows(uint flags, FullTextSearch *search) {
  THD *const thd = table->in_use;
  bool whole = true;
  bitmap_clear_all(&table->tmp_set);
  const FullTextNeed need = FullTextNeed::of(table, search->index, flags, &table->tmp_set);
  const bool best_first = !need.any_order && (flags & FT_SORTED || need.unsorted);
  if (best_first)
    whole = search->rows->sort([thd] { return thd_kill_level(thd) >= THD_ABORT_SOFTLY; });
  else if (need.best != HA_POS_ERROR && !entries_may_not_fit() && !open_table_->rows_expire())
    search->rows->keep_best(need.best);
  search->keys_are_enough = need.knows_columns && !entries_may_not_fit() && has_self_contained_key();
  if (search->keys_are_enough && has_primary_key())
    for (const KeyPart &part : primary_codec_->parts()) bitmap_clear_bit(&table->tmp_set, part.field_index);
  search->keys_are_enough = search->keys_are_enough && bitmap_is_clear_all(&table->tmp_set);
  bitmap_clear_all(&table->tmp_set);
  return whole;
}

/* Whether all columns of the primary key can be read from it. */
bool ha_tidesdb::has_self_contained_key() const {
  if (!has_primary_key()) return true;
  const std::vector<KeyPart> &parts = primary_codec_->parts();
  return std::all_of(parts.begin(), parts.end(), part_is_self_contained);
}

/* What the statement needs of the row with this key. */
void ha_tidesdb::give_key(Slice key, uchar *buf) {
  restore_record(table, s->default_values);
  remember_row_number(key);
  if (!has_primary_key()) return;
  const uchar *at = key.data;
  for (const KeyPart &part : primary_codec_->parts()) {
    decode_fixed_part(part, at, buf);
    at += part.encoded_size;
  }
}

/*
  The search that gives the rows. The server sets it as `ft_handler`; its handler for partitions sets there
  the one that was made last, for whichever MATCH.
*/
FullTextSearch *ha_tidesdb::search_of_rows() {
  const TABLE_LIST *named = table->pos_in_table_list;
  if (is_partition() && named && named->select_lex) {
    List_iterator<Item_func_match> items(*named->select_lex->ftfunc_list);
    while (const Item_func_match *item = items++)
      if (item->table == table && item->join_key && item->ft_handler) return search_of(item);
  }
  return reinterpret_cast<FullTextSearch *>(ft_handler);
}

/* nullptr: not made (yet), or not in this partition. */
FullTextSearch *ha_tidesdb::search_of(const Item_func_match *item) {
  if (!item->ft_handler || !is_partition()) return reinterpret_cast<FullTextSearch *>(item->ft_handler);
  const uint number = partition_number();
  if (number == MY_BIT_NONE) return nullptr;
  return reinterpret_cast<FullTextSearch *>(
      reinterpret_cast<st_partition_ft_info *>(item->ft_handler)->part_ft_info[number]);
}

int ha_tidesdb::ft_init() {
  if (FullTextSearch *search = search_of_rows()) search->place = 0;
  return 0;
}

/* The next row of the search that the server has given to the handler. */
int ha_tidesdb::ft_read(uchar *buf) {
  FullTextSearch *const given = search_of_rows();
  if (!given) return HA_ERR_END_OF_FILE;
  FullTextSearch &search = *given;
  if (const int error = begin_read()) return error;
  if (const int error = lock_for_read()) return error;
  while (search.place < search.rows->count()) {
    const Hit &hit = search.rows->hit(search.place++);
    if (search.keys_are_enough) {
      give_key(hit.row.key, buf);
      search.score = hit.score;
      return 0;
    }
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
    search.score = without_memory_errors<float>(0, [&] { return score_by_words(search, buf, hit.row.key); });
    if (table->in_use->is_error()) return ERROR_IS_GIVEN;
    if (search.score != 0) return 0;
    unlock_row();
  }
  return HA_ERR_END_OF_FILE;
}

/*
  The handler: a table as one statement uses it.

  It conducts: the session (txn/) knows the transaction, the codecs (key/, row/) know bytes, OpenTable
  (ddl/) knows the families. The files beside this one are cut by what the server asks for:
    open.cc   flags, open and close, DDL calls      scan.cc   positions and reading rows
    write.cc  insert, update, delete, counters      lock.cc   statements, lock modes, table locks
    info.cc   statistics and costs                  admin.cc  CHECK, ANALYZE, OPTIMIZE
    index_sample.cc  rows of a value of an index    snapshot_reader.cc  one snapshot, for these
    foreign.cc  foreign keys, as the server asks for them, and on a row's way
    ttl.cc     how long rows live, on their way through writes and copies
    bulk_load.cc  loading a table that nobody sees  alter.cc  ALTER without a copy
    pushdown.cc  conditions on entries, multi-range read
    unique_lookups.cc  insertion into an empty table without lookups
    virtual_indexes.cc  indexes over virtual columns, where the session's values are others
    repair.cc  REPAIR, which leaves out no row
    unchecked_keys.cc  UNIQUE over long columns, WITHOUT OVERLAPS, where the server does not look
    cluster_keys.cc  certification keys of changed rows
    full_text.cc  MATCH ... AGAINST     match_scan.cc  UPDATE and DELETE by it
  Its state is in types of their own, each with its invariants:
    scan.h  one scan                    table_cursors.h  the engine's cursors
    match_scan.h  one through a search's rows
    lock_choice.h  what reads lock      lifetimes.h  when written rows expire
    row_writer.h  a row's operations    read_buffers.h  bytes and facts of the last read

  ServerHandler (server/) is the part that follows from the server's release.

  Layout: the primary family holds rows by the primary key's encoding or by a hidden 8-byte row number;
  each secondary index has a family of entries (key/key_codec.h).
*/
#ifndef TIDESDB_HANDLER_HA_TIDESDB_H
#define TIDESDB_HANDLER_HA_TIDESDB_H

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/local_changes.h"
#include "cluster/parent_keys.h"
#include "cluster/participation.h"
#include "ddl/entry_load.h"
#include "ddl/open_table.h"
#include "foreign/row_checks.h"
#include "key/ascending_keys.h"
#include "key/key_codec.h"
#include "key/sql_headers.h"
#include "handler/row_counts.h"
#include "handler/child_table.h"
#include "handler/lifetimes.h"
#include "handler/lock_choice.h"
#include "handler/match_scan.h"
#include "handler/read_buffers.h"
#include "handler/row_writer.h"
#include "handler/scan.h"
#include "handler/search_figures.h"
#include "handler/table_cursors.h"
#include "handler/unchecked_keys.h"
#include "handler_base.h"
#include "row/row_codec.h"
#include "row/virtual_columns.h"
#include "store/handles.h"
#include "txn/session.h"

namespace tidesdb {
class AlterContext;
struct AlterPlan;
class BulkLoad;
class DdlGroup;
struct Lookup;
class MergeSort;
class RowSearch;
struct SampleSize;

/* What the server holds of a search. */
struct FullTextSearch {
  FT_INFO_EXT info; /* first: the server knows it by this */
  class ::ha_tidesdb *handler = nullptr;
  uint index = 0;
  std::unique_ptr<RowSearch> rows;
  bool keys_are_enough = false; /* ft_read() reads no row */
  size_t place = 0;             /* of the next row that ft_read() gives */
  float score = 0;              /* of the last one */

  ~FullTextSearch();
};
}  // namespace tidesdb

class ha_tidesdb final : public tidesdb::ServerHandler, private tidesdb::ReferrerActions {
 public:
  ha_tidesdb(handlerton *hton, TABLE_SHARE *share);
  ~ha_tidesdb() override;

  /* --- open.cc --- */
  Table_flags table_flags() const override;
  ulong index_flags(uint index, uint part, bool all_parts) const override;
  const char *index_type(uint index) override;
  /* Any index may be read from end to end to save a sort. */
  const key_map *keys_to_use_for_scanning() override { return &key_map_full; }
  uint max_supported_keys() const override { return MAX_KEY; }
  uint max_supported_key_part_length() const override { return MAX_DATA_LENGTH_FOR_KEY; }
  uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }
  int open(const char *name, int mode, uint test_if_locked) override;
  int close() override;
  handler *clone(const char *name, MEM_ROOT *mem_root) override;
  int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
  int delete_table(const char *name) override;
  int rename_table(const char *from, const char *to) override;
  int truncate() override;
  int reset_auto_increment(ulonglong value) override;
  void update_create_info(HA_CREATE_INFO *info) override;
  bool check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes) override;
  bool get_error_message(int error, String *text) override;
  void print_error(int error, myf flags) override;
  bool is_fatal_error(int error, uint flags) override;

  /* --- foreign.cc --- */
  char *get_foreign_key_create_info() override;
  void free_foreign_key_create_info(char *text) override;
  int get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  int get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  bool referenced_by_foreign_key() const noexcept override;
  int discard_or_import_tablespace(my_bool discard) override;
  bool can_switch_engines() override;
  bool get_foreign_dup_key(char *child_table, uint child_table_size, char *child_key,
                           uint child_key_size) override;
  /* Of a child: locks and reads the row with this key, all that is stored of it. */
  int read_for_action(tidesdb::Slice primary_key, uchar *buf);
  /* A child's rows are changed by actions alone: the statement's user and variables have no part in it. */
  void serve_actions(uint64_t foreign_key) {
    lifetimes_.of_action = true;
    action_ = foreign_key;
  }
  /* The virtual columns of an index, from the stored ones in `record`. */
  void compute_indexed_columns(uint index, uchar *record) { virtual_columns_.complete(index, record); }
  /* Key number of the last HA_ERR_FOUND_DUPP_KEY. */
  uint duplicate_key() const { return session_->duplicate_key(); }
  /* Of a child: rows are written past the server, which checks nothing. */
  void check_all_keys() { checks_all_keys_ = true; }

  /* --- alter.cc --- */
  enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered,
                                                             Alter_inplace_info *info) override;
  bool can_convert_nocopy(const Field &field, const Column_definition &to) const override;
  Compare_keys compare_key_parts(const Field &field, const Column_definition &to, const KEY_PART_INFO &part,
                                 const KEY_PART_INFO &part_to) const override;

  /* --- lock.cc --- */
  uint lock_count() const override { return 0; }
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) override;
  int external_lock(THD *thd, int lock_type) override;
  int start_stmt(THD *thd, thr_lock_type lock_type) override;
  int reset() override;
  int extra(ha_extra_function operation) override;
  void unlock_row() override;
  void try_semi_consistent_read(bool yes) override;
  bool was_semi_consistent_read() override { return scan_.peek == Peek::PEEKED; }
  void init_table_handle_for_HANDLER() override;
  void column_bitmaps_signal() override;

  /* --- scan.cc --- */
  int rnd_init(bool scan) override;
  int rnd_end() override;
  int rnd_next(uchar *buf) override;
  int rnd_pos(uchar *buf, uchar *pos) override;
  void position(const uchar *record) override;
  int cmp_ref(const uchar *a, const uchar *b) override;
  int index_init(uint index, bool sorted) override;
  int index_end() override;
  int index_read_map(uchar *buf, const uchar *key, key_part_map map, ha_rkey_function find) override;
  int index_next(uchar *buf) override;
  int index_next_same(uchar *buf, const uchar *key, uint length) override;
  int index_prev(uchar *buf) override;
  int index_first(uchar *buf) override;
  int index_last(uchar *buf) override;
  int read_range_first(const key_range *start, const key_range *end, bool eq_range, bool sorted) override;
  int read_range_next() override;

  int calculate_checksum() override;

  /* --- full_text.cc --- */
  FT_INFO *ft_init_ext(uint flags, uint index, String *text) override;
  int ft_init() override;
  int pre_ft_init() override { return ft_init(); }
  int ft_read(uchar *buf) override;
  float score_of_record(const tidesdb::FullTextSearch &search, const uchar *record);

  /* --- match_scan.cc --- */
  const COND *cond_push(const COND *condition) override;

  /* --- ttl.cc --- */
  int rnd_pos_by_record(uchar *record) override;

  /* --- pushdown.cc --- */
  Item *idx_cond_push(uint index, Item *condition) override;
  bool rowid_filter_push(Rowid_filter *filter) override;
  int multi_range_read_init(RANGE_SEQ_IF *ranges, void *parameter, uint count, uint mode,
                            HANDLER_BUFFER *buffer) override;
  int multi_range_read_next(range_id_t *range) override;
  ha_rows multi_range_read_info(uint index, uint count, uint rows, uint key_parts, uint *buffer_size,
                                uint *mode, Cost_estimate *cost) override;
  int multi_range_read_explain_info(uint mode, char *text, size_t size) override;

  /* --- write.cc --- */
  int write_row(const uchar *record) override;
  int write_any_row(const uchar *record);
  int update_row(const uchar *old_record, const uchar *new_record) override;
  int delete_row(const uchar *record) override;

  /* --- auto_increment.cc --- */
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                          ulonglong *reserved) override;
  bool autoinc_lock_mode_stmt_unsafe() const override;

  /* --- info.cc --- */
  int info(uint flag) override;
  ha_rows records_in_range(uint index, const key_range *min, const key_range *max,
                           page_range *pages) override;

  /* --- count.cc --- */
  ha_rows records() override;

  /* --- admin.cc --- */
  int analyze(THD *thd, HA_CHECK_OPT *) override;
  int optimize(THD *thd, HA_CHECK_OPT *) override;
  int check(THD *thd, HA_CHECK_OPT *options) override;
  /* --- repair.cc --- */
  int repair(THD *thd, HA_CHECK_OPT *) override;

 protected:
  /* --- pushdown.cc --- */
  void prepare_ranges(uint index, uint *mode) override;

  /* --- alter.cc --- */
  bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) override;

 private:
  using Slice = tidesdb::Slice;
  using ByteBuffer = tidesdb::ByteBuffer;
  using KeyCodec = tidesdb::KeyCodec;
  using EntrySet = tidesdb::EntrySet;

  using RowLock = tidesdb::LockChoice::RowLock;
  using Position = tidesdb::Scan::Position;
  using Peek = tidesdb::Scan::Peek;

  bool has_primary_key() const { return table_share->primary_key != MAX_KEY; }
  /* One row, which changes at once and outside of all transactions. */
  bool is_sequence() const { return table_share->table_type == TABLE_TYPE_SEQUENCE; }
  bool is_primary(uint index) const { return index == table_share->primary_key; }
  /* nullptr: entries are not in the order of the index's columns (IndexKind::columns). */
  const KeyCodec *columns_of(uint index) const {
    return is_primary(index) ? primary_codec_.get() : index_codecs_[index];
  }

  /* open.cc */
  bool locks_keep_statement_order() const;
  bool may_be_filled_beside_writers() const;
  tidesdb::OpenTable *find_open_table(const char *name, int *error);
  tidesdb::Session *session_of_error() const;

  /* alter.cc */
  int finish_indexes(tidesdb::AlterContext *context);
  int add_alter(tidesdb::AlterContext *context, TABLE *altered, const HA_CREATE_INFO *info,
                tidesdb::DdlGroup *group);
  void roll_back_alter(tidesdb::AlterContext *context);
  int make_value_locks_of_new_keys(const tidesdb::AlterPlan &plan);
  int check_new_keys(const tidesdb::AlterPlan &plan, const TABLE *altered);
  void leave_old_definition(const tidesdb::AlterContext &context);

  /* lock.cc */
  bool disk_is_short_of(THD *thd) const;
  int note_short_disk(THD *thd) const;
  int enter_statement(THD *thd, bool may_write);
  /* For calls that the server does not announce: those of its handler for sequences, under LOCK TABLES. */
  int ensure_session(bool may_write) { return session_ ? 0 : enter_statement(table->in_use, may_write); }
  /* Gives up what holds on to families that are others now. */
  void leave_families();
  int finish_copy();
  int lock_table(int mode);
  int begin_change();
  int refuse_rows_in_cluster();
  tidesdb::cluster::RowsOf rows_for_cluster(THD *thd) const;
  bool is_shut_for_copy(bool may_write) const;
  int watch_source_of_copy();
  int lock_key(tidesdb_family *family, Slice key);
  /* The table's intention lock for what the statement reads. */
  int lock_for_read();
  /* What is read is not shared with other transactions (or not as part of one). */
  bool reads_latest() const { return bulk_ || is_temporary_ || is_sequence(); }
  /* The transaction to read in: of a table that is being filled, the one that fills it. */
  tidesdb_txn *reading_txn() const;
  int read_mode() const;
  /* For entries of the scanned secondary index. */
  int entry_mode() const;
  int fail(int status) { return session_->fail(status, open_table_->name()); }

  /* count.cc */
  uint index_to_count();
  int count_entries(uint index, uint64_t *rows);

  /* admin.cc */
  int compare_with_indexes(THD *thd, tidesdb_txn *txn, bool each_entry);
  int list_orphans(THD *thd, tidesdb_txn *txn);
  int refuse_own_files();
  /* repair.cc */
  int say_differences(THD *thd);
  int say_duplicates(THD *thd, uint index, tidesdb_txn *txn, tidesdb::MergeSort *keys);
  struct UnfitRows {
    ulonglong failing = 0, homeless = 0;
    std::string check; /* of the first failing one */
    /* Each with the server's number of its error. */
    std::vector<std::pair<uint, std::string>> complaints() const;
  };
  bool has_conditions_on_rows() const { return table->check_constraints || table->part_info; }
  int count_unfit_rows(UnfitRows *unfit);
  int say_unfit_rows(THD *thd);
  int refuse_unfit_rows();
  bool is_checked_by_server(uint index) const;
  bool is_excluding(uint index, const uchar *record);
  /* Calls `look` for each row of the snapshot, which is in record[0] then, until it returns another status
     than TIDESDB_OK. TIDESDB_INTERRUPTED: the statement was killed; ERROR_IS_GIVEN: a row has an unknown
     layout, and the client was told. */
  int look_at_rows(tidesdb_txn *txn, const std::function<int(Slice)> &look);

  /* scan.cc */
  bool reads_current_entries() const;
  bool reads_over_newer() const;
  bool entries_may_not_fit() const { return reads_current_entries() || reads_over_newer(); }
  bool computes_virtual_columns();
  int begin_read();
  int choose_columns();
  int cursor_of(uint index, tidesdb_cursor **cursor);
  int row_cursor(tidesdb_cursor **cursor);
  int seek(uchar where, Slice key, size_t prefix);
  int step(int direction);
  int step_past_value(int direction);
  void note_lock();
  bool scans_rows() const { return scan_.index == MAX_KEY || is_primary(scan_.index); }
  void keep_record(const uchar *buf);
  void bring_record_back(uchar *buf);
  int judge(tidesdb::Slice primary_key, const uchar *buf);
  int return_row(int status, int direction, uchar *buf, int none, bool past_value = false);
  int return_current_row(const tidesdb_row &row, uchar *buf);
  void give_back_other_row();
  void look_again(tidesdb::Slice key, tidesdb::Slice primary_key);
  bool fits_over_newer(Slice entry_key, Slice primary_key, uchar *buf);
  int return_entry(const tidesdb_row &entry, uchar *buf);
  /* Says why a row cannot be read: in the error log, and to the client where its layout is unknown. */
  int undecodable_row(Slice value) const;
  int read_by_key(Slice primary_key, uchar *buf, int none, int flags);
  int read_unique(uchar *buf, int none);
  const EntrySet::Entry *own_entry(const uchar *buf, Slice entry_key, Slice primary_key);
  bool is_long_unique(uint index) const;
  int lock_for_check(const uchar *key, key_part_map map, ha_rkey_function find);
  void remember_row_number(Slice primary_key);

  /* full_text.cc */
  bool make_conditions(uint flags, const String &text, tidesdb::FullTextSearch *search);
  int open_search(tidesdb::FullTextSearch *search);
  int refuse_search_by_hidden_index(uint index);
  tidesdb::SearchFigures &figures_of_searches();
  bool has_other_words();
  const LEX_CSTRING *index_with_other_words(const ha_tidesdb &other) const;
  int for_each_partition(const std::function<int(ha_tidesdb *)> &look);
  int count_in_partitions(uint index, const tidesdb::Lookup &lookup, uint64_t *rows);
  int count_entries_of(uint index, const tidesdb::Lookup &lookup, tidesdb_txn *txn, uint64_t *rows);
  int expand_search(const String &text, tidesdb::FullTextSearch *search);
  int read_words(uint index, Slice primary_key, EntrySet *entries);
  tidesdb::FullTextSearch *search_of_rows();
  tidesdb::FullTextSearch *search_of(const Item_func_match *item);
  bool choose_rows(uint flags, tidesdb::FullTextSearch *search);
  bool has_self_contained_key() const;
  void give_key(Slice key, uchar *buf);
  int read_postings(uint index, const tidesdb::Lookup &lookup, const std::function<bool(Slice, Slice)> &take);
  float score_by_words(const tidesdb::FullTextSearch &search, const uchar *record, Slice primary_key);

  /* match_scan.cc */
  const tidesdb::FullTextSearch *choose_search();
  int next_match(uchar *buf);

  /* pushdown.cc */
  bool has_index_condition() const { return pushed_idx_cond && pushed_idx_cond_keyno == scan_.index; }
  /* A filter is a help only: where entries do not tell the whole primary key, rows go without. */
  bool filters_rowids() const {
    return rowid_filter_is_active && pushed_rowid_filter && (ref_is_key() || primary_codec_->is_covering());
  }
  bool has_pushed_condition() const { return has_index_condition() || filters_rowids(); }
  bool ref_is_key() const;
  bool judging_needs_columns() const { return has_index_condition() || !ref_is_key(); }
  const MY_BITMAP *condition_columns() const;
  check_result_t check_pushed_condition(Slice primary_key, const uchar *buf);
  bool orders_ranges(uint index) const;
  void offer_rowid_filters();

  /* write.cc */
  void encode_primary(const uchar *record, ByteBuffer *key);
  int next_row_number();
  /* The row with this key changes: for an ALTER that builds indexes meanwhile. */
  void log_change(Slice primary_key);
  int apply_writes();
  void note_changed_table();
  bool changes_indexed_expressions(TABLE *altered, const tidesdb::AlterPlan &plan);
  bool builds_beside_writers() const;
  void add_write(tidesdb_family *family, Slice key, Slice value, int kind, bool lock, uint index,
                 bool replaces = false);
  int write_row_now(const uchar *record);
  int write_sequence(const uchar *record, bool replaces);

  /* cluster_keys.cc */
  int append_table_keys(THD *thd);
  int append_keys(const uchar *old_record, const uchar *new_record);
  /* The keys of a row that has changed without an error, for the write set of a cluster. */
  int with_keys(int error, const uchar *old_record, const uchar *new_record) {
    return tidesdb::cluster::takes_part() && error == 0 ? append_keys(old_record, new_record) : error;
  }

  /* auto_increment.cc */
  int raise_auto_increment(const uchar *record);
  int take_numbers(ulonglong count, ulonglong offset, ulonglong increment, ulonglong limit, uint64_t *first);
  int next_automatic_value(ulonglong wanted, ulonglong *next);

  /* index_entries.cc */
  void make_entries(uint index, const uchar *record, Slice primary_key, EntrySet *entries);
  bool may_change(uint index, const uchar *old_record, const uchar *new_record) const;
  void insert_entry(uint index, const EntrySet::Entry &entry, int kind);
  int delete_entry(uint index, const EntrySet::Entry &entry, Slice primary_key);
  int rewrite_entry(uint index, const tidesdb::RowChange &change, const EntrySet::Entry &before,
                    const EntrySet::Entry &after, Slice primary_key);
  void insert_entries(const uchar *record);
  int update_entries(const tidesdb::RowChange &change, const uchar *old_record, Slice old_key,
                     const uchar *new_record, Slice new_key, bool keys_differ);
  int delete_entries(const uchar *record);

  /* foreign.cc */
  int enter_foreign_keys();
  int append_child_keys();
  bool checks_foreign_keys() const;
  /* `moves`: an UPDATE gives the row another primary key. */
  int apply_checked(const uchar *old_record, const uchar *new_record, bool moves = false);
  int apply_with_checks(const uchar *old_record, const uchar *new_record, bool moves);
  void start_bulk_insert(ha_rows rows, uint flags) override;
  int end_bulk_insert() override;
  void begin_putting_off();
  int with_violating_row(int error) const;
  int check_filled_row(tidesdb_txn *txn, const uchar *record);

  /* foreign_actions.cc */
  int apply_with_actions(const uchar *old_record, const uchar *new_record,
                         const std::function<int()> &check_references);
  int child_table(const tidesdb::ForeignKey &key, tidesdb::ChildTable **child);
  int open_child(const tidesdb::ForeignKey &key, bool *gone) override;
  int apply_action(const tidesdb::ForeignKey &key, const std::vector<Field *> &fields,
                   const uchar *new_record, Slice row_key, Slice search) override;

  /* scan.cc */
  int read_whole_row(Slice primary_key, uchar *buf);

  /* rows_in_parts.cc */
  bool may_lack_blobs() const;
  void note_parts(const tidesdb::RowReader &reader, Slice primary_key, Slice place);
  bool is_same_row(const uchar *old_record, const uchar *new_record, bool *unread) const;
  size_t second_part_threshold() const;
  bool was_read_last(Slice primary_key) const {
    return !last_row_.key.empty() && tidesdb::same_bytes(last_row_.key.slice(), primary_key);
  }
  bool keeps_rest(const uchar *old_record, const uchar *new_record, Slice old_key) const;
  int read_parts_again(Slice primary_key);
  bool replaces_rest(const uchar *new_record) const;
  enum class OtherRest { SURE, CHECKSUM_TELLS, READ_TELLS };
  OtherRest compare_lengths(const uchar *new_record) const;
  int read_alongside(Slice primary_key, int parts, tidesdb::RowReader *reader, uchar **record);
  int read_whole_alongside(Slice primary_key, uchar **record);
  int fill_unset_blobs(const uchar *old_record, const uchar *new_record);
  int compare_whole(Slice primary_key, const uchar *new_record, bool *same);
  int refuse_unread_columns() const;
  int apply_if_other(const uchar *old_record, const uchar *new_record, Slice primary_key);
  int encode_update(const uchar *old_record, const uchar *new_record, Slice old_key, bool moves,
                    bool may_be_same);

  /* open.cc */
  bool needs_no_blobs() const;

  /* unique_lookups.cc */
  int decide_unique_lookups();
  int is_empty(bool *empty);
  void note_unique_lookups(const char *why);
  /* How a key is written that decides uniqueness; `place`: its key number, [keys]: the rows. */
  int insertion(uint place, Slice key) {
    return unique_lookups_ == UniqueLookups::SKIPPED && inserted_keys_.is_above_all(place, key)
               ? TIDESDB_PUT
               : TIDESDB_INSERT;
  }

  /* virtual_indexes.cc */
  int enter_virtual_columns(THD *thd, bool may_write);
  void hide_indexes();
  int refuse_hidden_index(uint index);
  int refuse_index_of_others(uint index, const char *use);
  bool search_own_entry(const uchar *buf, key_part_map map, ha_rkey_function find, KeyCodec::Search *search);
  bool passes_over_entry();
  bool entries_may_be_cut_short() const;

  /* put_off_words.cc */
  bool may_put_off_words() const;
  void begin_putting_words_off();
  int put_off_words(const uchar *record);
  int write_put_off_words();

  const uchar *with_indexed_columns(const uchar *record, ByteBuffer *buffer);

  /* alter.cc */
  bool is_linked_column(const Field &field) const;

  /* unchecked_keys.cc */
  bool is_partition() const;
  uint partition_number();
  bool is_left_out_of_statement();
  int check_unchecked_keys(const uchar *old_record, const uchar *new_record, Slice old_key);
  bool has_same_columns(uint index, const uchar *old_record, const uchar *new_record) const;
  const uchar *row_of_index(uint index, const uchar *record);
  bool has_other_values(uint index, const uchar *record);
  bool looks_itself(uint index, bool is_new, const uchar *record);
  int lock_search(uint index, const uchar *record, size_t *prefix);
  int look_at_other_rows(uint index, const uchar *record, Slice own_key);
  int read_other_row(uint index, Slice key, bool *is_there);
  bool has_entry(uint index, Slice entry_key, const uchar *other_record);
  bool is_same_value(uint index, const uchar *record, const uchar *other_record);
  int refuse_duplicate(uint index, Slice key);

  /* ttl.cc */
  void enter_expiry(THD *thd);
  int choose_expiry(const uchar *record);
  int check_lifetime(const Field *column);
  int find_other_owner(uint index, Slice key, Slice primary_key, bool *is_others);
  int check_renewed_entry(uint index, Slice key, Slice primary_key);
  /* A row, or an entry that is enough for the server, was read. */
  void note_expiry(uint64_t expiry) {
    last_row_.expiry = expiry;
    if (lifetimes_.copies_rows()) note_copied_row();
  }
  void note_copied_row();

  /* info.cc */
  void fill_variable_statistics(bool shown);
  void fill_entry_sizes();
  void refresh_statistics(bool for_display);
  void show_statistics();
  bool keys_are_shown(uint flag) const;
  bool is_largest_partition() const;
  int sample_indexes(tidesdb_txn *txn, uint64_t rows, const tidesdb::SampleSize &size,
                     tidesdb::RowsPerKey *rows_per_key);

  friend class tidesdb::BulkLoad;

  /* --- of the table --- */
  tidesdb::OpenTable *open_table_ = nullptr;
  bool is_temporary_ = false;
  uint truncations_ = 0;                    /* of the table, when its families were used first */
  std::unique_ptr<KeyCodec> primary_codec_; /* nullptr: no primary key */
  /* By key number; the primary key's place is empty. */
  std::vector<std::unique_ptr<tidesdb::IndexKind>> index_kinds_;
  std::vector<const tidesdb::FullTextKind *> full_text_kinds_; /* those among them */
  /* IndexKind::columns(): the server's searches and scans go by them. */
  std::vector<const KeyCodec *> index_codecs_;
  std::unique_ptr<tidesdb::RowCodec> row_codec_;
  std::unique_ptr<tidesdb::RowReader> row_reader_;
  std::unique_ptr<tidesdb::RowReader> whole_reader_; /* for rows read alongside the scan */
  tidesdb::VirtualColumns virtual_columns_;
  tidesdb::ExpressionSettings opened_settings_; /* of the session that opened the table */
  std::vector<bool> hidden_;                    /* by key number: from the optimizer, in this statement */
  std::map<uint64_t, std::unique_ptr<tidesdb::ChildTable>> child_tables_; /* by number of the foreign key */
  uint64_t unlinked_at_ =
      0; /* foreign::generation() at which the table had no foreign keys, nor others to it */
  std::unique_ptr<tidesdb::cluster::ParentKeys> parent_keys_; /* none: not needed yet */
  std::unique_ptr<tidesdb::RowChecks>
      row_checks_; /* none: the table has had no foreign key since it was opened */
  /* Of each index: its columns, and those that its virtual columns are computed from. */
  std::vector<MY_BITMAP> index_columns_;
  std::vector<my_bitmap_map> index_columns_memory_;
  bool nothing_needs_blobs_ = false;      /* of its row: no entry, no computed column */
  std::vector<uint> server_checked_keys_; /* UNIQUE over long columns and WITHOUT OVERLAPS */
  bool checks_all_keys_ = false;          /* the server checks none of these */
  uint64_t action_ = 0;                   /* number of the foreign key whose actions it serves; 0: none */
  uint partition_number_ = MY_BIT_NONE;   /* once it was asked for */
  std::unique_ptr<tidesdb::OtherRows> other_rows_;

  /* --- of the statement --- */
  /* nullptr: the handler has no part in a statement. A session may end, or be another's, while the handler
     waits in the table cache. */
  tidesdb::Session *session_ = nullptr;
  tidesdb::RowsOfStatement rows_of_statement_;
  tidesdb::LockChoice lock_choice_;
  tidesdb::HeldTableLocks table_locks_;
  tidesdb::Lifetimes lifetimes_;
  bool changes_rows_ = false; /* UPDATE, DELETE, ...: whole rows are read */
  bool checksums_ = false;    /* CHECKSUM TABLE */
  bool lacked_rests_ = false; /* of rows that may be changed, some were read without their second parts */
  bool rowid_filters_offered_ = true;
  /* Whether insertions look for duplicates. SKIPPED: the table was empty and is locked, and the keys of this
     statement are in inserted_keys_. */
  enum class UniqueLookups : uchar { UNDECIDED, MADE, SKIPPED };
  UniqueLookups unique_lookups_ = UniqueLookups::UNDECIDED;
  tidesdb::AscendingKeys inserted_keys_;
  /* In which append_child_keys() was called. */
  query_id_t child_keys_in_ = 0;
  /* In which the hidden indexes were named. */
  query_id_t hidden_noted_ = 0;
  /* ChangedTables::epoch() when this table was added. */
  ulonglong noted_change_ = 0;
  std::unique_ptr<tidesdb::BulkLoad> bulk_;
  /* Many insertions, as the server tells of them. */
  struct ManyRows {
    bool begins = false;      /* the first row is to come */
    bool words_begin = false; /* the same; of full text indexes */
    bool ignores_duplicates = false;
    ulong first_row = 0; /* its number for errors; 0: they have none */
  };
  ManyRows inserts_;
  /* By key number; empty: entries of words are written with their row. */
  std::vector<std::unique_ptr<tidesdb::EntryLoad>> put_off_words_;

  tidesdb::SearchFigures search_figures_;

  /* --- of the scan --- */
  tidesdb::Scan scan_;
  tidesdb::MatchScan match_scan_;
  tidesdb::TableCursors cursors_;
  tidesdb::ReadBuffers buffers_;
  tidesdb::LastRow last_row_;

  /* --- of the row being written --- */
  tidesdb::RowWriter writer_;
  const uchar *moment_of_change_ = nullptr; /* for actions: as in row/row_end.h */
};

#endif

/*
  UPDATE and DELETE of one table by MATCH.

  The server pushes the condition after rnd_init(), and checks each row itself. Where rows of the result match
  a search, the scan goes through that search's rows, in the order of their keys as every scan: others are
  neither read nor locked. A row that comes to match meanwhile needs an entry in the ranges of the search's
  words (open_search() keeps them).

  The search is whole before the first row changes: no change moves a row within the scan.
*/
#include "handler/match_scan.h"

#include "item_cmpfunc.h"
#include "item_func.h"
#include "sql_class.h"

#include "handler/ha_tidesdb.h"
#include "search/search.h"

using namespace tidesdb;

namespace {

const Item_func_match *match_of(Item *item) {
  item = item->real_item();
  const bool is_match =
      item->type() == Item::FUNC_ITEM && static_cast<Item_func *>(item)->functype() == Item_func::FT_FUNC;
  return is_match ? static_cast<Item_func_match *>(item) : nullptr;
}

/* MATCH > constant, or >= one. */
const Item_func_match *match_above(Item *item, Item *constant, bool is_more) {
  const Item_func_match *const match = match_of(item);
  if (!match || !constant->const_item() || constant->is_expensive() || constant->cols() != 1) return nullptr;
  /* A text would warn once more. */
  if (constant->cmp_type() == STRING_RESULT) return nullptr;
  const double value = constant->val_real();
  return !constant->null_value && (is_more ? value >= 0 : value > 0) ? match : nullptr;
}

/* The MATCH that has a positive score where the item is true: the ones that the server knows for SELECT
   (add_ft_keys). */
const Item_func_match *implied_match(Item *item) {
  if (const Item_func_match *match = match_of(item)) return match;
  item = item->real_item();
  if (item->type() != Item::FUNC_ITEM) return nullptr;
  Item_func *const function = static_cast<Item_func *>(item);
  if (function->argument_count() != 2) return nullptr;
  Item **const arguments = function->arguments();
  switch (function->functype()) {
    case Item_func::GT_FUNC:
      return match_above(arguments[0], arguments[1], true);
    case Item_func::GE_FUNC:
      return match_above(arguments[0], arguments[1], false);
    case Item_func::LT_FUNC:
      return match_above(arguments[1], arguments[0], true);
    case Item_func::LE_FUNC:
      return match_above(arguments[1], arguments[0], false);
    default:
      return nullptr;
  }
}

}  // namespace

void MatchScan::begin(Item *condition, const TABLE *table) {
  forget();
  place = 0;
  const auto add = [&](const Item_func_match *match) {
    if (match && match->table == table) matches.push_back(match);
  };
  Item *const item = condition->real_item();
  if (item->type() != Item::COND_ITEM) return add(implied_match(item));
  if (static_cast<Item_cond *>(item)->functype() != Item_func::COND_AND_FUNC) return;
  List_iterator<Item> parts(*static_cast<Item_cond *>(item)->argument_list());
  while (Item *part = parts++) add(implied_match(part));
}

/* The server calls it for SELECT, too, and while it makes a plan: neither begins a scan here. */
const COND *ha_tidesdb::cond_push(const COND *condition) {
  const int command = thd_sql_command(table->in_use);
  if (changes_rows_ && (command == SQLCOM_UPDATE || command == SQLCOM_DELETE) && table->file->inited == RND)
    match_scan_.begin(const_cast<COND *>(condition), table);
  return condition;
}

/* The one with the fewest rows. DELETE makes its searches after the condition was pushed. */
const FullTextSearch *ha_tidesdb::choose_search() {
  const FullTextSearch *least = nullptr;
  for (const Item_func_match *match : match_scan_.matches) {
    const FullTextSearch *search = search_of(match);
    if (search && (!least || search->rows->count() < least->rows->count())) least = search;
  }
  return least;
}

int ha_tidesdb::next_match(uchar *buf) {
  const RowSearch &rows = *match_scan_.search->rows;
  if (scan_.peek == Peek::PEEKED) { /* the same row once more, locked */
    scan_.peek = Peek::RELOCKING;
    match_scan_.place--;
  }
  while (match_scan_.place < rows.count()) {
    const int error =
        read_by_key(rows.hit(match_scan_.place++).row.key, buf, HA_ERR_KEY_NOT_FOUND, TIDESDB_READ_BY_ENTRY);
    scan_.end_relocking();
    if (error != HA_ERR_KEY_NOT_FOUND) return error;
    unlock_row();
    if (thd_kill_level(table->in_use) >= THD_ABORT_SOFTLY) return HA_ERR_ABORTED_BY_USER;
  }
  return HA_ERR_END_OF_FILE;
}

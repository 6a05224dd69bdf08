#include "handler/full_text_need.h"

#include "item_func.h"
#include "item_sum.h"
#include "sql_class.h"
#include "sql_lex.h"
#include "sql_select.h"

namespace tidesdb {

namespace {

using Matches = List<Item_func_match>;

/* The server makes the searches of a list one after the other: the first one without. */
Item_func_match *item_being_made(Matches *matches, const TABLE *table, uint index, uint flags) {
  List_iterator<Item_func_match> each(*matches);
  while (Item_func_match *item = each++)
    if (item->table == table && item->key == index && !item->master && !item->ft_handler &&
        item->match_flags == flags)
      return item;
  return nullptr;
}

/* Whether `other` is answered by the search of `item`. */
bool is_same_match(Item *other, const Item_func_match *item) {
  other = other->real_item();
  if (other->type() != Item::FUNC_ITEM || static_cast<Item_func *>(other)->functype() != Item_func::FT_FUNC)
    return false;
  const Item_func_match *match = static_cast<Item_func_match *>(other);
  return match == item || match->master == item;
}

bool is_row_source(Matches *matches, const Item_func_match *item) {
  List_iterator<Item_func_match> each(*matches);
  while (const Item_func_match *other = each++)
    if ((other == item || other->master == item) && other->join_key) return true;
  return false;
}

/* Sets the columns of `table` that the item's value is made of, but for those of MATCH. False: it has parts
   that are not known here. */
bool add_columns(Item *item, const TABLE *table, MY_BITMAP *columns) {
  if (item->const_item()) return true;
  switch (item->type()) {
    case Item::FIELD_ITEM: {
      const Field *field = static_cast<Item_field *>(item)->field;
      if (!field) return false;
      if (field->table == table) bitmap_set_bit(columns, field->field_index);
      return true;
    }
    case Item::REF_ITEM:
      return add_columns(*static_cast<Item_ref *>(item)->ref, table, columns);
    case Item::FUNC_ITEM: {
      Item_func *function = static_cast<Item_func *>(item);
      if (function->functype() == Item_func::FT_FUNC) return true;
      if (function->functype() == Item_func::FUNC_SP || item->with_subquery()) return false;
      for (uint i = 0; i < function->argument_count(); i++)
        if (!add_columns(function->arguments()[i], table, columns)) return false;
      return true;
    }
    case Item::COND_ITEM: {
      List_iterator<Item> parts(*static_cast<Item_cond *>(item)->argument_list());
      while (Item *part = parts++)
        if (!add_columns(part, table, columns)) return false;
      return true;
    }
    case Item::SUM_FUNC_ITEM: {
      Item_sum *sum = static_cast<Item_sum *>(item);
      for (uint i = 0; i < sum->get_arg_count(); i++)
        if (!add_columns(sum->get_arg(i), table, columns)) return false;
      return true;
    }
    default:
      return false;
  }
}

bool add_columns(ORDER *order, const TABLE *table, MY_BITMAP *columns) {
  for (; order; order = order->next)
    if (!add_columns(*order->item, table, columns)) return false;
  return true;
}

bool add_all_columns(JOIN *join, const TABLE *table, MY_BITMAP *columns) {
  List_iterator<Item> items(join->all_fields);
  while (Item *item = items++)
    if (!add_columns(item, table, columns)) return false;
  for (Item *condition : {join->conds, join->having})
    if (condition && !add_columns(condition, table, columns)) return false;
  return add_columns(join->order, table, columns) && add_columns(join->group_list, table, columns);
}

bool takes_rows_in_any_order(Item *item) {
  if (item->const_item()) return true;
  if (item->type() != Item::SUM_FUNC_ITEM) return false;
  switch (static_cast<Item_sum *>(item)->sum_func()) {
    case Item_sum::COUNT_FUNC:
    case Item_sum::COUNT_DISTINCT_FUNC:
    case Item_sum::SUM_FUNC:
    case Item_sum::SUM_DISTINCT_FUNC:
    case Item_sum::AVG_FUNC:
    case Item_sum::AVG_DISTINCT_FUNC:
    case Item_sum::MIN_FUNC:
    case Item_sum::MAX_FUNC:
    case Item_sum::STD_FUNC:
    case Item_sum::VARIANCE_FUNC:
    case Item_sum::SUM_BIT_FUNC:
      return true;
    default:
      return false;
  }
}

/* Whether the rows become one, in which their order is lost: that of COUNT(*). */
bool loses_order(JOIN *join) {
  if (!join->implicit_grouping) return false;
  List_iterator<Item> items(join->all_fields);
  while (Item *item = items++)
    if (!takes_rows_in_any_order(item)) return false;
  return true;
}

/* Whether each row that the search gives is one of the result. */
bool is_whole_condition(JOIN *join, const Item_func_match *item) {
  const SELECT_LEX *block = join->select_lex;
  return join->conds && is_same_match(join->conds, item) && !join->having && !join->group_list &&
         !join->select_distinct && !block->with_sum_func && !block->with_rownum &&
         block->window_funcs.elements == 0 && !(join->select_options & OPTION_FOUND_ROWS) && !join->procedure;
}

}  // namespace

FullTextNeed FullTextNeed::of(TABLE *table, uint index, uint flags, MY_BITMAP *columns) {
  FullTextNeed need;
  const TABLE_LIST *named = table->pos_in_table_list;
  if (!named || !named->select_lex || table->in_use->lex->sql_command != SQLCOM_SELECT) return need;
  Matches *const matches = named->select_lex->ftfunc_list;
  const Item_func_match *item = item_being_made(matches, table, index, flags);
  JOIN *join = named->select_lex->join;
  if (!item || !join || !is_row_source(matches, item)) return need;
  /* Rows of other tables, and a column that is computed, may need any. */
  if (join->table_count != join->const_tables + 1 || named->outer_join || named->embedding ||
      table->versioned() || table->part_info)
    return need;
  need.any_order = loses_order(join);
  need.unsorted = !join->order && !join->group_list;
  need.knows_columns = !table->vfield && add_all_columns(join, table, columns);
  if (!is_whole_condition(join, item)) return need;
  const bool by_score =
      join->order && is_same_match(*join->order->item, item) && join->order->direction == ORDER::ORDER_DESC;
  if (by_score) need.best = join->select_limit;
  return need;
}

}  // namespace tidesdb

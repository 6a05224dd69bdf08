/*
  AUTO_INCREMENT: numbers that the server asks for, numbers that rows bring along, and the next one that an
  ALTER sets.

  They are a counter of the engine with the rows (COUNTER_AUTO_INCREMENT), which belongs to no transaction: a
  number that was given is not given again, whatever becomes of its row.
*/
#include "handler/ha_tidesdb.h"

#include <cmath>

#include "sql_class.h"

#include "handler/bulk_load.h"
#include "server.h"

using namespace tidesdb;

namespace {

/* The value that an AUTO_INCREMENT column has in its table's record, where its numbers go on from it; else 0.
   A FLOAT or DOUBLE holds values above the numbers that it counts through. */
ulonglong number_in(const Field &field) {
  if (field.is_null()) return 0;
  const ulonglong greatest = field.get_max_int_value();
  if (field.result_type() == REAL_RESULT) {
    const double value = rint(const_cast<Field &>(field).val_real());
    return value >= 1 && value <= static_cast<double>(greatest) ? static_cast<ulonglong>(value) : 0;
  }
  const longlong value = const_cast<Field &>(field).val_int();
  return value < 0 && !field.is_unsigned() ? 0 : static_cast<ulonglong>(value);
}

/* The server ignores an offset where the increment is 1. */
bool counts_below_offset(ulonglong offset, ulonglong increment) {
  return offset > increment && increment > 1;
}

/* A range of numbers and the counter's value after it. */
struct NumberRange {
  ulonglong first, last, next;
};

/*
  With auto_increment_offset above auto_increment_increment, the numbers that InnoDB gives from `counter` on.
  Below the offset they are those to which the server's own formula comes by its overflow
  (compute_next_insert_id()). After a number that a row brings along, too, the rest of an increment is left
  out.
*/
NumberRange range_below_offset(ulonglong counter, ulonglong count, ulonglong offset, ulonglong increment) {
  const ulonglong first = (counter - 1 + increment - offset) / increment * increment + offset;
  return {first, first + (count - 1) * increment, first - first % increment + count * increment};
}

}  // namespace

/* An explicit value, or one that did not come from our counter, must not be handed out later. */
int ha_tidesdb::raise_auto_increment(const uchar *record) {
  Field *field = table->found_next_number_field;
  if (!field) return 0;
  const my_ptrdiff_t offset = record - table->record[0];
  field->move_field_offset(offset);
  ulonglong number = number_in(*field);
  field->move_field_offset(-offset);
  if (number == 0) return 0;
  const system_variables &session = table->in_use->variables;
  if (counts_below_offset(session.auto_increment_offset, session.auto_increment_increment))
    number += session.auto_increment_increment - 1 - number % session.auto_increment_increment;
  if (number < tidesdb_counter_peek(open_table_->primary(), COUNTER_AUTO_INCREMENT)) return 0;
  tidesdb_txn *txn = bulk_ ? bulk_->txn() : session_->txn();
  const int status = tidesdb_counter_raise(txn, open_table_->primary(), COUNTER_AUTO_INCREMENT, number);
  return status == TIDESDB_OK ? 0 : fail(status);
}

int ha_tidesdb::take_numbers(ulonglong count, ulonglong offset, ulonglong increment, ulonglong limit,
                             uint64_t *first) {
  tidesdb_family *rows = open_table_->primary();
  if (!counts_below_offset(offset, increment))
    return tidesdb_counter_take(rows, COUNTER_AUTO_INCREMENT, count, offset, increment, limit, first);
  /* Another connection may take some in between; then those taken here are left out. */
  for (;;) {
    const ulonglong counter = tidesdb_counter_peek(rows, COUNTER_AUTO_INCREMENT);
    const NumberRange range = range_below_offset(counter, count, offset, increment);
    if (range.first < counter || range.last < range.first || range.last > limit) return TIDESDB_INVALID;
    const ulonglong numbers = std::min(range.next - 1, limit) - counter + 1;
    uint64_t taken;
    const int status = tidesdb_counter_take(rows, COUNTER_AUTO_INCREMENT, numbers, 1, 1, limit, &taken);
    *first = range.first;
    if (status != TIDESDB_OK || taken == counter) return status;
  }
}

void ha_tidesdb::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                                    ulonglong *reserved) {
  const ulonglong limit = table->next_number_field->get_max_int_value();
  uint64_t taken;
  *reserved = std::max(wanted, 1ULL);
  int status = take_numbers(*reserved, offset, increment, limit, &taken);
  if (status != TIDESDB_OK && *reserved > 1) {
    *reserved = 1; /* the end of the type is near */
    status = take_numbers(1, offset, increment, limit, &taken);
  }
  /* Past the type's end the server makes an error of its own (167) of a value that does not fit. */
  const ulonglong none = status == TIDESDB_INVALID && limit < ULONGLONG_MAX ? limit + 1 : ULONGLONG_MAX;
  *first = status == TIDESDB_OK ? taken : none;
}

/*
  Whether the statement, repeated from the binary log, might give other numbers. The log has the first one:
  those that follow are the next ones here too where all are taken at once, which needs a known number of
  rows, and none of them with a number that it brings along (another statement's numbers may come after
  that).
*/
bool ha_tidesdb::autoinc_lock_mode_stmt_unsafe() const {
  LEX *lex = ha_thd()->lex;
  switch (lex->sql_command) {
    case SQLCOM_UPDATE:
    case SQLCOM_UPDATE_MULTI:
    case SQLCOM_DELETE:
    case SQLCOM_DELETE_MULTI:
    case SQLCOM_OPTIMIZE:
    case SQLCOM_ANALYZE:
    case SQLCOM_CHECK:
    case SQLCOM_REPAIR:
      return false; /* they give none */
    case SQLCOM_INSERT:
    case SQLCOM_REPLACE:
      break;
    default:
      return true;
  }
  if (lex->many_values.elements <= 1) return false;
  const Field *number = table->found_next_number_field;
  if (!number || lex->field_list.is_empty()) return true;
  List_iterator_fast<Item> named(lex->field_list);
  while (const Item *item = named++)
    if (same_name(number->field_name, item->name)) return true;
  return false;
}

/* AUTO_INCREMENT = wanted: not below what stands in the table. 0 in *next: there is no such column. */
int ha_tidesdb::next_automatic_value(ulonglong wanted, ulonglong *next) {
  *next = 0;
  Field *field = table->found_next_number_field;
  if (!field) return 0;
  *next = std::max(wanted, 1ULL);
  if (*next >= tidesdb_counter_peek(open_table_->primary(), COUNTER_AUTO_INCREMENT)) return 0;
  MY_BITMAP *const columns = table->read_set;
  table->use_all_columns();
  int error = ha_index_init(table_share->next_number_index, true);
  if (!error) {
    const KEY &key = table->key_info[table_share->next_number_index];
    const bool descending = key.key_part[table_share->next_number_keypart].key_part_flag & HA_REVERSE_SORT;
    error = descending ? ha_index_first(table->record[0]) : ha_index_last(table->record[0]);
    if (!error) {
      const longlong greatest = field->val_int();
      if (greatest > 0 || field->is_unsigned()) {
        /* The greatest number of all is never passed: the next INSERT answers that there are no more. */
        const ulonglong last = std::min(static_cast<ulonglong>(greatest), ULONGLONG_MAX - 1);
        *next = std::max(*next, last + 1);
      }
    }
    if (error == HA_ERR_END_OF_FILE || error == HA_ERR_KEY_NOT_FOUND) error = 0;
    const int ended = ha_index_end();
    if (!error) error = ended;
  }
  table->read_set = columns;
  return error;
}

/*
  The closed list of variables that are known and have no effect in this design. At its default such a name is
  silent. Another value gives one line in the error log for each name, and a note to the SET.
*/
#ifndef TIDESDB_NAMES_WITHOUT_EFFECT_H
#define TIDESDB_NAMES_WITHOUT_EFFECT_H

#include <string>
#include <type_traits>

#include "key/sql_headers.h"

struct st_mysql_sys_var;

namespace tidesdb {
namespace sysvars {

enum NameWithoutEffect {
  UNIFIED_MEMTABLE,
  UNIFIED_SKIP_LIST_MAX_LEVEL,
  UNIFIED_SKIP_LIST_PROBABILITY,
  MULTIPART_THRESHOLD,
  MULTIPART_PART_SIZE,
  LOCAL_CACHE_MAX,
  CONCURRENT_UPLOADS,
  CONCURRENT_DOWNLOADS,
  RANGE_DELETE_MIN_ROWS,
  WRITE_BUFFER_SIZE,
  BLOCK_INDEXES,
  DIVIDING_LEVEL_OFFSET,
  SKIP_LIST_MAX_LEVEL,
  SKIP_LIST_PROBABILITY,
  INDEX_SAMPLE_RATIO,
  BLOCK_INDEX_PREFIX_LEN,
  FLUSH_THREADS,
  CONCURRENT_FLUSHES,
  NAMES_WITHOUT_EFFECT
};

std::string text_of(ulonglong value);
std::string text_of(ulong value);
std::string text_of(my_bool value);
std::string text_of(double value);

/* The log has one line for each name, so that no client can fill it. */
void log_without_effect(NameWithoutEffect name, const std::string &value);
void push_note_without_effect(THD *thd, NameWithoutEffect name);

/* At the start of the server. */
template <class Value>
void note_no_effect(NameWithoutEffect name, Value value, Value standard) {
  if (value != standard) log_without_effect(name, text_of(value));
}

/* SET of a variable without effect. */
template <class Value, NameWithoutEffect NAME, ulonglong STANDARD>
void set_without_effect(THD *thd, st_mysql_sys_var *, void *target, const void *save) {
  Value value = *static_cast<const Value *>(save);
  if constexpr (std::is_same_v<Value, double>) value = value < 1 ? value * 100 : value;
  *static_cast<Value *>(target) = value;
  if (value == static_cast<Value>(STANDARD)) return;
  log_without_effect(NAME, text_of(value));
  push_note_without_effect(thd, NAME);
}

}  // namespace sysvars
}  // namespace tidesdb
#endif

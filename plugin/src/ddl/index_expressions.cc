#include "ddl/index_expressions.h"

#include <algorithm>

#include "sql_class.h"

namespace tidesdb {

namespace {

/* Of texts in any order: an ALTER changes that of columns. Records keep it (FNV-1a), and 0 is none. */
uint64_t hash_of_expressions(std::vector<std::string> texts) {
  if (texts.empty()) return 0;
  std::sort(texts.begin(), texts.end());
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::string &text : texts)
    for (size_t at = 0; at <= text.size(); at++) /* (with its zero byte) */
      hash = (hash ^ static_cast<uint8_t>(text.c_str()[at])) * 0x100000001b3ULL;
  return hash == 0 ? 1 : hash;
}

/* Opens a definition under the settings of the indexes. false: not all of them can be had, and some
   expressions are not told. */
bool open_expressions(TABLE *table, const TableRecord &record, VirtualColumns *columns) {
  std::string why;
  return columns->compile(table, record.indexes) && columns->prepare(table->in_use, &why);
}

bool has_settings(const TableRecord &record) {
  return std::any_of(record.indexes.begin(), record.indexes.end(),
                     [](const IndexRecord &index) { return index.has_settings; });
}

}  // namespace

void take_expressions(TABLE *table, TableRecord *record) {
  record->expressions_of.clear();
  if (!has_settings(*record)) return;
  VirtualColumns columns;
  open_expressions(table, *record, &columns);
  bool all_fit = true;
  for (uint key = 0; key < record->indexes.size(); key++) {
    IndexRecord &index = record->indexes[key];
    const uint64_t now = index.has_settings ? hash_of_expressions(columns.expressions(key)) : 0;
    if (index.is_stale || (now == 0 && index.expressions != 0))
      all_fit = false;
    else
      index.expressions = now;
  }
  /* The next opening is to look at the others again. */
  if (all_fit) record->expressions_of = definition_identity(*table->s);
}

void mark_other_expressions(TABLE *table, TableRecord *record) {
  const std::string definition = definition_identity(*table->s);
  const auto is_known = [](const IndexRecord &index) { return index.expressions != 0; };
  if (record->expressions_of == definition ||
      std::none_of(record->indexes.begin(), record->indexes.end(), is_known))
    return;
  VirtualColumns columns;
  open_expressions(table, *record, &columns);
  bool all_fit = true;
  for (uint key = 0; key < record->indexes.size(); key++) {
    IndexRecord &index = record->indexes[key];
    const uint64_t now = is_known(index) ? hash_of_expressions(columns.expressions(key)) : 0;
    index.is_stale = now != 0 && now != index.expressions;
    if (index.is_stale || (is_known(index) && now == 0)) all_fit = false;
  }
  if (all_fit) record->expressions_of = definition;
}

bool changes_expressions(const VirtualColumns &before, const TableRecord &known, TABLE *altered,
                         const AlterPlan &plan) {
  if (!before.has_any()) return false;
  VirtualColumns after;
  open_expressions(altered, plan.record, &after);
  for (uint key = 0; key < plan.record.indexes.size(); key++) {
    for (uint number = 0; number < known.indexes.size(); number++) {
      if (known.indexes[number].id != plan.record.indexes[key].id || !before.index_has_any(number)) continue;
      std::vector<std::string> texts = before.expressions(number);
      for (std::string &text : texts) text = with_new_names(text, plan.renames);
      if (hash_of_expressions(texts) != hash_of_expressions(after.expressions(key))) return true;
    }
  }
  return false;
}

}  // namespace tidesdb

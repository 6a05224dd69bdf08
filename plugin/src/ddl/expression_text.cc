#include "ddl/expression_text.h"

#include "sql_class.h"

namespace tidesdb {

namespace {

/* Where the quoted word that begins at `from` ends: after its closing mark. Doubled marks belong to it, and
   so does what a backslash stands before in a string. */
size_t end_of_quoted(const std::string &text, size_t from) {
  const char mark = text[from];
  size_t at = from + 1;
  while (at < text.size()) {
    if (text[at] == '\\' && mark == '\'') {
      at += 2;
    } else if (text[at] != mark) {
      at++;
    } else if (at + 1 < text.size() && text[at + 1] == mark) {
      at += 2;
    } else {
      return at + 1;
    }
  }
  return text.size();
}

std::string without_doubled_marks(const std::string &word) {
  std::string plain;
  for (size_t at = 0; at < word.size(); at++) {
    plain += word[at];
    if (word[at] == '`') at++;
  }
  return plain;
}

/* Parts of a generated column are functions, rows, columns and constants; the server allows no others. */
void append_collations(Item *item, std::string *names) {
  const CHARSET_INFO *collation = item->collation.collation;
  const std::string name(collation->coll_name.str, collation->coll_name.length);
  const size_t end = name.find('_');
  *names += ' ' + (end == std::string::npos ? name : name.substr(end + 1));
  if (item->type() == Item::ROW_ITEM)
    for (uint i = 0; i < item->cols(); i++) append_collations(item->element_index(i), names);
  if (item->type() != Item::FUNC_ITEM && item->type() != Item::COND_ITEM) return;
  Item_func *function = static_cast<Item_func *>(item);
  for (uint i = 0; i < function->argument_count(); i++) append_collations(function->arguments()[i], names);
  if (item->type() != Item::COND_ITEM) return;
  List_iterator_fast<Item> each(*static_cast<Item_cond *>(item)->argument_list());
  while (Item *part = each++) append_collations(part, names);
}

}  // namespace

std::string quoted_name(const std::string &name) {
  std::string quoted = "`";
  for (const char c : name) quoted.append(c == '`' ? 2 : 1, c);
  return quoted + '`';
}

std::string with_new_names(const std::string &text, const Renames &renames) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '`' && text[at] != '\'') {
      out += text[at++];
      continue;
    }
    const size_t end = end_of_quoted(text, at);
    const std::string word = text.substr(at, end - at);
    const auto other = word[0] == '`' && word.size() > 2
                           ? renames.find(without_doubled_marks(word.substr(1, word.size() - 2)))
                           : renames.end();
    out += other == renames.end() ? word : quoted_name(other->second);
    at = end;
  }
  return out;
}

std::string expression_text(const Virtual_column_info *expression) {
  StringBuffer<256> text;
  expression->expr->print_for_table_def(&text);
  return std::string(text.ptr(), text.length());
}

std::string collations_of(const Virtual_column_info *expression) {
  std::string names;
  append_collations(expression->expr, &names);
  return names;
}

bool reads_column(const Virtual_column_info *expression, const Field *field) {
  List<Item_field> columns;
  expression->expr->walk(&Item::collect_item_field_processor, false, &columns);
  List_iterator_fast<Item_field> each(columns);
  while (const Item_field *column = each++)
    if (column->field == field) return true;
  return false;
}

bool is_checked(const TABLE *table, const Field *field) {
  if (!table->check_constraints) return false;
  for (Virtual_column_info **check = table->check_constraints; *check; check++)
    if (reads_column(*check, field)) return true;
  return false;
}

bool same_expression(const Virtual_column_info *before, const Virtual_column_info *after,
                     const Renames &renames) {
  const std::string old_text = expression_text(before);
  return (renames.empty() ? old_text : with_new_names(old_text, renames)) == expression_text(after);
}

}  // namespace tidesdb

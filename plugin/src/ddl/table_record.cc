#include "ddl/table_record.h"

#include <algorithm>

#include "row/virtual_columns.h"
#include "server.h"
#include "search/ngram_parser.h"
#include "search/variables.h"

namespace tidesdb {

namespace {

constexpr uint8_t FLAG_PRIMARY_KEY = 1;
constexpr uint8_t FLAG_PARENT = 2;
constexpr uint8_t FLAG_DROPPED_KEYS = 4;
constexpr uint8_t FLAG_EXPRESSIONS = 8;
constexpr uint8_t FLAG_UNIQUE = 1;
constexpr uint8_t FLAG_NULLABLE = 1;
constexpr uint8_t FLAG_NULL = 1;

/* Without column numbers and history: there was no instant ALTER. */
constexpr uint8_t VERSION_WITHOUT_HISTORY = 1;
constexpr uint8_t VERSION_WITHOUT_FOREIGN_KEYS = 2;
constexpr uint8_t VERSION_WITHOUT_SETTINGS = 3;
constexpr uint8_t VERSION_WITHOUT_FULL_TEXT = 4;
constexpr uint8_t VERSION_WITHOUT_LANGUAGE = 5;

class Writer {
 public:
  explicit Writer(std::vector<uint8_t> *out) : out_(out) {}
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) out_->push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
  void bytes(const std::string &value) { out_->insert(out_->end(), value.begin(), value.end()); }
  void text(const std::string &value) {
    number(value.size(), 2);
    bytes(value);
  }

 private:
  std::vector<uint8_t> *out_;
};

class Reader {
 public:
  explicit Reader(const std::vector<uint8_t> &in) : in_(in) {}
  uint64_t number(int bytes) {
    if (in_.size() - at_ < static_cast<size_t>(bytes)) {
      good_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= static_cast<uint64_t>(in_[at_ + i]) << (8 * i);
    at_ += static_cast<size_t>(bytes);
    return value;
  }
  std::string text() {
    const size_t size = number(2);
    if (!good_ || in_.size() - at_ < size) {
      good_ = false;
      return "";
    }
    std::string value(reinterpret_cast<const char *>(in_.data() + at_), size);
    at_ += size;
    return value;
  }
  /* A list's entries: calls `read` for each; its size has so many bytes. */
  template <class Read>
  void list(Read read) {
    const size_t count = number(2);
    for (size_t i = 0; i < count && good_; i++) read();
  }
  bool good() const { return good_; }
  bool at_end() const { return at_ == in_.size(); }

 private:
  const std::vector<uint8_t> &in_;
  size_t at_ = 0;
  bool good_ = true;
};

void write_keys(const std::vector<ForeignKeyRecord> &keys, Writer *out) {
  out->number(keys.size(), 2);
  for (const ForeignKeyRecord &key : keys) {
    out->text(key.name);
    out->number(key.number, 8);
    out->text(key.parent_database);
    out->text(key.parent_table);
    out->number(key.on_delete, 1);
    out->number(key.on_update, 1);
    out->number(key.columns.size(), 2);
    for (const ForeignKeyRecord::Column &column : key.columns) {
      out->number(column.id, 4);
      out->text(column.referenced);
    }
  }
}

void write_settings(const std::vector<IndexRecord> &indexes, Writer *out) {
  const auto has_settings = [](const IndexRecord &index) { return index.has_settings; };
  out->number(static_cast<uint64_t>(std::count_if(indexes.begin(), indexes.end(), has_settings)), 2);
  for (const IndexRecord &index : indexes) {
    if (!index.has_settings) continue;
    const ExpressionSettings &settings = index.settings;
    out->number(index.id, 4);
    out->text(settings.zone);
    out->number(settings.zone_rules, 8);
    out->number(settings.sql_mode, 8);
    out->number(settings.old_mode, 8);
    out->number(settings.regex_flags, 8);
    out->number(settings.division, 4);
    out->number(settings.packet, 8);
    out->number(static_cast<uint64_t>(settings.moment), 8);
    out->number(settings.day, 4);
    out->text(settings.collations);
  }
}

void read_settings(Reader *in, std::vector<IndexRecord> *indexes) {
  in->list([&] {
    const uint32_t id = static_cast<uint32_t>(in->number(4));
    ExpressionSettings settings;
    settings.zone = in->text();
    settings.zone_rules = in->number(8);
    settings.sql_mode = in->number(8);
    settings.old_mode = in->number(8);
    settings.regex_flags = in->number(8);
    settings.division = static_cast<uint32_t>(in->number(4));
    settings.packet = in->number(8);
    settings.moment = static_cast<int64_t>(in->number(8));
    settings.day = static_cast<uint32_t>(in->number(4));
    settings.collations = in->text();
    for (IndexRecord &index : *indexes) {
      if (index.id != id) continue;
      index.has_settings = true;
      index.settings = settings;
    }
  });
}

bool has_expressions(const IndexRecord &index) { return index.has_settings && index.expressions != 0; }

void write_expressions(const TableRecord &record, Writer *out) {
  const std::vector<IndexRecord> &indexes = record.indexes;
  out->text(record.expressions_of);
  out->number(static_cast<uint64_t>(std::count_if(indexes.begin(), indexes.end(), has_expressions)), 2);
  for (const IndexRecord &index : indexes) {
    if (!has_expressions(index)) continue;
    out->number(index.id, 4);
    out->number(index.expressions, 8);
  }
}

void read_expressions(Reader *in, TableRecord *record) {
  record->expressions_of = in->text();
  in->list([&] {
    const uint32_t id = static_cast<uint32_t>(in->number(4));
    const uint64_t expressions = in->number(8);
    for (IndexRecord &index : record->indexes)
      if (index.id == id) index.expressions = expressions;
  });
}

bool is_full_text_index(const IndexRecord &index) { return index.is_full_text; }

/* Settings that version 5 does not have. */
bool has_language(const FullTextSettings &settings) {
  return !settings.parser.empty() || settings.stopwords == Stopwords::OWN;
}

bool has_language_index(const IndexRecord &index) {
  return index.is_full_text && has_language(index.full_text);
}

void write_full_text(const std::vector<IndexRecord> &indexes, bool with_language, Writer *out) {
  out->number(static_cast<uint64_t>(std::count_if(indexes.begin(), indexes.end(), is_full_text_index)), 2);
  for (const IndexRecord &index : indexes) {
    if (!index.is_full_text) continue;
    const FullTextSettings &settings = index.full_text;
    out->number(index.id, 4);
    out->number(settings.rule, 1);
    out->number(settings.least_characters, 1);
    out->number(settings.most_characters, 1);
    out->number(static_cast<uint64_t>(settings.stopwords), 1);
    out->text(settings.blend);
    if (!with_language) continue;
    out->text(settings.parser);
    out->text(settings.stopword_list);
  }
}

/* Whether this build cuts words by them. */
bool knows(const FullTextSettings &settings, bool with_language) {
  const bool own = settings.stopwords == Stopwords::OWN;
  const bool parses = settings.parser.empty() ||
                      (settings.cuts_ngrams() && settings.least_characters == settings.most_characters &&
                       settings.least_characters >= LEAST_NGRAM && settings.most_characters <= MOST_NGRAM);
  return settings.rule == FULL_TEXT_RULE && parses &&
         settings.stopwords <= (with_language ? Stopwords::OWN : Stopwords::INNODB) &&
         own != settings.stopword_list.empty();
}

/* False: an index is cut into words by a rule that this build does not have. */
bool read_full_text(Reader *in, bool with_language, std::vector<IndexRecord> *indexes) {
  bool is_known = true;
  in->list([&] {
    const uint32_t id = static_cast<uint32_t>(in->number(4));
    FullTextSettings settings;
    settings.rule = static_cast<uint8_t>(in->number(1));
    settings.least_characters = static_cast<uint8_t>(in->number(1));
    settings.most_characters = static_cast<uint8_t>(in->number(1));
    settings.stopwords = static_cast<Stopwords>(in->number(1));
    settings.blend = in->text();
    if (with_language) {
      settings.parser = in->text();
      settings.stopword_list = in->text();
    }
    is_known = is_known && knows(settings, with_language);
    for (IndexRecord &index : *indexes) {
      if (index.id != id) continue;
      index.is_full_text = true;
      index.full_text = settings;
    }
  });
  return is_known;
}

void read_keys(Reader *in, std::vector<ForeignKeyRecord> *keys) {
  in->list([&] {
    ForeignKeyRecord key;
    key.name = in->text();
    key.number = in->number(8);
    key.parent_database = in->text();
    key.parent_table = in->text();
    key.on_delete = static_cast<uint8_t>(in->number(1));
    key.on_update = static_cast<uint8_t>(in->number(1));
    in->list([&] {
      ForeignKeyRecord::Column column;
      column.id = static_cast<uint32_t>(in->number(4));
      column.referenced = in->text();
      key.columns.push_back(std::move(column));
    });
    keys->push_back(std::move(key));
  });
}

}  // namespace

std::vector<uint8_t> TableRecord::encode() const {
  std::vector<uint8_t> bytes;
  Writer out(&bytes);
  const bool has_dropped_keys = !dropped_keys.empty();
  const bool has_settings = std::any_of(indexes.begin(), indexes.end(),
                                        [](const IndexRecord &index) { return index.has_settings; });
  const bool knows_expressions = std::any_of(indexes.begin(), indexes.end(), has_expressions);
  const bool has_full_text = std::any_of(indexes.begin(), indexes.end(), is_full_text_index);
  const bool has_links = is_parent || !foreign_keys.empty() || has_dropped_keys || !home.empty() ||
                         has_settings || has_full_text;
  const bool has_languages = std::any_of(indexes.begin(), indexes.end(), has_language_index);
  out.number(has_languages   ? TABLE_RECORD_VERSION
             : has_full_text ? VERSION_WITHOUT_LANGUAGE
             : has_settings  ? VERSION_WITHOUT_FULL_TEXT
             : has_links     ? VERSION_WITHOUT_SETTINGS
                             : VERSION_WITHOUT_FOREIGN_KEYS,
             1);
  out.number((has_primary_key ? FLAG_PRIMARY_KEY : 0) | (is_parent ? FLAG_PARENT : 0) |
                 (has_dropped_keys ? FLAG_DROPPED_KEYS : 0) | (knows_expressions ? FLAG_EXPRESSIONS : 0),
             1);
  out.number(table_id, 8);
  out.number(create_id, 8);
  out.number(history.version, 8);
  out.number(next_index_id, 4);
  out.number(analyzed_rows, 8);
  out.text(definition);
  out.number(history.next_column_id, 4);
  out.number(columns.size(), 2);
  for (size_t i = 0; i < columns.size(); i++) {
    const ColumnRecord &column = columns[i];
    out.number(history.column_ids[i], 4);
    out.number(column.type, 1);
    out.number(column.nullable ? FLAG_NULLABLE : 0, 1);
    out.number(column.size, 4);
    out.text(column.name);
  }
  out.number(indexes.size(), 2);
  for (const IndexRecord &index : indexes) {
    out.number(index.id, 4);
    out.number(index.unique ? FLAG_UNIQUE : 0, 1);
    out.text(index.name);
    out.number(index.rows_per_key.size(), 2);
    for (const uint64_t rows : index.rows_per_key) out.number(rows, 8);
  }
  out.number(history.older.size(), 2);
  for (const RowLayout &layout : history.older) {
    out.number(layout.version, 8);
    out.number(layout.null_bytes, 2);
    out.number(layout.columns.size(), 2);
    for (const LayoutColumn &column : layout.columns) {
      out.number(column.id, 4);
      out.number(column.kind, 1);
      out.number(column.size, 4);
      out.number(column.null, 2);
    }
  }
  out.number(history.defaults.size(), 2);
  for (const ColumnDefault &value : history.defaults) {
    out.number(value.id, 4);
    out.number(value.null ? FLAG_NULL : 0, 1);
    out.text(value.value);
  }
  if (!has_links) return bytes;
  write_keys(foreign_keys, &out);
  out.text(home);
  if (has_dropped_keys) write_keys(dropped_keys, &out);
  if (has_settings || has_full_text) write_settings(indexes, &out);
  if (knows_expressions) write_expressions(*this, &out);
  if (has_full_text) write_full_text(indexes, has_languages, &out);
  return bytes;
}

bool TableRecord::decode(const std::vector<uint8_t> &bytes) {
  Reader in(bytes);
  const uint64_t version = in.number(1);
  if (version < VERSION_WITHOUT_HISTORY || version > TABLE_RECORD_VERSION) return false;
  const bool has_history = version > VERSION_WITHOUT_HISTORY;
  *this = TableRecord();
  const uint64_t flags = in.number(1);
  has_primary_key = flags & FLAG_PRIMARY_KEY;
  is_parent = flags & FLAG_PARENT;
  table_id = in.number(8);
  create_id = in.number(8);
  history.version = in.number(8);
  next_index_id = static_cast<uint32_t>(in.number(4));
  analyzed_rows = in.number(8);
  if (has_history) {
    definition = in.text();
    history.next_column_id = static_cast<uint32_t>(in.number(4));
  }
  in.list([&] {
    ColumnRecord column;
    history.column_ids.push_back(has_history ? static_cast<uint32_t>(in.number(4))
                                             : history.next_column_id++);
    column.type = static_cast<uint8_t>(in.number(1));
    column.nullable = in.number(1) & FLAG_NULLABLE;
    column.size = static_cast<uint32_t>(in.number(4));
    column.name = in.text();
    columns.push_back(std::move(column));
  });
  in.list([&] {
    IndexRecord index;
    index.id = static_cast<uint32_t>(in.number(4));
    index.unique = in.number(1) & FLAG_UNIQUE;
    index.name = in.text();
    in.list([&] { index.rows_per_key.push_back(in.number(8)); });
    indexes.push_back(std::move(index));
  });
  if (has_history) {
    in.list([&] {
      RowLayout layout;
      layout.version = in.number(8);
      layout.null_bytes = static_cast<uint16_t>(in.number(2));
      in.list([&] {
        LayoutColumn column;
        column.id = static_cast<uint32_t>(in.number(4));
        column.kind = static_cast<uint8_t>(in.number(1));
        column.size = static_cast<uint32_t>(in.number(4));
        column.null = static_cast<uint16_t>(in.number(2));
        layout.columns.push_back(column);
      });
      history.older.push_back(std::move(layout));
    });
    in.list([&] {
      ColumnDefault value;
      value.id = static_cast<uint32_t>(in.number(4));
      value.null = in.number(1) & FLAG_NULL;
      value.value = in.text();
      history.defaults.push_back(std::move(value));
    });
  }
  if (version > VERSION_WITHOUT_FOREIGN_KEYS) {
    read_keys(&in, &foreign_keys);
    home = in.text();
    if (flags & FLAG_DROPPED_KEYS) read_keys(&in, &dropped_keys);
  }
  if (version > VERSION_WITHOUT_SETTINGS) {
    read_settings(&in, &indexes);
    if (flags & FLAG_EXPRESSIONS) read_expressions(&in, this);
  }
  if (version > VERSION_WITHOUT_FULL_TEXT &&
      !read_full_text(&in, version > VERSION_WITHOUT_LANGUAGE, &indexes))
    return false;
  if (version > VERSION_WITHOUT_LANGUAGE && std::none_of(indexes.begin(), indexes.end(), has_language_index))
    return false;
  for (const RowLayout &layout : history.older)
    for (const LayoutColumn &column : layout.columns)
      if (column.kind > LayoutColumn::VARIABLE || column.null > 8 * layout.null_bytes) return false;
  return in.good() && in.at_end();
}

std::string definition_identity(const TABLE_SHARE &share) {
  const LEX_CUSTRING &identity = share.tabledef_version;
  return {reinterpret_cast<const char *>(identity.str), identity.length};
}

void TableRecord::set_definition(const TABLE *form) {
  const TABLE_SHARE *share = form->s;
  definition = definition_identity(*share);
  has_primary_key = share->primary_key != MAX_KEY;
  columns.clear();
  for (uint i = 0; i < share->fields; i++) {
    const Field *field = form->field[i];
    ColumnRecord column;
    column.name.assign(field->field_name.str, field->field_name.length);
    column.type = static_cast<uint8_t>(field->real_type());
    column.size = field->pack_length();
    column.nullable = field->real_maybe_null();
    columns.push_back(std::move(column));
  }
}

void take_settings(const TABLE *form, uint key, IndexRecord *index) {
  index->is_full_text = is_full_text(form->key_info[key]);
  index->has_settings = has_virtual_part(form, form->key_info[key]);
  index->settings = index->has_settings ? ExpressionSettings::of(form->in_use) : ExpressionSettings();
}

bool take_words(THD *thd, const TABLE *form, uint key, IndexRecord *index) {
  if (!index->is_full_text) return true;
  const KEY &made = form->key_info[key];
  const std::string parser = full_text::parser_of(made);
  /* An index of the name may be another one: a column that went took its own along. */
  if (index->keeps_words && index->full_text.parser == parser) return true;
  full_text::Refusal refusal;
  if (full_text::settings_of_new(thd, made.name, parser, &index->full_text, &refusal)) return true;
  refusal.tell();
  return false;
}

}  // namespace tidesdb

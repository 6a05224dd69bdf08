#include "search/full_text_kind.h"

#include <algorithm>

#include "search/posting.h"

namespace tidesdb {

namespace {

/* Kept between statements. */
constexpr size_t MOST_KEPT_BYTES = 16384;
constexpr size_t MOST_KEPT_OCCURRENCES = 1024;

CHARSET_INFO *charset_of(const TABLE *table, uint index) {
  return table->field[table->key_info[index].key_part[0].fieldnr - 1]->charset();
}

}  // namespace

FullTextKind::FullTextKind(TABLE *table, uint index, const FullTextSettings &settings)
    : table_(table),
      charset_(charset_of(table, index)),
      rules_(charset_, settings),
      codec_(charset_),
      words_(IndexWords::of(settings, charset_)) {
  const KEY &key = table->key_info[index];
  for (uint part = 0; part < key.user_defined_key_parts; part++)
    columns_.push_back(table->field[key.key_part[part].fieldnr - 1]);
}

bool FullTextKind::primary_key(Slice key, Slice, Slice *primary_key) const {
  Slice term;
  return codec_.split(key, &term, primary_key);
}

bool FullTextKind::append_kept(Slice word, ByteBuffer *to) const {
  const size_t begin = to->size();
  if (!codec_.append(word, to)) return false;
  if (words_->stopwords.is_empty()) return true;
  if (rules_.ngram() != 0 ? !has_stopword(word)
                          : !words_->stopwords.has({to->data() + begin, to->size() - begin}))
    return true;
  to->truncate(begin);
  return false;
}

bool FullTextKind::read_text(Field *column, const uchar *record, String *buffer, Slice *text) const {
  const my_ptrdiff_t offset = record - table_->record[0];
  column->move_field_offset(offset);
  const String *value = column->is_null() ? nullptr : column->val_str(buffer, buffer);
  column->move_field_offset(-offset);
  if (value) *text = {reinterpret_cast<const uchar *>(value->ptr()), value->length()};
  return value != nullptr;
}

/* Whether a part of the ngram, or all of it, is a stopword. */
bool FullTextKind::has_stopword(Slice ngram) const {
  const uchar *const end = ngram.data + ngram.size;
  size_t first, last;
  for (const uchar *begin = ngram.data; begin < end; begin += first) {
    rules_.kind_of(begin, end, &first);
    for (const uchar *at = begin; at < end; at += last) {
      rules_.kind_of(at, end, &last);
      part_.clear();
      if (codec_.append({begin, static_cast<size_t>(at + last - begin)}, &part_) &&
          words_->stopwords.has(part_.slice()))
        return true;
    }
  }
  return false;
}

void FullTextKind::release() const {
  cache_.release();
  bytes_.release_beyond(MOST_KEPT_BYTES);
  if (occurrences_.capacity() > MOST_KEPT_OCCURRENCES) std::vector<Occurrence>().swap(occurrences_);
}

void FullTextKind::add_entries(const uchar *record, Slice primary_key, EntrySet *entries) const {
  bytes_.clear();
  occurrences_.clear();
  const auto make_term = [this](Slice word, ByteBuffer *to) { append_kept(word, to); };
  for_each_word(record, [&](Slice word, uint32_t position) {
    const Slice term = cache_.term_of(word, make_term);
    if (term.size == 0) return;
    occurrences_.push_back({key_head(term), bytes_.size(), static_cast<uint32_t>(term.size), position});
    bytes_.append(term);
  });
  const auto term_of = [this](const Occurrence &at) { return Slice{bytes_.data() + at.begin, at.size}; };
  std::sort(occurrences_.begin(), occurrences_.end(), [&](const Occurrence &a, const Occurrence &b) {
    if (a.head != b.head) return a.head < b.head;
    const int order = compare_bytes(term_of(a), term_of(b));
    return order != 0 ? order < 0 : a.position < b.position;
  });
  const auto begins_term = [&](size_t i) {
    return i == 0 || occurrences_[i - 1].head != occurrences_[i].head ||
           !same_bytes(term_of(occurrences_[i - 1]), term_of(occurrences_[i]));
  };
  uint32_t different = 0;
  for (size_t i = 0; i < occurrences_.size(); i++) different += begins_term(i);
  const uchar length = length_class(different);
  EntrySet::Entry *entry = nullptr;
  uint32_t last = 0;
  size_t positions = 0;
  for (size_t i = 0; i < occurrences_.size(); i++) {
    const Occurrence &at = occurrences_[i];
    if (begins_term(i)) {
      entry = &entries->add();
      entry->key.append(term_of(at));
      entry->key.append(primary_key);
      entry->value.append_byte(length);
      last = 0;
      positions = 0;
    }
    if (++positions > MOST_POSITIONS) continue;
    entry->value.set_end(write_varint(entry->value.reserve(MAX_VARINT_SIZE), at.position - last));
    last = at.position;
  }
}

}  // namespace tidesdb

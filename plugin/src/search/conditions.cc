#include "search/conditions.h"

#include <algorithm>
#include <cmath>

#include "search/full_text_kind.h"

namespace tidesdb {

namespace {

/* The server drops a row whose score is 0. */
constexpr float LEAST_SCORE = 1e-12F;

/* No term has as many: each of 84 characters has up to 18 weights of two bytes. */
constexpr size_t MOST_TERM_BYTES = 8192;
/* First bytes that no term has. */
const std::string NO_TERM(2, '\0');

/* A group of the same bearing and boost. */
Condition group_of(const QueryNode &node) {
  Condition group;
  group.bearing = node.bearing;
  group.boost = node.boost;
  return group;
}

bool is_empty(const Condition &condition) {
  return (condition.kind == Condition::Kind::GROUP && condition.parts.empty()) ||
         (condition.kind == Condition::Kind::PHRASE && condition.words.empty());
}

/* A group of one part that only helps is that part. */
Condition without_needless_group(Condition group) {
  if (group.parts.size() != 1 || group.parts[0].bearing != Bearing::HELPS) return group;
  Condition part = std::move(group.parts[0]);
  part.bearing = group.bearing;
  part.boost *= group.boost;
  return part;
}

}  // namespace

double Bm25::weight(double rows_with) const {
  return std::log1p((std::max(rows, rows_with) - rows_with + 0.5) / (rows_with + 0.5));
}

double Bm25::score(double weight, double frequency, double length) const {
  const double norm = k1 * (1 - b + b * length / mean_length);
  return weight * frequency * (k1 + 1) / (frequency + norm);
}

/* A word that is one too many has the place of the first. */
uint Conditions::lookup_of(const std::string &first, const std::string &whole, bool is_prefix) {
  const auto [at, is_new] = known_.try_emplace((is_prefix ? whole + '*' : std::string()) + first,
                                               static_cast<uint>(lookups_.size()));
  if (!is_new) return at->second;
  if (lookups_.size() == MOST_LOOKUPS) {
    too_many_ = true;
    known_.erase(at);
    return 0;
  }
  Lookup lookup;
  lookup.first = first;
  lookup.whole = whole;
  lookup.is_prefix = is_prefix;
  lookups_.push_back(std::move(lookup));
  weights_.push_back(0);
  return static_cast<uint>(lookups_.size() - 1);
}

void Conditions::add_words(Slice text) {
  ByteBuffer term;
  kind_.rules().for_each(text, 0, [&](const WordRules::Word &word) {
    term.clear();
    if (kind_.append_term(word, &term)) add_term(term.slice());
  });
}

void Conditions::add_term(Slice term) {
  size_++;
  const size_t known = lookups_.size();
  const uint lookup = lookup_of(string_of(term), "", false);
  if (lookup < known) {
    lookups_[lookup].times++;
    return;
  }
  Condition part;
  part.kind = Condition::Kind::LOOKUP;
  part.lookup = lookup;
  root_.parts.push_back(std::move(part));
}

bool Conditions::has_room_for_one_more() {
  too_many_ = too_many_ || ++size_ > MOST_LOOKUPS;
  return !too_many_;
}

void Conditions::set(const QueryNode &query) { root_ = translate(query); }

Condition Conditions::translate(const QueryNode &node) {
  switch (node.kind) {
    case QueryNode::Kind::TEXT:
    case QueryNode::Kind::PREFIX:
      return kind_.rules().ngram() != 0 ? of_ngrams(node) : of_text(node);
    case QueryNode::Kind::PHRASE: {
      Condition phrase = group_of(node);
      phrase.distance = node.distance;
      return of_phrase(slice_of(node.text), std::move(phrase));
    }
    case QueryNode::Kind::GROUP:
      break;
  }
  Condition group = group_of(node);
  for (const QueryNode &part : node.parts) {
    if (!has_room_for_one_more()) break;
    Condition translated = translate(part);
    if (!is_empty(translated)) group.parts.push_back(std::move(translated));
  }
  return group;
}

bool Conditions::look_up_beginning(Slice word, Condition *part) {
  ByteBuffer bytes;
  if (!kind_.terms().append(word, &bytes)) return false;
  const std::string whole = string_of(bytes.slice());
  bytes.clear();
  if (!kind_.terms().append_prefix(word, &bytes)) return false;
  part->kind = Condition::Kind::LOOKUP;
  part->lookup = lookup_of(bytes.size() > MOST_TERM_BYTES ? NO_TERM : string_of(bytes.slice()), whole, true);
  return true;
}

/* Parts without an operator between them, such as foo.bar, are a group: + and - ask for all of them. */
Condition Conditions::group_of_parts(const QueryNode &node, std::vector<Condition> parts) {
  Condition group = group_of(node);
  const bool all =
      parts.size() > 1 && (node.bearing == Bearing::REQUIRED || node.bearing == Bearing::EXCLUDED);
  for (Condition &part : parts) {
    if (all) part.bearing = Bearing::REQUIRED;
    group.parts.push_back(std::move(part));
  }
  return without_needless_group(std::move(group));
}

/* Of a beginning the last word is meant. */
Condition Conditions::of_text(const QueryNode &node) {
  std::vector<Condition> parts;
  ByteBuffer term;
  const Slice text = slice_of(node.text);
  const uchar *const end = text.data + text.size;
  kind_.rules().for_each(text, 0, [&](const WordRules::Word &word) {
    if (!has_room_for_one_more()) return;
    const bool is_last = word.text.data + word.text.size == end;
    Condition part;
    if (node.kind == QueryNode::Kind::PREFIX && is_last) {
      if (look_up_beginning(word.text, &part)) parts.push_back(std::move(part));
      return;
    }
    term.clear();
    if (!kind_.append_term(word, &term)) return;
    part.kind = Condition::Kind::LOOKUP;
    part.lookup = lookup_of(string_of(term.slice()), "", false);
    parts.push_back(std::move(part));
  });
  return group_of_parts(node, std::move(parts));
}

/* As MySQL's parser has it: a run is the phrase of its ngrams, and so is a beginning, unless it is shorter
   than they are. */
Condition Conditions::of_ngrams(const QueryNode &node) {
  std::vector<Condition> parts;
  const Slice text = slice_of(node.text);
  const uchar *const end = text.data + text.size;
  kind_.rules().for_each_run(text, [&](Slice run, size_t characters) {
    if (!has_room_for_one_more()) return;
    Condition part;
    if (node.kind == QueryNode::Kind::PREFIX && run.data + run.size == end &&
        characters < kind_.rules().ngram()) {
      if (look_up_beginning(run, &part)) parts.push_back(std::move(part));
      return;
    }
    part = of_phrase(run, std::move(part));
    if (!is_empty(part)) parts.push_back(std::move(part));
  });
  return group_of_parts(node, std::move(parts));
}

Condition Conditions::of_phrase(Slice text, Condition phrase) {
  phrase.kind = Condition::Kind::PHRASE;
  ByteBuffer term;
  uint32_t first = 0;
  kind_.rules().for_each(text, 0, [&](const WordRules::Word &word) {
    term.clear();
    if (!kind_.append_term(word, &term)) return;
    too_many_ = too_many_ || phrase.words.size() == MOST_PHRASE;
    if (!has_room_for_one_more()) return;
    if (phrase.words.empty()) first = word.position;
    const uint lookup = lookup_of(string_of(term.slice()), "", false);
    const auto known = std::find(phrase.different.begin(), phrase.different.end(), lookup);
    const uint place = static_cast<uint>(known - phrase.different.begin());
    if (known == phrase.different.end()) phrase.different.push_back(lookup);
    phrase.words.push_back({lookup, word.position - first, place});
  });
  if (phrase.words.size() == 1) {
    phrase.kind = Condition::Kind::LOOKUP;
    phrase.lookup = phrase.words[0].lookup;
    return phrase;
  }
  for (const Condition::PhraseWord &word : phrase.words) lookups_[word.lookup].needs_positions = true;
  return phrase;
}

void Conditions::set_rows_with(uint lookup, uint64_t rows) {
  weights_[lookup] = scoring_.weight(static_cast<double>(rows)) * lookups_[lookup].times;
}

bool Conditions::matches(const Found &found, float *score) const {
  const Outcome outcome = judge(root_, found);
  *score = std::max(static_cast<float>(outcome.score), LEAST_SCORE);
  return outcome.matches;
}

Conditions::Outcome Conditions::judge(const Condition &condition, const Found &found) const {
  switch (condition.kind) {
    case Condition::Kind::LOOKUP: {
      const Posting *posting = found[condition.lookup];
      if (!posting) return {false, 0};
      return {true, condition.boost *
                        scoring_.score(weights_[condition.lookup], posting->frequency, posting->length)};
    }
    case Condition::Kind::PHRASE:
      return judge_phrase(condition, found);
    case Condition::Kind::GROUP:
      break;
  }
  return judge_group(condition, found);
}

Conditions::Outcome Conditions::judge_group(const Condition &condition, const Found &found) const {
  bool matches = false;
  double score = 0;
  for (const Condition &part : condition.parts) {
    const Outcome outcome = judge(part, found);
    switch (part.bearing) {
      case Bearing::REQUIRED:
        if (!outcome.matches) return {false, 0};
        break;
      case Bearing::EXCLUDED:
        if (outcome.matches) return {false, 0};
        continue;
      case Bearing::LOWERS:
        score -= outcome.score;
        continue;
      case Bearing::HELPS:
        break;
    }
    matches = matches || outcome.matches;
    score += outcome.score;
  }
  return {matches, matches ? condition.boost * score : 0};
}

namespace {

using Positions = std::vector<uint32_t>;

/* How often the words stand with these distances from each other; `lists`: positions of the phrase's
 * different words. */
uint32_t count_in_order(const std::vector<Positions> &lists,
                        const std::vector<Condition::PhraseWord> &phrase) {
  uint32_t count = 0;
  for (const uint32_t first : lists[0]) {
    bool whole = true;
    for (size_t i = 1; whole && i < phrase.size(); i++) {
      const Positions &list = lists[phrase[i].place];
      whole = std::binary_search(list.begin(), list.end(), first + phrase[i].offset);
    }
    count += whole;
  }
  return count;
}

/* How often they stand within so many positions, in any order: windows that begin at one of them. */
uint32_t count_within(const std::vector<Positions> &lists, ulonglong distance) {
  uint32_t count = 0;
  std::vector<size_t> at(lists.size(), 0);
  for (;;) {
    size_t first = 0;
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t i = 0; i < lists.size(); i++) {
      if (at[i] == lists[i].size()) return count;
      const uint32_t position = lists[i][at[i]];
      if (position < least) {
        least = position;
        first = i;
      }
      most = std::max(most, position);
    }
    count += most - least < distance;
    at[first]++;
  }
}

}  // namespace

Conditions::Outcome Conditions::judge_phrase(const Condition &condition, const Found &found) const {
  double weight = 0;
  for (const Condition::PhraseWord &word : condition.words) {
    if (!found[word.lookup]) return {false, 0};
    weight += weights_[word.lookup];
  }
  std::vector<Positions> lists(condition.different.size());
  for (size_t i = 0; i < lists.size(); i++)
    if (!read_positions(found[condition.different[i]]->positions, &lists[i])) return {false, 0};
  const uint32_t count = condition.distance != 0 ? count_within(lists, condition.distance)
                                                 : count_in_order(lists, condition.words);
  if (count == 0) return {false, 0};
  return {true, condition.boost * scoring_.score(weight, count, found[condition.words[0].lookup]->length)};
}

}  // namespace tidesdb

#include "search/search.h"

#include <algorithm>
#include <numeric>

#include "search/full_text_kind.h"

namespace tidesdb {

RowName RowName::of(Slice key) {
  RowName name;
  name.key = key;
  name.head = key_head(key);
  return name;
}

Slice Arena::keep(Slice bytes) {
  if (bytes.size == 0) return {nullptr, 0};
  size_ += bytes.size;
  if (bytes.size > CHUNK / 4) {
    /* Before the last chunk, which goes on. */
    std::unique_ptr<uchar[]> own(new uchar[bytes.size]);
    uchar *const to = own.get();
    chunks_.insert(chunks_.empty() ? chunks_.end() : chunks_.end() - 1, std::move(own));
    if (chunks_.size() == 1) used_ = CHUNK;
    memcpy(to, bytes.data, bytes.size);
    return {to, bytes.size};
  }
  if (CHUNK - used_ < bytes.size) {
    chunks_.emplace_back(new uchar[CHUNK]);
    used_ = 0;
  }
  uchar *const to = chunks_.back().get() + used_;
  memcpy(to, bytes.data, bytes.size);
  used_ += bytes.size;
  return {to, bytes.size};
}

namespace {

/* Comparisons of a sort between two looks at KILL. */
constexpr size_t COMPARISONS_BETWEEN_LOOKS = 1 << 16;
struct Killed {};

/* std::sort, which KILL ends early; false then. */
template <class Less>
bool sort_unless_killed(std::vector<uint32_t> *order, const std::function<bool()> &killed, Less less) {
  size_t comparisons = 0;
  try {
    std::sort(order->begin(), order->end(), [&](uint32_t a, uint32_t b) {
      if (++comparisons % COMPARISONS_BETWEEN_LOOKS == 0 && killed()) throw Killed();
      return less(a, b);
    });
  } catch (const Killed &) {
    return false;
  }
  return true;
}

}  // namespace

void PostingList::add(const Lookup &lookup, Slice row_key, const Posting &posting) {
  rows_.push_back(RowName::of(bytes_.keep(row_key)));
  Posting kept = posting;
  kept.positions = lookup.needs_positions ? bytes_.keep(posting.positions) : Slice{nullptr, 0};
  postings_.push_back(kept);
}

/* A row that has several terms of a beginning has it as often as all of them together. */
bool PostingList::finish(const Lookup &lookup, const std::function<bool()> &killed) {
  if (!lookup.is_prefix) return true;
  std::vector<uint32_t> order(rows_.size());
  std::iota(order.begin(), order.end(), 0);
  if (!sort_unless_killed(&order, killed,
                          [this](uint32_t a, uint32_t b) { return rows_[a].compare(rows_[b]) < 0; }))
    return false;
  std::vector<RowName> rows;
  std::vector<Posting> postings;
  for (const uint32_t at : order) {
    if (!rows.empty() && rows.back().compare(rows_[at]) == 0) {
      postings.back().frequency += postings_[at].frequency;
      continue;
    }
    rows.push_back(rows_[at]);
    postings.push_back(postings_[at]);
  }
  rows_ = std::move(rows);
  postings_ = std::move(postings);
  return true;
}

size_t RowSearch::memory() const {
  size_t bytes = hits_.capacity() * sizeof(Hit);
  for (const PostingList &list : lists_) bytes += list.memory();
  return bytes;
}

RowSearch::Result RowSearch::read_lists(const FullTextKind &kind, const Source &source, size_t most_memory,
                                        int *error) {
  const std::vector<Lookup> &lookups = conditions_->lookups();
  lists_.resize(lookups.size());
  size_t before = 0;
  for (uint i = 0; i < lookups.size(); i++) {
    if (source.killed()) return Result::KILLED;
    const Lookup &lookup = lookups[i];
    const Slice whole = slice_of(lookup.whole);
    PostingList &list = lists_[i];
    Result result = Result::DONE;
    *error = source.read(lookup, [&](Slice key, Slice value) {
      Slice term, row_key;
      Posting posting;
      if (!kind.terms().split(key, &term, &row_key) || !read_posting(value, &posting)) {
        result = Result::DAMAGED;
        return false;
      }
      if (lookup.is_prefix && !kind.terms().begins_with(term, whole)) return true;
      list.add(lookup, row_key, posting);
      if (before + list.memory() > most_memory) result = Result::TOO_LARGE;
      return result == Result::DONE;
    });
    if (*error != 0) return Result::FAILED;
    if (result != Result::DONE) return result;
    if (!list.finish(lookup, source.killed)) return Result::KILLED;
    uint64_t rows = list.size();
    *error = source.count(lookup, &rows);
    if (*error != 0) return Result::FAILED;
    conditions_->set_rows_with(i, rows);
    before += list.memory();
  }
  return Result::DONE;
}

namespace {

/* Rows, times parts of the query. */
constexpr size_t WORK_BETWEEN_LOOKS = 1 << 16;

using Lists = std::vector<PostingList>;

size_t rows_of(const std::vector<uint> &lookups, const Lists &lists) {
  size_t rows = 0;
  for (const uint lookup : lookups) rows += lists[lookup].size();
  return rows;
}

/* Lookups of which each matching row has one, with as few rows as are known. */
std::vector<uint> candidates(const Condition &condition, const Lists &lists) {
  if (condition.kind == Condition::Kind::LOOKUP) return {condition.lookup};
  std::vector<uint> least;
  bool known = false;
  const auto offer = [&](std::vector<uint> lookups) {
    if (!known || rows_of(lookups, lists) < rows_of(least, lists)) least = std::move(lookups);
    known = true;
  };
  if (condition.kind == Condition::Kind::PHRASE) {
    for (const uint lookup : condition.different) offer({lookup});
    return least;
  }
  for (const Condition &part : condition.parts)
    if (part.bearing == Bearing::REQUIRED) offer(candidates(part, lists));
  if (known) return least;
  for (const Condition &part : condition.parts)
    if (part.bearing == Bearing::HELPS)
      for (const uint lookup : candidates(part, lists)) least.push_back(lookup);
  return least;
}

/* A place in a list that only goes forward. */
struct Walk {
  const PostingList *list;
  size_t at = 0;

  bool at_end() const { return at == list->size(); }
  const RowName &row() const { return list->row(at); }
  /* To the first row at or after this one, in steps that grow. */
  void go_to(const RowName &row) {
    size_t step = 1, below = at;
    if (at_end() || list->row(at).compare(row) >= 0) return;
    while (below + step < list->size() && list->row(below + step).compare(row) < 0) {
      below += step;
      step *= 2;
    }
    size_t above = std::min(below + step, list->size());
    while (above - below > 1) {
      const size_t middle = below + (above - below) / 2;
      (list->row(middle).compare(row) < 0 ? below : above) = middle;
    }
    at = above;
  }
};

}  // namespace

RowSearch::Result RowSearch::match_rows(const Source &source, size_t most_memory, bool all_candidates) {
  std::vector<uint> drivers = candidates(conditions_->root(), lists_);
  std::sort(drivers.begin(), drivers.end());
  drivers.erase(std::unique(drivers.begin(), drivers.end()), drivers.end());
  std::vector<Walk> walks;
  for (const PostingList &list : lists_) walks.push_back({&list});
  Conditions::Found found(lists_.size());
  const size_t before = memory();
  for (size_t work = 0;; work += 1 + conditions_->size()) {
    if (work >= WORK_BETWEEN_LOOKS) {
      work = 0;
      if (source.killed()) return Result::KILLED;
      if (before + hits_.capacity() * sizeof(Hit) > most_memory) return Result::TOO_LARGE;
    }
    const RowName *next = nullptr;
    for (const uint driver : drivers)
      if (!walks[driver].at_end() && (!next || walks[driver].row().compare(*next) < 0))
        next = &walks[driver].row();
    if (!next) return Result::DONE;
    const RowName row = *next;
    for (size_t i = 0; i < walks.size(); i++) {
      walks[i].go_to(row);
      const bool has = !walks[i].at_end() && walks[i].row().compare(row) == 0;
      found[i] = has ? &walks[i].list->posting(walks[i].at) : nullptr;
      /* Words of a phrase are looked for at each place of the first. */
      if (has) work += found[i]->positions.size * conditions_->size();
    }
    float score;
    const bool matches = conditions_->matches(found, &score);
    if (matches || all_candidates) hits_.push_back({row, matches ? score : 0});
    for (const uint driver : drivers)
      if (found[driver]) walks[driver].at++;
  }
}

RowSearch::Result RowSearch::run(const FullTextKind &kind, const Source &source, size_t most_memory,
                                 bool all_candidates, int *error) {
  const Result result = read_lists(kind, source, most_memory, error);
  return result == Result::DONE ? match_rows(source, most_memory, all_candidates) : result;
}

bool RowSearch::sort(const std::function<bool()> &killed) {
  is_chosen_ = true;
  chosen_.resize(hits_.size());
  std::iota(chosen_.begin(), chosen_.end(), 0);
  return sort_unless_killed(&chosen_, killed, [this](uint32_t a, uint32_t b) {
    return hits_[a].score != hits_[b].score ? hits_[a].score > hits_[b].score : a < b;
  });
}

void RowSearch::keep_best(size_t most) {
  if (most >= hits_.size()) return;
  is_chosen_ = true;
  if (most == 0) return;
  std::vector<float> scores;
  for (const Hit &hit : hits_) scores.push_back(hit.score);
  std::nth_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(most - 1), scores.end(),
                   std::greater<float>());
  const float least = scores[most - 1];
  for (size_t i = 0; i < hits_.size(); i++)
    if (hits_[i].score >= least) chosen_.push_back(static_cast<uint32_t>(i));
}

float RowSearch::score_of(Slice row_key) const {
  const RowName row = RowName::of(row_key);
  const auto at =
      std::lower_bound(hits_.begin(), hits_.end(), row,
                       [](const Hit &hit, const RowName &sought) { return hit.row.compare(sought) < 0; });
  return at != hits_.end() && at->row.compare(row) == 0 ? at->score : 0;
}

}  // namespace tidesdb

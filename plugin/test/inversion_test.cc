/*
  The inversion of a full text index that is being built, without a server: `make test-sort`. Its memory is so
  small that runs are merged after a few rows. It gives the entries that a sort of the single ones gives.

  Nothing of a server is called but sort_server.h. SEED: of the random rows.
*/
#include "ddl/inversion.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "search/posting.h"
#include "sort_server.h"

using namespace tidesdb;

namespace {

constexpr size_t MEMORY = 64 * 1024;

bool killed = false;
size_t looks = 0;

/* Small letters; a word that begins with x is in no index. */
bool make_term(Slice word, ByteBuffer *to) {
  if (word.data[0] == 'x') return false;
  for (size_t i = 0; i < word.size; i++) to->append_byte(static_cast<uchar>(tolower(word.data[i])));
  to->append_byte(0);
  return true;
}

struct Row {
  std::string key;
  uint64_t expiry;
  std::vector<std::pair<std::string, uint32_t>> words;
};

struct Entry {
  std::string value;
  uint64_t expiry;
};
using Entries = std::map<std::string, Entry>;

/* As FullTextKind::add_entries() makes them. */
void add_entries(const Row &row, std::vector<std::pair<std::string, std::string>> *entries) {
  std::map<std::string, std::vector<uint32_t>> positions;
  ByteBuffer term;
  for (const auto &[word, position] : row.words) {
    term.clear();
    if (make_term(slice_of(word), &term)) positions[string_of(term.slice())].push_back(position);
  }
  for (auto &[bytes, places] : positions) {
    std::sort(places.begin(), places.end());
    if (places.size() > MOST_POSITIONS) places.resize(MOST_POSITIONS);
    ByteBuffer value;
    value.append_byte(length_class(static_cast<uint32_t>(positions.size())));
    uint32_t last = 0;
    for (const uint32_t place : places) {
      value.set_end(write_varint(value.reserve(MAX_VARINT_SIZE), place - last));
      last = place;
    }
    entries->push_back({bytes, string_of(value.slice())});
  }
}

struct Built {
  explicit Built(size_t memory)
      : inversion(
            nullptr, memory,
            [] {
              looks++;
              return killed;
            },
            make_term) {}

  bool add(const Row &row) {
    for (const auto &[word, position] : row.words)
      if (!inversion.add_word(slice_of(word), position)) return false;
    return inversion.end_row(slice_of(row.key), row.expiry);
  }
  bool add_single_entries(const Row &row) {
    std::vector<std::pair<std::string, std::string>> entries;
    add_entries(row, &entries);
    for (const auto &[term, value] : entries)
      if (!inversion.add_entry(slice_of(term), slice_of(row.key), slice_of(value), row.expiry)) return false;
    return true;
  }

  Inversion inversion;
};

/* The entries come in the order of their keys, each once, and no others. */
void check_entries(Inversion *inversion, const std::vector<Row> &rows) {
  Entries expected;
  ulonglong size = 0;
  for (const Row &row : rows) {
    std::vector<std::pair<std::string, std::string>> entries;
    add_entries(row, &entries);
    for (const auto &[term, value] : entries) {
      expected[term + row.key] = {value, row.expiry};
      size += 8 + term.size() + row.key.size() + value.size() + 1 + (row.expiry ? 8 : 0);
    }
  }
  CHECK(inversion->size() == size);
  CHECK(inversion->begin_reading());
  auto next = expected.begin();
  for (;;) {
    Slice term, entries;
    bool found;
    CHECK(inversion->next(&term, &entries, &found));
    if (!found) break;
    CHECK(entries.size != 0);
    CHECK(Inversion::for_each(entries, [&](Slice row_key, Slice value, uint64_t expiry) {
      CHECK(next != expected.end());
      CHECK(next->first == string_of(term) + string_of(row_key));
      CHECK(next->second.value == string_of(value));
      CHECK(next->second.expiry == expiry);
      ++next;
      return true;
    }));
  }
  CHECK(next == expected.end());
}

using Random = std::mt19937_64;

size_t below(Random *random, size_t bound) { return (*random)() % bound; }

/* A few words are in most rows, and most words in a few rows. Some differ by case alone; some are longer than
   a block, in part by their last letter alone. */
std::string word_of(Random *random, size_t vocabulary) {
  const size_t n = below(random, 1 + below(random, vocabulary));
  std::string word;
  for (size_t rest = n * 7919 + 13; rest != 0; rest /= 26) word += static_cast<char>('a' + rest % 26);
  if (n % 50 == 7) word = std::string(n % 300, 'q') + word;
  if (below(random, 4) == 0) word[0] = static_cast<char>(toupper(word[0]));
  return word;
}

std::vector<Row> random_rows(Random *random, size_t count, size_t vocabulary, bool plain) {
  std::vector<Row> rows;
  for (size_t n = 0; n < count; n++) {
    Row row;
    char key[32];
    snprintf(key, sizeof key, "%08zu", n);
    row.key = key;
    if (!plain && below(random, 5) == 0) row.key += std::string(below(random, 1000), 'k');
    row.expiry = below(random, 3) == 0 ? 1 + (*random)() % 1000000 : 0;
    uint32_t position = 0;
    for (size_t words = below(random, 60); words != 0; words--) {
      row.words.push_back({word_of(random, vocabulary), position});
      position += static_cast<uint32_t>(below(random, 10) == 0 ? below(random, 70000) : 1);
      /* A word of several parts comes after them. */
      if (below(random, 20) == 0)
        row.words.push_back({word_of(random, vocabulary), position - std::min(position, 2U)});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void entries_are_those_of_the_rows(Random *random, size_t count, size_t vocabulary, size_t memory) {
  const std::vector<Row> rows = random_rows(random, count, vocabulary, false);
  /* All rows; the first ones by their entries. */
  for (const size_t single : {size_t{0}, count / 3}) {
    {
      Built built(memory);
      for (size_t n = 0; n < count; n++)
        CHECK(n < single ? built.add_single_entries(rows[n]) : built.add(rows[n]));
      check_entries(&built.inversion, rows);
    }
    CHECK(sort_memory == 0);
  }
}

void a_word_has_any_number_of_positions() {
  std::vector<Row> rows(3);
  for (uint32_t n = 0; n < 3; n++) {
    rows[n].key = std::to_string(n);
    rows[n].expiry = 0;
    for (uint32_t i = 0; i < MOST_POSITIONS - 1 + n; i++)
      rows[n].words.push_back({i % 2 ? "Aa" : "aa", 200 * i});
    rows[n].words.push_back({"b", 1});
  }
  for (const size_t memory : {MEMORY, 100 * MEMORY}) {
    Built built(memory);
    for (const Row &row : rows) CHECK(built.add(row));
    check_entries(&built.inversion, rows);
  }
}

void a_row_larger_than_the_memory_goes_through(Random *random) {
  std::vector<Row> rows = random_rows(random, 30, 1000, true);
  for (uint32_t i = 0; i < 20000; i++) rows[10].words.push_back({word_of(random, 50000), 100000 + i});
  {
    Built built(MEMORY);
    for (const Row &row : rows) CHECK(built.add(row));
    check_entries(&built.inversion, rows);
  }
  CHECK(sort_memory == 0);
}

/* Of a row that has not ended; and what it took goes, also where none of its words is in the index. */
void the_words_of_a_long_row_are_counted() {
  constexpr size_t WORDS = 1000000, LEAST = 20 * WORDS;
  for (const char *word : {"short", "xshort", "a longer word", "xa longer word"}) {
    const bool is_kept = strlen(word) <= 7 || word[0] != 'x';
    {
      Built built(MEMORY);
      for (uint32_t i = 0; i < WORDS; i++) CHECK(built.inversion.add_word(slice_of(std::string(word)), i));
      CHECK(!is_kept || sort_memory > static_cast<int64_t>(LEAST));
      CHECK(built.inversion.end_row(slice_of(std::string("key")), 0));
      CHECK(sort_memory < static_cast<int64_t>(LEAST / 4));
    }
    CHECK(sort_memory == 0);
  }
}

/* Plus 16 bytes for each term of a run. */
void memory_stays_in_its_bound(Random *random) {
  const size_t memory = 64 * MEMORY; /* fewer runs than are merged */
  for (const size_t vocabulary : {200, 200000}) {
    const std::vector<Row> rows = random_rows(random, 20000, vocabulary, true);
    most_sort_memory = 0;
    Built built(memory);
    for (const Row &row : rows) CHECK(built.add(row));
    CHECK(most_sort_memory > static_cast<int64_t>(memory / 2));
    CHECK(most_sort_memory < static_cast<int64_t>(memory + memory / 4));
    CHECK(built.inversion.begin_reading());
    CHECK(sort_memory < 64 * 128 * 1024);
  }
  CHECK(sort_memory == 0);
}

void a_kill_ends_a_merge(Random *random) {
  const std::vector<Row> rows = random_rows(random, 1000, 500, true);
  killed = false;
  looks = 0;
  {
    Built built(MEMORY);
    size_t n = 0;
    for (; looks == 0; n++) CHECK(built.add(rows[n % rows.size()]));
    killed = true;
    const size_t at_kill = n;
    while (built.add(rows[n % rows.size()])) CHECK(++n < 3 * at_kill);
    CHECK(n > at_kill);
  }
  killed = false;
  CHECK(sort_memory == 0);
}

void a_full_disk_ends_it(Random *random) {
  const std::vector<Row> rows = random_rows(random, 1000, 500, true);
  {
    Built built(MEMORY);
    size_t n = 0;
    for (; n < 500; n++) CHECK(built.add(rows[n]));
    disk_is_full = true;
    while (built.add(rows[n % rows.size()])) CHECK(++n < 100000);
    disk_is_full = false;
  }
  CHECK(sort_memory == 0);
}

void damaged_entries_are_found_out() {
  const uchar entry[] = {2, 'k', 3, 1, 2, 3};
  size_t taken = 0;
  const auto take = [&](Slice, Slice, uint64_t) { return ++taken != 0; };
  CHECK(Inversion::for_each({entry, sizeof(entry)}, take) && taken == 1);
  for (size_t size = 1; size < sizeof(entry); size++) CHECK(!Inversion::for_each({entry, size}, take));
  CHECK(taken == 1);
}

}  // namespace

int main(int count, char **arguments) {
  const uint64_t seed = count > 1 ? strtoull(arguments[1], nullptr, 10) : std::random_device()();
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  for (const size_t rows : {0, 1, 10, 1000, 8000})
    for (const size_t vocabulary : {1, 20, 3000, 100000})
      for (const size_t memory : {MEMORY, 8 * MEMORY, 10000 * MEMORY})
        entries_are_those_of_the_rows(&random, rows, vocabulary, memory);
  a_word_has_any_number_of_positions();
  a_row_larger_than_the_memory_goes_through(&random);
  the_words_of_a_long_row_are_counted();
  memory_stays_in_its_bound(&random);
  a_kill_ends_a_merge(&random);
  a_full_disk_ends_it(&random);
  damaged_entries_are_found_out();
  puts("the inversion has the rows' entries");
  return 0;
}

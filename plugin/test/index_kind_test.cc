/*
  A kind of index with any number of entries a row, without a server: `make test-index-kind`. An index that
  follows the differences of its rows has the entries that the rows have, each of them once.

  What this needs of the server is here; nothing else of it is called.
*/
#include "key/index_kind.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace tidesdb;

extern "C" {
void *my_realloc(PSI_memory_key, void *old, size_t size, myf) { return realloc(old, size); }
void my_free(void *data) { free(data); }
}

namespace {

#define CHECK(what)                                                      \
  do {                                                                   \
    if (!(what)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      exit(1);                                                           \
    }                                                                    \
  } while (false)

std::string text_of(Slice bytes) {
  return std::string(reinterpret_cast<const char *>(bytes.data), bytes.size);
}
Slice slice_of_text(const std::string &text) {
  return {reinterpret_cast<const uchar *>(text.data()), text.size()};
}

/* A record is a number of words of one letter, each with one letter that goes into the entry's value. */
struct Row {
  std::string words; /* "axby": a with x, b with y */
  uint64_t expiry = 0;

  std::vector<uchar> record() const {
    std::vector<uchar> bytes{static_cast<uchar>(words.size() / 2)};
    bytes.insert(bytes.end(), words.begin(), words.end());
    return bytes;
  }
};

/* An entry for each word: the word, then the row's key. */
class WordKind final : public IndexKind {
 public:
  bool is_unique() const override { return false; }
  bool primary_key(Slice key, Slice, Slice *primary_key) const override {
    if (key.size == 0) return false;
    *primary_key = {key.data + 1, key.size - 1};
    return true;
  }

 private:
  void add_entries(const uchar *record, Slice primary_key, EntrySet *entries) const override {
    for (uchar word = 0; word < record[0]; word++) {
      EntrySet::Entry &entry = entries->add();
      entry.key.append_byte(record[1 + 2 * word]);
      entry.key.append(primary_key);
      entry.value.append_byte(record[2 + 2 * word]);
    }
  }
};

struct Stored {
  std::string value;
  uint64_t expiry;
  bool operator==(const Stored &other) const { return value == other.value && expiry == other.expiry; }
};
using Index = std::map<std::string, Stored>;

struct Table {
  WordKind kind;
  EntrySet before, after;
  Index index;
  long counted = 0; /* entries, as writes tell */
  size_t writes = 0;

  void put(const EntrySet::Entry &entry, uint64_t expiry, bool is_there) {
    const std::string key = text_of(entry.key.slice());
    CHECK((index.count(key) != 0) == is_there);
    index[key] = {text_of(entry.value.slice()), expiry};
    counted += !is_there;
    writes++;
  }

  void change(const std::string &primary_key, const Row &from, const Row &to, bool passed_snapshot) {
    const std::vector<uchar> old_record = from.record(), new_record = to.record();
    kind.entries(old_record.data(), slice_of_text(primary_key), &before);
    kind.entries(new_record.data(), slice_of_text(primary_key), &after);
    const RowChange change{from.expiry, to.expiry, passed_snapshot};
    bool writes_began = false;
    std::string last;
    writes = 0;
    const auto in_order = [&](const EntrySet::Entry &entry) {
      const std::string key = text_of(entry.key.slice());
      CHECK(!writes_began || last < key);
      writes_began = true;
      last = key;
    };
    const int result = for_each_difference(
        before, after,
        [&](const EntrySet::Entry &gone) {
          CHECK(!writes_began);
          CHECK(!after.find(gone.key.slice()));
          CHECK(index.erase(text_of(gone.key.slice())) == 1);
          counted--;
          return 0;
        },
        [&](const EntrySet::Entry &old, const EntrySet::Entry &now) {
          in_order(now);
          CHECK(same_bytes(old.key.slice(), now.key.slice()));
          if (why_rewrite(change, old, now) != Rewrite::NONE) put(now, to.expiry, true);
          return 0;
        },
        [&](const EntrySet::Entry &comes) {
          in_order(comes);
          CHECK(!before.find(comes.key.slice()));
          put(comes, to.expiry, false);
          return 0;
        });
    CHECK(result == 0);
  }

  void check_has(const std::string &primary_key, const Row &row) {
    size_t own = 0;
    for (const auto &[key, stored] : index) {
      Slice owner;
      CHECK(kind.primary_key(slice_of_text(key), {nullptr, 0}, &owner));
      own += text_of(owner) == primary_key;
    }
    CHECK(own == row.words.size() / 2);
    for (size_t i = 0; i < row.words.size(); i += 2)
      CHECK((index.at(row.words[i] + primary_key) == Stored{std::string(1, row.words[i + 1]), row.expiry}));
    CHECK(counted == static_cast<long>(index.size()));
  }
};

const Row NONE{""};

void rows_have_none_one_and_three_entries() {
  const std::vector<Row> rows{NONE,       {"ax"},     {"ay"},     {"bx"},     {"axbxcx"},
                              {"cxaxbx"}, {"bxcxdx"}, {"dxexfx"}, {"axbycx"}, {"bxcxdx", 7}};
  for (const Row &from : rows)
    for (const Row &to : rows)
      for (const bool passed_snapshot : {false, true}) {
        Table table;
        table.change("1", NONE, {"axbxcx"}, false);
        table.change("2", NONE, from, passed_snapshot);
        table.check_has("2", from);
        table.change("2", from, to, passed_snapshot);
        table.check_has("2", to);
        table.check_has("1", {"axbxcx"});
        table.change("2", to, NONE, passed_snapshot);
        table.check_has("2", NONE);
        CHECK(table.index.size() == 3);
      }
}

/* Of a difference only what it is gets written; all of it where the row is renewed or the snapshot passed. */
void equal_entries_are_left_alone() {
  Table table;
  table.change("1", NONE, {"axbxcx"}, false);
  CHECK(table.writes == 3);
  table.change("1", {"axbxcx"}, {"axbxcx"}, false);
  CHECK(table.writes == 0);
  table.change("1", {"axbxcx"}, {"cxbxdx"}, false);
  CHECK(table.writes == 1);
  table.change("1", {"cxbxdx"}, {"cxbydx"}, false);
  CHECK(table.writes == 1);
  table.change("1", {"cxbydx"}, {"cxbydx"}, true);
  CHECK(table.writes == 3);
  table.change("1", {"cxbydx"}, {"cxbydx", 9}, false);
  CHECK(table.writes == 3);
  table.check_has("1", {"cxbydx", 9});
}

void an_entry_is_rewritten_for_the_reason_that_checks_most() {
  EntrySet before, after;
  before.add().value.append_byte('x');
  after.add().value.append_byte('x');
  CHECK(why_rewrite({0, 0, false}, before[0], after[0]) == Rewrite::NONE);
  CHECK(why_rewrite({0, 0, true}, before[0], after[0]) == Rewrite::PAST_SNAPSHOT);
  CHECK(why_rewrite({0, 5, false}, before[0], after[0]) == Rewrite::RENEWED);
  CHECK(why_rewrite({5, 5, false}, before[0], after[0]) == Rewrite::NONE);
  /* Another row may hold the key of one that expires, unseen by the snapshot. */
  CHECK(why_rewrite({5, 5, true}, before[0], after[0]) == Rewrite::RENEWED);
  after[0].value.append_byte('y');
  CHECK(why_rewrite({0, 0, true}, before[0], after[0]) == Rewrite::OTHER_VALUE);
}

void the_first_error_ends_a_difference() {
  Table table;
  const std::vector<uchar> from = Row{"axbxcx"}.record(), to = Row{"cxdxex"}.record();
  table.kind.entries(from.data(), {nullptr, 0}, &table.before);
  table.kind.entries(to.data(), {nullptr, 0}, &table.after);
  for (int fails_at = 1; fails_at <= 5; fails_at++) {
    int calls = 0;
    const auto one = [&](const EntrySet::Entry &) { return ++calls == fails_at ? 42 : 0; };
    const auto both = [&](const EntrySet::Entry &, const EntrySet::Entry &) {
      return ++calls == fails_at ? 42 : 0;
    };
    CHECK(for_each_difference(table.before, table.after, one, both, one) == 42);
    CHECK(calls == fails_at);
  }
}

void a_set_forgets_the_row_before() {
  WordKind kind;
  EntrySet entries;
  std::string many;
  for (char word = 'a'; word <= 'z'; word++) many += {word, 'x'};
  kind.entries(Row{many}.record().data(), slice_of_text("1"), &entries);
  CHECK(entries.size() == 26 && entries.find(slice_of_text("z1")));
  entries.release_beyond(8);
  CHECK(entries.empty() && !entries.find(slice_of_text("a1")));
  kind.entries(Row{"by"}.record().data(), slice_of_text("2"), &entries);
  CHECK(entries.size() == 1 && text_of(entries[0].key.slice()) == "b2" && !entries.find(slice_of_text("a1")));
  CHECK(text_of(entries[0].value.slice()) == "y" && !entries[0].decides);
}

Row random_row(std::mt19937 *random) {
  Row row;
  std::string letters = "abcdefghijkl";
  std::shuffle(letters.begin(), letters.end(), *random);
  const size_t words = (*random)() % 4 == 0 ? (*random)() % 2 : (*random)() % (letters.size() + 1);
  for (size_t i = 0; i < words; i++) row.words += {letters[i], static_cast<char>('x' + (*random)() % 2)};
  row.expiry = (*random)() % 3 == 0 ? 1 + (*random)() % 2 : 0;
  return row;
}

void random_changes(uint seed) {
  std::mt19937 random(seed);
  Table table;
  std::vector<Row> rows(5);
  for (uint step = 0; step < 20000; step++) {
    const size_t place = random() % rows.size();
    const Row to = random() % 8 ? random_row(&random) : NONE;
    table.change(std::to_string(place), rows[place], to, random() % 2);
    rows[place] = to;
    table.check_has(std::to_string(place), to);
  }
}

}  // namespace

int main(int, char **arguments) {
  rows_have_none_one_and_three_entries();
  equal_entries_are_left_alone();
  an_entry_is_rewritten_for_the_reason_that_checks_most();
  the_first_error_ends_a_difference();
  a_set_forgets_the_row_before();
  const uint seed = arguments[1] ? static_cast<uint>(atoi(arguments[1])) : 1;
  printf("index kinds: seed %u\n", seed);
  random_changes(seed);
  return 0;
}

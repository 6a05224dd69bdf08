#include "store/data_identity.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <vector>

#include "key/sql_headers.h"
#include "log.h"

#include "store/home.h"
#include "store/regular_file.h"

namespace tidesdb {

namespace {

constexpr const char IDENTITY_FILE[] = "tidesdb_identity";
/* Its lines: the identity, the store's directory, whether the store was made, and its mark (tidesdb_mark) at
   the newest opening. */
constexpr const char RECORD_FILE[] = "tidesdb_store";
constexpr const char MADE[] = "made";
constexpr const char IN_THE_MAKING[] = "in the making";
constexpr size_t DIGITS = 32;

enum class Found { YES, NO, FAILED };

/* The lines of a file, at least `least`. A file that is there and cannot be read is a failure, which the
   error log names: nothing is made anew for it. */
Found read_lines(const std::string &path, std::vector<std::string> *lines, size_t least) {
  std::string text;
  if (!read_regular_file(path, &text)) {
    if (errno == ENOENT) return Found::NO;
    sql_print_error("TidesDB: cannot read '%s': %s", path.c_str(), why_not_opened(errno).c_str());
    return Found::FAILED;
  }
  lines->clear();
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines->push_back(line);
  if (lines->size() < least) lines->resize(least);
  return Found::YES;
}

bool is_identity(const std::string &text) {
  return text.size() == DIGITS && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool draw(std::string *identity) {
  unsigned char bytes[DIGITS / 2];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) return true;
  identity->clear();
  for (const unsigned char byte : bytes) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", byte);
    *identity += digits;
  }
  return false;
}

/* A record is written before the store is made, and again when it was opened. */
bool write_record(const std::string &data_directory, const std::string &home, const std::string &identity,
                  bool made, const std::string &mark) {
  return replace_regular_file(
      data_directory, RECORD_FILE,
      identity + "\n" + home + "\n" + (made ? MADE : IN_THE_MAKING) + "\n" + mark + "\n");
}

bool cannot_write(const std::string &data_directory, const char *name) {
  sql_print_error("TidesDB: cannot write '%s/%s': %s", data_directory.c_str(), name,
                  why_not_opened(errno).c_str());
  return true;
}

void report_missing_store(const std::string &data_directory, const std::string &home,
                          const DataIdentity &data) {
  sql_print_error(
      "TidesDB: there is no store in '%s'. The data directory '%s' has one, of identity %s, last opened in "
      "'%s'. "
      "If its disk is not mounted, or tidesdb_data_home_dir names another place, mend that. If it is lost, "
      "restore a backup, or start once with --tidesdb-replace-missing-store=%s: this makes a new store, "
      "without "
      "tables",
      home.c_str(), data_directory.c_str(), data.identity.c_str(),
      data.place.empty() ? "a place that an earlier build did not record" : data.place.c_str(),
      data.identity.c_str());
}

}  // namespace

namespace {

/* The identity and the record, as far as they are there. */
bool read_data_files(const std::string &data_directory, const std::string &home, DataIdentity *data,
                     bool *has_identity, bool *in_the_making) {
  const std::string path = data_directory + "/" + IDENTITY_FILE, owner_path = home + "/OWNER";
  std::vector<std::string> lines, record;
  const Found identity = read_lines(path, &lines, 1);
  const Found recorded = read_lines(data_directory + "/" + RECORD_FILE, &record, 4);
  if (identity == Found::FAILED || recorded == Found::FAILED) return true;
  *has_identity = identity == Found::YES;
  if (*has_identity && !is_identity(lines[0])) {
    sql_print_error(
        "TidesDB: '%s' does not hold an identity (%zu hexadecimal digits). If the store in '%s' belongs to "
        "this "
        "data directory, copy '%s' over it; else remove it",
        path.c_str(), DIGITS, home.c_str(), owner_path.c_str());
    return true;
  }
  if (*has_identity) data->identity = lines[0];
  if (recorded == Found::YES && is_identity(record[0]) && (!*has_identity || record[0] == data->identity)) {
    data->identity = record[0];
    data->place = record[1];
    data->recorded = record[2] == MADE;
    *in_the_making = !data->recorded;
    if (data->recorded) data->mark = record[3];
  }
  return false;
}

/* Whether the store belongs to a data directory with an identity, where this one has none. */
bool refuse_store_of_another(const std::string &data_directory, const std::string &home) {
  const std::string path = data_directory + "/" + IDENTITY_FILE, owner_path = home + "/OWNER";
  std::vector<std::string> lines;
  const Found owner = read_lines(owner_path, &lines, 2);
  if (owner != Found::YES || !is_identity(lines[0])) return owner == Found::FAILED;
  sql_print_error(
      "TidesDB: the data directory '%s' has no identity, and the store in '%s' belongs to one that had: it "
      "was "
      "made anew, or restored without its file '%s'. If the tables of the store are not needed, remove "
      "'%s'; if "
      "they belong to this data directory, run: cp '%s' '%s'. The store was last opened for '%s'",
      data_directory.c_str(), home.c_str(), IDENTITY_FILE, home.c_str(), owner_path.c_str(), path.c_str(),
      lines[1].c_str());
  return true;
}

}  // namespace

bool choose_data_identity(const std::string &data_directory, const std::string &home,
                          const std::string &replaced, DataIdentity *data) {
  const bool there = has_store(home);
  bool has_identity = false, in_the_making = false;
  if (read_data_files(data_directory, home, data, &has_identity, &in_the_making)) return true;
  if (!has_identity && refuse_store_of_another(data_directory, home)) return true;
  /* A restore puts the store back to an earlier moment: the memory ends. */
  if (access((data_directory + "/" + RESTORED_FILE).c_str(), F_OK) == 0) data->mark.clear();
  /* Earlier builds write no record: their identity alone says that there is a store. */
  const bool expected = has_identity ? !in_the_making : data->recorded;
  const bool lost = expected && !there;
  if (lost && replaced != data->identity) {
    report_missing_store(data_directory, home, *data);
    return true;
  }
  data->makes_store = !there;
  if (lost || !has_identity) {
    data->drawn = true;
    data->recorded = false;
    data->place.clear();
    data->mark.clear();
    if (draw(&data->identity)) return cannot_write(data_directory, IDENTITY_FILE);
  }
  return false;
}

bool keep_data_identity(const std::string &data_directory, const std::string &home,
                        const DataIdentity &data) {
  if (data.makes_store && write_record(data_directory, home, data.identity, false, ""))
    return cannot_write(data_directory, RECORD_FILE);
  if (data.drawn &&
      replace_regular_file(data_directory, IDENTITY_FILE, data.identity + "\n" + data_directory + "\n"))
    return cannot_write(data_directory, IDENTITY_FILE);
  return false;
}

std::string remembered_store(const std::string &data_directory, const DataIdentity &data) {
  return data.mark.empty() ? "" : data.mark + "\n" + data_directory + "/" + RECORD_FILE;
}

void record_store(const std::string &data_directory, const std::string &home, const DataIdentity &data,
                  const std::string &mark) {
  if (data.recorded && data.place == home && data.mark == mark) return;
  if (write_record(data_directory, home, data.identity, true, mark))
    sql_print_warning(
        "TidesDB: cannot write '%s/%s': %s. Until a start can, a missing store is made anew, and an older "
        "copy is "
        "not recognised",
        data_directory.c_str(), RECORD_FILE, why_not_opened(errno).c_str());
}

}  // namespace tidesdb

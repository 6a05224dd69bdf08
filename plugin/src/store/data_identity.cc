#include "store/data_identity.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "key/sql_headers.h"
#include "log.h"

namespace tidesdb {

namespace {

constexpr const char IDENTITY_FILE[] = "tidesdb_identity";
constexpr size_t DIGITS = 32;

/* The first lines of a file; false: it cannot be read. */
bool read_lines(const std::string &path, std::string *first, std::string *second) {
  std::ifstream file(path);
  if (!file) return false;
  std::getline(file, *first);
  std::getline(file, *second);
  return true;
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

bool sync_and_close(int file) {
  const bool failed = fsync(file) != 0;
  return close(file) != 0 || failed;
}

/* Writes the file as a whole and durably: a crash leaves none or this one. */
bool write_identity(const std::string &data_directory, const std::string &identity) {
  const std::string path = data_directory + "/" + IDENTITY_FILE, temporary = path + ".tmp";
  const std::string text = identity + "\n" + data_directory + "\n";
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (file < 0) return true;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (sync_and_close(file) || !written || rename(temporary.c_str(), path.c_str()) != 0) return true;
  const int directory = open(data_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return directory < 0 || sync_and_close(directory);
}

}  // namespace

bool data_identity(const std::string &data_directory, const std::string &home, std::string *identity) {
  const std::string path = data_directory + "/" + IDENTITY_FILE, owner_path = home + "/OWNER";
  std::string place;
  if (read_lines(path, identity, &place)) {
    if (is_identity(*identity)) return false;
    sql_print_error(
        "TidesDB: '%s' does not hold an identity (%zu hexadecimal digits). If the store in '%s' belongs to "
        "this "
        "data directory, copy '%s' over it; else remove it",
        path.c_str(), DIGITS, home.c_str(), owner_path.c_str());
    return true;
  }
  std::string owner;
  if (read_lines(owner_path, &owner, &place) && is_identity(owner)) {
    sql_print_error(
        "TidesDB: the data directory '%s' has no identity, and the store in '%s' belongs to one that had: it "
        "was made "
        "anew, or restored without its file '%s'. If the tables of the store are not needed, remove '%s'; if "
        "they "
        "belong to this data directory, run: cp '%s' '%s'. The store was last opened for '%s'",
        data_directory.c_str(), home.c_str(), IDENTITY_FILE, home.c_str(), owner_path.c_str(), path.c_str(),
        place.c_str());
    return true;
  }
  if (draw(identity) || write_identity(data_directory, *identity)) {
    sql_print_error("TidesDB: cannot write '%s': %s", path.c_str(), strerror(errno));
    return true;
  }
  return false;
}

}  // namespace tidesdb

#include "ddl/server_ddl_log.h"

#include <cstring>

#include "key/sql_headers.h"
#include "ddl_log.h"
#include "mysqld.h"

#include "ddl/server_files.h"

namespace tidesdb {

namespace {

/* Places in a block, and in the first one, the header (sql/ddl_log.cc). */
constexpr uchar MAGIC[] = {254, 254, 11, 2};
constexpr size_t BLOCK_SIZE = 4, NAMES_OFFSET = 6, HEADER = 9;
constexpr size_t ENTRY_TYPE = 0, ACTION = 1, PHASE = 2, NEXT_ENTRY = 4, CONDITION = 34, NAMES = 42;
/* Of the eight names of a block. */
constexpr uint PATH = 6;
/* Bits of CONDITION that count the attempts; the others number an entry that must be inactive. */
constexpr uint ATTEMPT_BITS = 8;

class Log {
 public:
  explicit Log(std::string bytes) : bytes_(std::move(bytes)) {
    if (bytes_.size() < HEADER || memcmp(begin(), MAGIC, sizeof(MAGIC))) return;
    block_size_ = uint2korr(begin() + BLOCK_SIZE);
    names_ = uint2korr(begin() + NAMES_OFFSET);
    if (names_ < NAMES || names_ >= block_size_) return;
    entries_ = bytes_.size() / block_size_;
    if (entries_ != 0) entries_--; /* the header's block */
  }

  size_t entries() const { return entries_; }
  const uchar *entry(size_t number) const { return begin() + number * block_size_; }

  std::string name(const uchar *entry, uint number) const {
    size_t at = names_;
    for (;; number--) {
      if (at + 2 > block_size_) return {};
      const size_t length = uint2korr(entry + at);
      at += 2;
      if (at + length > block_size_) return {};
      if (number == 0) return std::string(reinterpret_cast<const char *>(entry + at), length);
      at += length + 1;
    }
  }

 private:
  const uchar *begin() const { return reinterpret_cast<const uchar *>(bytes_.data()); }

  const std::string bytes_;
  size_t block_size_ = 0, names_ = 0, entries_ = 0;
};

/* The DROP has yet to remove the table from its engine. */
bool drops_table(const uchar *entry) {
  return entry[ENTRY_TYPE] == DDL_LOG_ENTRY_CODE && entry[ACTION] == DDL_LOG_DROP_TABLE_ACTION &&
         entry[PHASE] == DDL_DROP_PHASE_TABLE;
}

}  // namespace

std::vector<std::string> tables_being_dropped() {
  std::vector<std::string> paths;
  /* In a server that has started the log is that of running statements. */
  if (mysqld_server_started) return paths;
  char name[FN_REFLEN];
  fn_format(name, opt_ddl_recovery_file, mysql_data_home, ".log", MYF(MY_REPLACE_EXT));
  std::string bytes;
  if (!read_file(name, &bytes)) return paths;
  const Log log(std::move(bytes));
  for (size_t number = 1; number <= log.entries(); number++) {
    const uchar *const first = log.entry(number);
    if (first[ENTRY_TYPE] != DDL_LOG_EXECUTE_CODE || uint8korr(first + CONDITION) >> ATTEMPT_BITS) continue;
    size_t next = uint4korr(first + NEXT_ENTRY);
    for (size_t steps = 0; next != 0 && next <= log.entries() && steps < log.entries(); steps++) {
      const uchar *const entry = log.entry(next);
      if (drops_table(entry)) {
        const std::string path = log.name(entry, PATH);
        if (!path.empty()) paths.push_back(path);
      }
      next = uint4korr(entry + NEXT_ENTRY);
    }
  }
  return paths;
}

}  // namespace tidesdb

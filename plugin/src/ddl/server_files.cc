#include "ddl/server_files.h"

#include <dirent.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>

#include "key/sql_headers.h"
#include "unireg.h"

namespace tidesdb {

namespace {

constexpr size_t FRM_HEADER = 64;
constexpr size_t WORD = 4;

const uchar *bytes_of(const std::string &text) { return reinterpret_cast<const uchar *>(text.data()); }

}  // namespace

std::vector<std::string> names_in(const std::string &directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR *)> open(opendir(directory.c_str()), closedir);
  if (!open) return names;
  while (const dirent *entry = readdir(open.get())) names.emplace_back(entry->d_name);
  return names;
}

bool read_file(const std::string &path, std::string *bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  bytes->assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return !file.bad();
}

bool ends_with(const std::string &text, const std::string &end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool read_definition_file(const std::string &path, DefinitionFile *definition) {
  std::string frm;
  if (!read_file(path, &frm) || frm.size() <= FRM_HEADER) return false;
  const uchar *const begin = bytes_of(frm);
  if (begin[0] != 254 || begin[1] != 1) return false;
  const uchar *section = begin + FRM_HEADER;
  const uchar *const end = section + std::min<size_t>(uint2korr(begin + 4), frm.size() - FRM_HEADER);
  if (*section == '/') return false; /* of a server before there were identities */
  while (section + 3 <= end) {
    const auto type = static_cast<extra2_frm_value_type>(*section++);
    const size_t length = extra2_read_len(&section, end);
    if (length == 0 || length > static_cast<size_t>(end - section)) return false;
    const std::string value(reinterpret_cast<const char *>(section), length);
    if (type == EXTRA2_TABLEDEF_VERSION) definition->identity = value;
    if (type == EXTRA2_DEFAULT_PART_ENGINE) definition->partition_engine = value;
    section += length;
  }
  return true;
}

std::vector<std::string> read_partition_names(const std::string &path) {
  std::string par;
  std::vector<std::string> names;
  if (!read_file(path, &par) || par.size() < 3 * WORD) return names;
  const size_t count = uint4korr(bytes_of(par) + 2 * WORD);
  if (count > par.size()) return names;
  size_t at = (3 + (count + 3) / WORD) * WORD; /* after a byte for each partition's engine */
  if (at + WORD > par.size()) return names;
  const size_t end = std::min<size_t>(par.size(), at + WORD + uint4korr(bytes_of(par) + at));
  at += WORD;
  while (names.size() < count && at < end) {
    const size_t zero = std::min(par.find('\0', at), end);
    names.push_back(par.substr(at, zero - at));
    at = zero + 1;
  }
  return names.size() == count ? names : std::vector<std::string>();
}

}  // namespace tidesdb

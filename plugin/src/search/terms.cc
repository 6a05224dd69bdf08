#include "search/terms.h"

#include <algorithm>
#include <string>
#include <vector>

#include "key/units.h"
#include "server.h"

namespace tidesdb {

namespace {

/* The end of a level: a zero byte, which no level has without INSIDE_NO_PAD after it. */
constexpr size_t END_SIZE = 2;

/* Moves *at after a level's end; false: there is none. */
bool skip_level(const uchar **at, const uchar *end) {
  while (const void *zero = memchr(*at, 0, static_cast<size_t>(end - *at))) {
    const uchar *marker = static_cast<const uchar *>(zero) + 1;
    if (marker == end) return false;
    *at = marker + 1;
    if (*marker == END_NO_PAD) return true;
    if (*marker != INSIDE_NO_PAD) return false;
  }
  return false;
}

}  // namespace

namespace {

/* latin2_czech_cs has four levels with this byte between them, and a zero byte after the last one.
   cp1250_czech_cs has two, and each element of a word has a byte in both. */
constexpr uchar LEVEL_SEPARATOR = 1;
constexpr uint LATIN2_CZECH = 2, CP1250_CZECH = 34;

size_t first_level(const uchar *weights, size_t size, bool separated) {
  if (!separated) return size / 2;
  const void *end = memchr(weights, LEVEL_SEPARATOR, size);
  return end ? static_cast<size_t>(static_cast<const uchar *>(end) - weights) : size;
}

/* The weights of a term without escapes and end. */
std::string weights_of(Slice term) {
  std::string weights;
  for (size_t i = 0; i + END_SIZE <= term.size && !(term.data[i] == 0 && term.data[i + 1] == END_NO_PAD);
       i++) {
    weights.push_back(static_cast<char>(term.data[i]));
    i += term.data[i] == 0;
  }
  return weights;
}

/* The levels of these weights. */
std::vector<std::string> levels_of(const std::string &weights, bool separated) {
  if (!separated) return {weights.substr(0, weights.size() / 2), weights.substr(weights.size() / 2)};
  std::vector<std::string> levels(1);
  for (const char weight : weights) {
    if (weight == 0) break;
    if (weight == LEVEL_SEPARATOR)
      levels.emplace_back();
    else
      levels.back().push_back(weight);
  }
  return levels;
}

}  // namespace

TermCodec::TermCodec(CHARSET_INFO *charset)
    : charset_(charset),
      levels_(charset->levels_for_order > 1 && !(charset->state & MY_CS_STRNXFRM_BAD_NWEIGHTS)
                  ? charset->levels_for_order
                  : 1),
      old_(charset->number == LATIN2_CZECH   ? Old::SEPARATED
           : charset->number == CP1250_CZECH ? Old::HALVES
                                             : Old::NONE) {}

/* Into weights_; returns their bytes. */
size_t TermCodec::write_level(Slice word, uint level) const {
  const uint flags = levels_ > 1 ? MY_STRXFRM_LEVEL1 << level : 0;
  for (size_t room = std::max<size_t>(charset_->strnxfrmlen(word.size), 2 * word.size + 16);; room *= 2) {
    weights_.clear();
    bool cut;
    const size_t size =
        write_weights(charset_, weights_.reserve(room), room, word.data, word.size, flags, &cut);
    if (!cut) return size;
  }
}

bool TermCodec::append(Slice word, ByteBuffer *out) const {
  for (uint level = 0; levels_ >> level; level++) {
    if (!(levels_ & (1U << level))) continue;
    const size_t size = write_level(word, level);
    if (level == 0 && size == 0) return false;
    append_units<1>(weights_.data(), size, false, 0, out);
  }
  return true;
}

bool TermCodec::append_prefix(Slice word, ByteBuffer *out) const {
  size_t size = write_level(word, 0);
  if (size == 0) return false;
  if (old_ != Old::NONE) size = first_level(weights_.data(), size, old_ == Old::SEPARATED);
  append_units<1>(weights_.data(), size, false, 0, out);
  out->truncate(out->size() - END_SIZE);
  return true;
}

bool TermCodec::begins_with_old(Slice term, Slice whole) const {
  const std::vector<std::string> levels = levels_of(weights_of(term), old_ == Old::SEPARATED),
                                 wanted = levels_of(weights_of(whole), old_ == Old::SEPARATED);
  if (levels.size() < wanted.size()) return false;
  for (size_t i = 0; i < wanted.size(); i++)
    if (levels[i].compare(0, wanted[i].size(), wanted[i]) != 0) return false;
  return true;
}

bool TermCodec::begins_with(Slice term, Slice whole) const {
  if (old_ != Old::NONE) return begins_with_old(term, whole);
  const uchar *at = term.data, *wanted = whole.data;
  const uchar *const end = term.data + term.size, *const wanted_end = whole.data + whole.size;
  for (uint level = 0; levels_ >> level; level++) {
    if (!(levels_ & (1U << level))) continue;
    const uchar *const from = at, *const wanted_from = wanted;
    if (!skip_level(&at, end) || !skip_level(&wanted, wanted_end)) return false;
    const size_t size = static_cast<size_t>(wanted - wanted_from) - END_SIZE;
    if (static_cast<size_t>(at - from) < size + END_SIZE || memcmp(from, wanted_from, size) != 0)
      return false;
  }
  return true;
}

bool TermCodec::split(Slice key, Slice *term, Slice *row_key) const {
  const uchar *at = key.data, *const end = key.data + key.size;
  for (uint level = 0; levels_ >> level; level++)
    if ((levels_ & (1U << level)) && !skip_level(&at, end)) return false;
  *term = {key.data, static_cast<size_t>(at - key.data)};
  *row_key = {at, static_cast<size_t>(end - at)};
  return true;
}

}  // namespace tidesdb

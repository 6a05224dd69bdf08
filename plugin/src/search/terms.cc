#include "search/terms.h"

#include <algorithm>

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

/* The Czech collations of the 1990s write all of their levels at once and know no flags. */
TermCodec::TermCodec(CHARSET_INFO *charset)
    : charset_(charset),
      levels_(charset->levels_for_order > 1 && !(charset->state & MY_CS_STRNXFRM_BAD_NWEIGHTS)
                  ? charset->levels_for_order
                  : 1) {}

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
  const size_t size = write_level(word, 0);
  if (size == 0) return false;
  append_units<1>(weights_.data(), size, false, 0, out);
  out->truncate(out->size() - END_SIZE);
  return true;
}

bool TermCodec::begins_with(Slice term, Slice whole) const {
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

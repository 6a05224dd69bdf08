#include "key/key_text.h"

#include <cctype>
#include <map>
#include <mutex>
#include <unordered_map>

#include "compat56.h"
#include "my_decimal.h"
#include "my_time.h"
#include "mysqld.h"
#include "tztime.h"

#include "key/key_codec.h"
#include "key/units.h"
#include "server.h"

namespace tidesdb {

namespace {

constexpr uchar NULL_MARK = 0;

/* Characters that weights are read back to: letters, digits and signs of the scripts with one weight a
 * letter. */
constexpr my_wc_t FIRST_CHARACTER = ' ';
constexpr my_wc_t CHARACTERS_END = 0x2500;

/* For each weight of a collation's first level the first character that has it alone, small letters first. */
using Letters = std::unordered_map<uint, my_wc_t>;

void add_letter(CHARSET_INFO *charset, uint unit, bool several, my_wc_t character, Letters *letters) {
  uchar bytes[16], weights[64];
  const int size = charset->cset->wc_mb(charset, character, bytes, bytes + sizeof bytes);
  if (size <= 0) return;
  bool cut;
  const size_t got = write_weights(charset, weights, sizeof weights, bytes, static_cast<size_t>(size),
                                   several ? MY_STRXFRM_LEVEL1 : 0, &cut);
  if (got != unit) return;
  uint weight = 0;
  for (size_t i = 0; i < got; i++) weight = weight << 8 | weights[i];
  letters->emplace(weight, character);
}

/* Made when a key of the collation is read first. */
const Letters &letters_of(const KeyPart &part) {
  static std::mutex mutex;
  static std::map<const CHARSET_INFO *, Letters> known;
  const std::lock_guard<std::mutex> guard(mutex);
  const auto [at, is_new] = known.try_emplace(part.charset);
  if (is_new) {
    const bool several = part.levels > 1;
    for (my_wc_t letter = 'a'; letter <= 'z'; letter++)
      add_letter(part.charset, part.unit, several, letter, &at->second);
    for (my_wc_t character = FIRST_CHARACTER; character < CHARACTERS_END; character++)
      add_letter(part.charset, part.unit, several, character, &at->second);
  }
  return at->second;
}

void append_character(my_wc_t character, std::string *out) {
  uchar bytes[8];
  CHARSET_INFO *utf8 = &my_charset_utf8mb4_bin;
  const int size = utf8->cset->wc_mb(utf8, character, bytes, bytes + sizeof bytes);
  if (size > 0) out->append(reinterpret_cast<const char *>(bytes), static_cast<size_t>(size));
}

enum class Ends { END, CUT, DAMAGED };

/* The units of a string up to its end. */
template <uint UNIT>
Ends take_units(const KeyPart &part, bool filled, bool pad, uint space, const uchar **at, const uchar *end,
                std::vector<uint> *units) {
  const uchar mask = part.descending ? 0xff : 0;
  const uint escape = pad ? space : 0;
  for (;;) {
    uint unit;
    if (!take_unit<UNIT>(at, end, mask, &unit)) return Ends::CUT;
    const bool is_space = filled && unit == space;
    if (unit != escape && !is_space && !(filled && unit == 0)) {
      units->push_back(unit);
      continue;
    }
    if (*at >= end) return Ends::CUT;
    const Mark mark = take_mark(at, end, mask, pad || is_space);
    if (mark == Mark::END) return Ends::END;
    if (mark == Mark::DAMAGED) return Ends::DAMAGED;
    if (!is_space) {
      units->push_back(unit);
      continue;
    }
    if (static_cast<size_t>(end - *at) < RUN_LENGTH_SIZE) return Ends::CUT;
    uint run = static_cast<uint>(((*at)[0] ^ mask) << 8 | ((*at)[1] ^ mask));
    if (run > 255) run = ~run & 0xffff; /* what follows is above spaces */
    units->insert(units->end(), std::min(run, 255U), space);
    *at += RUN_LENGTH_SIZE;
  }
}

Ends take_level(const KeyPart &part, uint level, const uchar **at, const uchar *end,
                std::vector<uint> *units) {
  const bool filled = part.filled && part.space_weight[level] != 0;
  const bool pad = level == 0 ? part.pad_space : part.space_weight[level] != 0;
  const uint space = part.space_weight[level];
  switch (part.unit) {
    case 1:
      return take_units<1>(part, filled, pad, space, at, end, units);
    case 2:
      return take_units<2>(part, filled, pad, space, at, end, units);
    case 3:
      return take_units<3>(part, filled, pad, space, at, end, units);
    default:
      return take_units<4>(part, filled, pad, space, at, end, units);
  }
}

void append_quoted(const std::string &utf8, std::string *out) {
  *out += '\'';
  for (const char c : utf8) {
    if (c == '\'') *out += '\'';
    if (static_cast<uchar>(c) < ' ')
      *out += '?';
    else
      *out += c;
  }
  *out += '\'';
}

bool is_printable(const std::string &bytes) {
  for (const char c : bytes)
    if (c < ' ' || c > '~') return false;
  return true;
}

void append_bytes(const std::string &bytes, std::string *out) {
  if (is_printable(bytes))
    append_quoted(bytes, out);
  else
    append_hex_literal({reinterpret_cast<const uchar *>(bytes.data()), bytes.size()}, out);
}

std::string as_utf8(const std::string &text, CHARSET_INFO *charset) {
  std::string utf8(text.size() * 4 + 1, '\0');
  uint errors;
  utf8.resize(my_convert(utf8.data(), static_cast<uint32>(utf8.size()), &my_charset_utf8mb4_bin, text.data(),
                         static_cast<uint32>(text.size()), charset, &errors));
  return utf8;
}

std::string without_spaces_at_end(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

ulonglong number_of(const uchar *value, uint width) {
  ulonglong number = 0;
  for (uint i = width; i-- > 0;) number = number << 8 | value[i];
  return number;
}

void append_time(const MYSQL_TIME &time, uint decimals, std::string *out) {
  char text[MAX_DATE_STRING_REP_LENGTH];
  const int size = my_TIME_to_str(&time, text, decimals);
  append_quoted(std::string(text, static_cast<size_t>(size)), out);
}

}  // namespace

void append_hex_literal(Slice bytes, std::string *out) {
  static const char digits[] = "0123456789ABCDEF";
  *out += "X'";
  for (size_t i = 0; i < bytes.size; i++) {
    *out += digits[bytes.data[i] >> 4];
    *out += digits[bytes.data[i] & 15];
  }
  *out += '\'';
}

void KeyText::add(const TABLE *table, const KEY &key) {
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    Field *field = table->field[key.key_part[i].fieldnr - 1];
    Part part;
    part.column.assign(field->field_name.str, field->field_name.length);
    part.key = compile_key_part(const_cast<TABLE *>(table), key.key_part[i]);
    part.key.field = nullptr;
    part.key.record_offset = 0;
    part.type = field->real_type();
    part.decimals = field->decimals();
    part.precision =
        part.type == MYSQL_TYPE_NEWDECIMAL ? static_cast<Field_new_decimal *>(field)->precision : 0;
    part.is_unsigned = field->flags & UNSIGNED_FLAG;
    parts_.push_back(std::move(part));
  }
}

KeyText KeyText::make(const TABLE *table, uint index) {
  KeyText made;
  if (index != MAX_KEY && is_full_text(table->key_info[index])) {
    made.terms_ = true;
    return made;
  }
  if (index != MAX_KEY) made.add(table, table->key_info[index]);
  const uint primary = table->s->primary_key;
  if (index != primary && primary != MAX_KEY) made.add(table, table->key_info[primary]);
  return made;
}

/* A value of constant width; false: the key ends before. */
bool KeyText::append_fixed(const Part &part, const uchar **at, const uchar *end, std::string *out) {
  const KeyPart &key = part.key;
  const uint size = key.kind == KeyPart::Kind::IMAGE ? key.sort_size : key.width;
  if (static_cast<size_t>(end - *at) < size) return false;
  std::vector<uchar> value(size + 1);
  if (key.kind == KeyPart::Kind::FLOAT || key.kind == KeyPart::Kind::DOUBLE) {
    const uchar positive = 0, *unpack = &positive;
    KeyPart not_null = key;
    not_null.nullable = false;
    decode_part(not_null, at, end, &unpack, unpack + 1, value.data());
    double number;
    if (key.kind == KeyPart::Kind::FLOAT) {
      float single;
      float4get(single, value.data());
      number = single;
    } else {
      float8get(number, value.data());
    }
    char text[64];
    my_gcvt(number, key.kind == KeyPart::Kind::FLOAT ? MY_GCVT_ARG_FLOAT : MY_GCVT_ARG_DOUBLE, 32, text,
            nullptr);
    *out += text;
    return true;
  }
  if (key.kind == KeyPart::Kind::IMAGE) {
    append_hex_literal({*at, size}, out);
    *at += size;
    return true;
  }
  decode_fixed_part(key, *at, value.data());
  *at += size;
  MYSQL_TIME time;
  switch (part.type) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG: {
      const ulonglong number = number_of(value.data(), size);
      const uint spare = 64 - 8 * size;
      *out += part.is_unsigned ? std::to_string(number)
                               : std::to_string(static_cast<longlong>(number << spare) >> spare);
      break;
    }
    case MYSQL_TYPE_YEAR:
      *out += std::to_string(value[0] ? 1900 + value[0] : 0);
      break;
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_SET:
      *out += std::to_string(number_of(value.data(), size));
      break;
    case MYSQL_TYPE_NEWDATE: {
      const ulonglong date = number_of(value.data(), size);
      char text[64];
      snprintf(text, sizeof(text), "'%04u-%02u-%02u'", static_cast<uint>(date >> 9),
               static_cast<uint>(date >> 5) & 15, static_cast<uint>(date) & 31);
      *out += text;
      break;
    }
    case MYSQL_TYPE_TIME2:
      TIME_from_longlong_time_packed(&time, my_time_packed_from_binary(value.data(), part.decimals));
      append_time(time, part.decimals, out);
      break;
    case MYSQL_TYPE_DATETIME2:
      TIME_from_longlong_datetime_packed(&time, my_datetime_packed_from_binary(value.data(), part.decimals));
      append_time(time, part.decimals, out);
      break;
    case MYSQL_TYPE_TIMESTAMP2: {
      struct timeval timestamp;
      my_timestamp_from_binary(&timestamp, value.data(), part.decimals);
      my_tz_SYSTEM->gmt_sec_to_TIME(&time, static_cast<my_time_t>(timestamp.tv_sec));
      time.second_part = static_cast<ulong>(timestamp.tv_usec);
      append_time(time, part.decimals, out);
      break;
    }
    case MYSQL_TYPE_NEWDECIMAL: {
      my_decimal number;
      String text;
      binary2my_decimal(E_DEC_FATAL_ERROR, value.data(), &number, part.precision, part.decimals);
      number.to_string_native(&text, 0, 0, ' ');
      out->append(text.ptr(), text.length());
      break;
    }
    default:
      append_bytes(std::string(reinterpret_cast<const char *>(value.data()), size), out);
  }
  return true;
}

/* What is there of a string that the key ends in; false: the bytes are none of a key. */
bool KeyText::append_string(const Part &part, const uchar **at, const uchar *end, std::string *out) {
  const KeyPart &key = part.key;
  std::vector<uint> units;
  Ends ends = take_level(key, 0, at, end, &units);
  if (ends == Ends::DAMAGED) return false;
  std::string text;
  if (key.kind == KeyPart::Kind::WEIGHTS) {
    const Letters &letters = letters_of(key);
    for (const uint unit : units) {
      const auto letter = letters.find(unit);
      append_character(letter == letters.end() ? 0xFFFD : letter->second, &text);
    }
    append_quoted(without_spaces_at_end(std::move(text)), out);
  } else {
    for (const uint unit : units) text += static_cast<char>(unit);
    if (key.kind == KeyPart::Kind::BYTES)
      append_bytes(text, out);
    else
      append_quoted(as_utf8(text, key.charset), out);
  }
  for (uint level = 1; key.levels >> level && ends == Ends::END; level++) {
    if (!(key.levels & (1U << level))) continue;
    units.clear();
    ends = take_level(key, level, at, end, &units);
  }
  if (ends == Ends::CUT) *at = end;
  return ends != Ends::DAMAGED;
}

std::string KeyText::text(Slice key, bool is_cut) const {
  const uchar *at = key.data, *const end = key.data + key.size;
  std::string out;
  bool is_whole = !terms_;
  for (const Part &part : parts_) {
    if (at == end) break;
    if (!out.empty()) out += ", ";
    const uchar *const begin = at;
    const size_t before = out.size();
    out += part.column + "=";
    if (part.key.nullable && (*at++ ^ (part.key.descending ? 0xff : 0)) == NULL_MARK) {
      out += "NULL";
      continue;
    }
    const bool is_fixed = part.key.kind < KeyPart::Kind::BYTES;
    if (is_fixed ? append_fixed(part, &at, end, &out) : append_string(part, &at, end, &out)) continue;
    /* No value of the column: the bytes as they are. */
    out.resize(before);
    at = begin;
    is_whole = false;
    break;
  }
  /* After the columns of a table without a primary key. */
  if (is_whole && static_cast<size_t>(end - at) == HIDDEN_KEY_SIZE) {
    ulonglong row = 0;
    while (at != end) row = row << 8 | *at++;
    out += (out.empty() ? "row " : ", row ") + std::to_string(row);
  }
  if (at != end) {
    if (!out.empty() && out.back() != ' ') out += ' ';
    append_hex_literal({at, static_cast<size_t>(end - at)}, &out);
  }
  if (is_cut) out += "...";
  return out;
}

}  // namespace tidesdb

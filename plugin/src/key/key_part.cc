#include "key/key_part.h"

#include "key/part_shape.h"
#include "key/units.h"
#include "server.h"

namespace tidesdb {

namespace {

/* UUID, INET6 and INET4 are kept in an order-preserving form and compared with memcmp. */
bool is_plain_fixed_binary(const Field *field) {
  const LEX_CSTRING name = field->type_handler()->name().lex_cstring();
  return strcmp(name.str, "uuid") == 0 || strcmp(name.str, "inet6") == 0 || strcmp(name.str, "inet4") == 0;
}

/* Text whose bytes are in the order of the collation, save for trailing spaces. */
bool is_byte_ordered(CHARSET_INFO *cs) {
  if (!(cs->state & MY_CS_BINSORT)) return false;
  return cs->mbmaxlen == 1 || strncmp(cs->cs_name.str, "utf8", 4) == 0;
}

/* The two collations of tis620 that are no _bin: they move the tone marks to the string's end. */
bool is_thai(CHARSET_INFO *cs) {
  return strcmp(cs->cs_name.str, "tis620") == 0 && (cs->state & MY_CS_NON1TO1);
}

/*
  CHAR is compared with its padding, whatever the collation says. Where all characters have one
  weight, that is PAD SPACE. In a NO PAD collation with expansions, contractions or ignorable
  characters, strings that PAD SPACE finds equal may have different numbers of spaces ('ss' has one
  less than U+00DF) and differ then: the number counts. In Thai the tone marks stand after the
  spaces.
*/
bool is_filled(const KeyPart &part) {
  constexpr uint state = MY_CS_NOPAD | MY_CS_NON1TO1;
  return part.storage == KeyPart::Storage::CHAR &&
         ((part.charset->state & state) == state || is_thai(part.charset));
}

void compile_text(KeyPart *part) {
  CHARSET_INFO *cs = part->charset;
  part->unit = 1;
  part->levels = 1;
  part->pad_space = !(cs->state & MY_CS_NOPAD) || part->storage == KeyPart::Storage::CHAR;
  part->trim = part->pad_space;
  if (cs == &my_charset_bin) {
    part->kind = KeyPart::Kind::BYTES;
    part->pad_space = part->trim = false;
    return;
  }
  if (is_byte_ordered(cs)) {
    part->kind = KeyPart::Kind::TEXT_BYTES;
    part->space_weight[0] = ' ';
    return;
  }
  part->kind = KeyPart::Kind::WEIGHTS;
  /* The Czech collations of the 1990s write all of their levels at once and know no flags. */
  const bool all_at_once = cs->state & MY_CS_STRNXFRM_BAD_NWEIGHTS;
  const bool several = cs->levels_for_order > 1 && !all_at_once;
  part->levels = several ? cs->levels_for_order : 1;

  uchar space[16], weights[64];
  const int space_size = cs->cset->wc_mb(cs, ' ', space, space + sizeof space);
  for (uint level = 0; level < MY_STRXFRM_NLEVELS; level++) {
    if (!(part->levels & (1U << level))) continue;
    bool cut;
    const size_t size = write_weights(cs, weights, sizeof weights, space, space_size > 0 ? space_size : 0,
                                      several ? MY_STRXFRM_LEVEL1 << level : 0, &cut);
    if (level == 0) part->unit = (size >= 1 && size <= 4 && !all_at_once) ? static_cast<uchar>(size) : 1;
    if (all_at_once || size != part->unit) {
      /* No weight to pad with: order without padding; trailing spaces were cut off before. */
      if (level == 0) part->pad_space = false;
      continue;
    }
    part->space_weight[level] = 0;
    for (size_t i = 0; i < size; i++) part->space_weight[level] = part->space_weight[level] << 8 | weights[i];
  }
  if (part->space_weight[0] == 0) part->pad_space = false;
  if (is_filled(*part)) {
    part->filled = true;
    part->pad_space = part->trim = false;
  }
  /* The server compares Thai without padding by strcmp(), save in CHAR. */
  part->ends_at_nul = is_thai(cs) && (cs->state & MY_CS_NOPAD) && !part->filled;
}

}  // namespace

KeyPart compile_key_part(TABLE *table, const KEY_PART_INFO &key_part) {
  /* Parts over a prefix have a shortened copy in key_part.field; the column itself is meant here.
   */
  return compile_key_part(table->field[key_part.fieldnr - 1], table->record[0], key_part);
}

KeyPart compile_key_part(Field *field, const uchar *record, const KEY_PART_INFO &key_part) {
  KeyPart part{};
  part.field = field;
  part.field_index = field->field_index;
  part.charset = field->charset();
  part.record_offset = static_cast<uint>(field->ptr - record);
  part.nullable = field->real_maybe_null();
  part.null_bit = field->null_bit;
  part.null_offset = part.nullable ? static_cast<uint>(field->null_ptr - record) : 0;
  part.descending = key_part.key_part_flag & HA_REVERSE_SORT;
  part.part_length = key_part.length;
  part.image_size = key_part.store_length;
  part.width = field->pack_length();
  part.storage = KeyPart::Storage::FIXED;
  part.unit = 1;
  part.levels = 1;
  part.prefix = key_part.length != field->key_length();
  part.covering = column_can_cover(field) && !part.prefix;

  if (field->flags & BLOB_FLAG) {
    part.storage = KeyPart::Storage::BLOB;
    part.blob_length_bytes = static_cast<uchar>(field->pack_length() - portable_sizeof_char_ptr);
    part.width = 0;
    compile_text(&part);
  } else {
    switch (field->real_type()) {
      case MYSQL_TYPE_TINY:
      case MYSQL_TYPE_SHORT:
      case MYSQL_TYPE_INT24:
      case MYSQL_TYPE_LONG:
      case MYSQL_TYPE_LONGLONG:
        part.kind = (field->flags & UNSIGNED_FLAG) ? KeyPart::Kind::UNSIGNED : KeyPart::Kind::SIGNED;
        break;
      case MYSQL_TYPE_YEAR:
      case MYSQL_TYPE_NEWDATE:
      case MYSQL_TYPE_ENUM:
      case MYSQL_TYPE_SET:
        part.kind = KeyPart::Kind::UNSIGNED;
        break;
      case MYSQL_TYPE_TIME2:
      case MYSQL_TYPE_DATETIME2:
      case MYSQL_TYPE_TIMESTAMP2:
      case MYSQL_TYPE_NEWDECIMAL:
      case MYSQL_TYPE_BIT: /* all bits in the record: the table does not declare HA_CAN_BIT_FIELD */
        part.kind = KeyPart::Kind::RAW;
        break;
      case MYSQL_TYPE_FLOAT:
        part.kind = KeyPart::Kind::FLOAT;
        break;
      case MYSQL_TYPE_DOUBLE:
        part.kind = KeyPart::Kind::DOUBLE;
        break;
      case MYSQL_TYPE_VARCHAR: {
        const uint length_bytes = static_cast<Field_varstring *>(field)->length_bytes;
        part.storage = length_bytes == 1 ? KeyPart::Storage::VARCHAR1 : KeyPart::Storage::VARCHAR2;
        part.width = field->field_length;
        compile_text(&part);
        break;
      }
      case MYSQL_TYPE_STRING:
        if (field->type_handler() == &type_handler_string) {
          if (part.charset == &my_charset_bin) {
            part.kind = KeyPart::Kind::RAW;
            part.width = key_part.length; /* the first bytes, in a part over a prefix */
          } else {
            part.storage = KeyPart::Storage::CHAR;
            compile_text(&part);
          }
          break;
        }
        if (is_plain_fixed_binary(field)) {
          part.kind = KeyPart::Kind::RAW;
          break;
        }
        part.kind = KeyPart::Kind::IMAGE;
        part.sort_size = field->sort_length();
        break;
      default: /* formats of older servers, types of plugins */
        part.kind = KeyPart::Kind::IMAGE;
        part.sort_size = field->sort_length();
    }
  }
  if ((part.prefix || part.filled) && is_string(part) && part.charset->mbmaxlen > 1)
    part.characters = key_part.length / part.charset->mbmaxlen;
  part.encoded_size = is_fixed(part.kind) && !part.nullable ? value_size(part) : 0;
  return part;
}

bool column_can_cover(const Field *field) { return !(field->flags & BLOB_FLAG); }

bool can_stand_for(const KeyPart &of, const KeyPart &in, KeyPart *as) {
  if (of.prefix || in.prefix || is_string(of) != is_string(in)) return false;
  if (is_string(of)) {
    if (of.charset != in.charset) return false;
    *as = in;
    as->field = of.field;
    return true;
  }
  if (of.kind != in.kind || of.width != in.width || of.sort_size != in.sort_size) return false;
  const bool same_type = of.field->real_type() == in.field->real_type() &&
                         of.field->decimals() == in.field->decimals() &&
                         of.field->type_handler() == in.field->type_handler();
  if (!same_type && of.kind != KeyPart::Kind::UNSIGNED && of.kind != KeyPart::Kind::SIGNED) return false;
  *as = of;
  as->nullable = in.nullable;
  as->descending = in.descending;
  return true;
}

bool part_is_self_contained(const KeyPart &part) {
  return part.covering && !part.nullable && part.kind <= KeyPart::Kind::RAW;
}

}  // namespace tidesdb

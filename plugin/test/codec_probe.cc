/*
  A loadable function that checks the key and row codecs against the server on live tables of any
  engine:

    CREATE FUNCTION codec_probe RETURNS STRING SONAME 'codec_probe.so';
    SELECT codec_probe(every column of t) FROM t     -- for each row: 'ok' or what disagrees

  For each row, against all rows before it: memcmp of our keys orders as the server's comparisons;
  our entries give back the row's key and columns; search keys are prefixes; rows decode to what was
  encoded. plugin/test/codec_probe.py runs it over many types and collations.
*/
#include "key/key_codec.h"
#include "row/row_codec.h"

#include "sql_class.h"

#include <string>
#include <vector>

using namespace tidesdb;

namespace {

struct StoredRow {
  std::vector<uchar> record;
  std::vector<std::vector<uchar>> blobs;
  std::vector<std::string> keys; /* columns only, by index */
};

struct Probe {
  TABLE *table;
  std::vector<std::unique_ptr<KeyCodec>> codecs;
  KeyCodec *primary = nullptr;
  std::unique_ptr<RowCodec> rows;
  std::unique_ptr<RowReader> reader;
  std::vector<StoredRow> seen;
  std::string verdict;
  ulonglong row_number = 0;
};

std::string to_string(const ByteBuffer &buffer) {
  return std::string(reinterpret_cast<const char *>(buffer.data()), buffer.size());
}

std::string hex(const std::string &bytes) {
  std::string out;
  char digits[3];
  for (const unsigned char byte : bytes) {
    snprintf(digits, sizeof digits, "%02x", byte);
    out += digits;
  }
  return out;
}

int sign(int value) { return value < 0 ? -1 : value > 0; }

void keep(TABLE *table, const uchar *record, StoredRow *row) {
  row->record.assign(record, record + table->s->reclength);
  for (uint i = 0; i < table->s->fields; i++) {
    Field *field = table->field[i];
    if (!(field->flags & BLOB_FLAG)) continue;
    Field_blob *blob = static_cast<Field_blob *>(field);
    const my_ptrdiff_t offset = blob->ptr - table->record[0];
    const uint length_bytes = blob->pack_length_no_ptr();
    const uchar *data;
    memcpy(&data, record + offset + length_bytes, sizeof data);
    const size_t size = field->is_null(record - table->record[0]) ? 0 : blob->get_length(record + offset);
    row->blobs.emplace_back(data, data + size);
    row->blobs.back().push_back(0);
    data = row->blobs.back().data();
    memcpy(row->record.data() + offset + length_bytes, &data, sizeof data);
  }
}

/* Same value, byte for byte of what matters. */
bool same_field(TABLE *table, Field *field, const uchar *a, const uchar *b) {
  const my_ptrdiff_t da = a - table->record[0], db = b - table->record[0];
  if (field->is_real_null(da) != field->is_real_null(db)) return false;
  if (field->is_real_null(da)) return true;
  const uchar *pa = field->ptr + da, *pb = field->ptr + db;
  if (field->flags & BLOB_FLAG) {
    Field_blob *blob = static_cast<Field_blob *>(field);
    const uint length_bytes = blob->pack_length_no_ptr();
    const size_t size = blob->get_length(pa);
    if (size != blob->get_length(pb)) return false;
    const uchar *xa, *xb;
    memcpy(&xa, pa + length_bytes, sizeof xa);
    memcpy(&xb, pb + length_bytes, sizeof xb);
    return size == 0 || memcmp(xa, xb, size) == 0;
  }
  if (field->real_type() == MYSQL_TYPE_VARCHAR) {
    const uint length_bytes = static_cast<Field_varstring *>(field)->length_bytes;
    const size_t size = length_bytes == 1 ? *pa : uint2korr(pa);
    return memcmp(pa, pb, length_bytes + size) == 0;
  }
  return memcmp(pa, pb, field->pack_length()) == 0;
}

Slice string_in(const Field *field, const uchar *at) {
  if (field->flags & BLOB_FLAG) {
    const Field_blob *blob = static_cast<const Field_blob *>(field);
    const uchar *data;
    memcpy(&data, at + blob->pack_length_no_ptr(), sizeof data);
    return {data, blob->get_length(at)};
  }
  if (field->real_type() == MYSQL_TYPE_STRING)
    return {at, field->charset()->lengthsp(reinterpret_cast<const char *>(at), field->pack_length())};
  const uint length_bytes = static_cast<const Field_varstring *>(field)->length_bytes;
  return {at + length_bytes, static_cast<size_t>(length_bytes == 1 ? *at : uint2korr(at))};
}

/*
  The server's order of two rows in a key: key_rec_cmp(), but for VARCHAR and TEXT the comparison
  that ranges and WHERE use (Field::key_cmp). key_rec_cmp() compares these padded with spaces in
  parts over a prefix, also where the collation is NO PAD. CHAR with PAD SPACE likewise where
  ignorable characters exist; with NO PAD, and in Thai, CHAR is compared filled to the column's width.
*/
int server_order(TABLE *table, const KEY *key, const uchar *a, const uchar *b) {
  for (uint i = 0; i < key->user_defined_key_parts; i++) {
    KEY_PART_INFO *part = &key->key_part[i];
    const Field *field = table->field[part->fieldnr - 1];
    const my_ptrdiff_t da = a - table->record[0], db = b - table->record[0];
    const int greater = part->key_part_flag & HA_REVERSE_SORT ? -1 : 1;
    const bool na = field->is_real_null(da), nb = field->is_real_null(db);
    if (na || nb) {
      if (na != nb) return na ? -greater : greater;
      continue;
    }
    int order;
    CHARSET_INFO *charset = field->charset();
    const bool is_char = field->type_handler() == &type_handler_string && charset != &my_charset_bin &&
                         (charset->state & (MY_CS_NON1TO1 | MY_CS_NOPAD)) == MY_CS_NON1TO1 &&
                         strcmp(charset->cs_name.str, "tis620") != 0;
    if ((field->flags & BLOB_FLAG) || field->real_type() == MYSQL_TYPE_VARCHAR || is_char) {
      CHARSET_INFO *cs = field->charset();
      Slice cut[2] = {string_in(field, field->ptr + da), string_in(field, field->ptr + db)};
      for (Slice &text : cut) {
        const char *from = reinterpret_cast<const char *>(text.data);
        text.size = std::min(text.size, cs->charpos(from, from + text.size, part->length / cs->mbmaxlen));
      }
      order = cs->strnncollsp(cut[0].data, cut[0].size, cut[1].data, cut[1].size);
    } else {
      order = part->field->cmp_prefix(field->ptr + da, field->ptr + db,
                                      part->length / field->charset()->mbmaxlen);
    }
    if (order != 0) return order * greater;
  }
  return 0;
}

/* The row in two parts, every BLOB in the second. */
void check_parts(Probe *probe, const uchar *record, Slice primary_key) {
  TABLE *table = probe->table;
  std::string &verdict = probe->verdict;
  const auto is_same = [&](const uchar *read, bool blobs) {
    for (uint i = 0; i < table->s->fields; i++) {
      const Field *field = table->field[i];
      if (!field->stored_in_db() || (!blobs && (field->flags & BLOB_FLAG))) continue;
      if (!same_field(table, field, record, read)) return false;
    }
    return true;
  };
  RowParts parts;
  parts.threshold = 1;
  ByteBuffer first, whole, kept;
  probe->rows->encode(record, &first, &parts);
  if ((parts.first_size != 0) != !parts.blobs.empty()) verdict += "; no second part, or no first";
  if (parts.blobs.empty()) return;
  if (parts.first_size != first.size()) verdict += "; the first part is not all that is not in the second";
  whole.assign(first.slice());
  for (const RowParts::Blob &blob : parts.blobs) whole.append(blob.bytes);

  std::vector<uchar> scratch(table->s->reclength, 0x5a);
  RowReader *reader = probe->reader.get();
  if (!reader->read(primary_key, whole.slice(), scratch.data()) || !is_same(scratch.data(), true))
    verdict += "; a row in parts does not decode";
  const std::vector<ColumnApart> apart = reader->columns_apart();
  if (reader->lacked_rest() || apart.size() != parts.blobs.size()) verdict += "; its second part is another";
  if (!probe->rows->can_keep(apart)) verdict += "; its second part cannot stay";
  for (size_t i = 0; i < apart.size() && i < parts.blobs.size(); i++)
    if (!same_bytes(probe->rows->value_of(apart[i], record), parts.blobs[i].bytes))
      verdict += "; a column of it has another value";
  if (reader->read(primary_key, first.slice(), scratch.data()))
    verdict += "; half a row decodes as a whole one";
  if (!reader->read(primary_key, first.slice(), scratch.data(), true) || !reader->lacked_rest() ||
      !is_same(scratch.data(), false))
    verdict += "; a first part does not decode alone";
  parts.kept = &apart;
  probe->rows->encode(scratch.data(), &kept, &parts);
  if (!same_bytes(kept.slice(), first.slice())) verdict += "; a first part is another without its second";
  for (size_t cut = 0; cut < whole.size(); cut++) {
    const std::vector<uchar> copy(whole.data(), whole.data() + cut);
    reader->read(primary_key, {copy.data(), copy.size()}, scratch.data(), cut % 2 == 0);
  }
}

void check_row(Probe *probe) {
  TABLE *table = probe->table;
  const uchar *record = table->record[0];
  std::string &verdict = probe->verdict;
  StoredRow row;
  keep(table, record, &row);
  record = row.record.data();
  probe->row_number++;

  ByteBuffer primary_key, columns, key, value, search;
  if (probe->primary) {
    probe->primary->append_columns(record, &primary_key);
    std::vector<uchar> ref(probe->primary->ref_length());
    probe->primary->make_ref(record, ref.data());
    search.clear();
    probe->primary->append_ref(ref.data(), &search);
    if (to_string(search) != to_string(primary_key)) verdict += "; ref is another key";
  } else {
    store_hidden_key(primary_key.reserve(HIDDEN_KEY_SIZE), probe->row_number);
    primary_key.grow_by(HIDDEN_KEY_SIZE);
  }
  std::vector<uchar> scratch(table->s->reclength);

  probe->rows->encode(record, &value);
  memset(scratch.data(), 0x5a, scratch.size());
  if (!probe->reader->choose(nullptr) ||
      !probe->reader->read(primary_key.slice(), value.slice(), scratch.data()))
    verdict += "; row does not decode";
  else
    for (uint i = 0; i < table->s->fields; i++)
      if (table->field[i]->stored_in_db() && !same_field(table, table->field[i], record, scratch.data()))
        verdict += std::string("; row gives another ") + table->field[i]->field_name.str;
  for (size_t cut = 0; cut < value.size(); cut++) {
    const Slice shorter{value.data(), cut};
    std::vector<uchar> copy(shorter.data, shorter.data + shorter.size);
    probe->reader->read(primary_key.slice(), {copy.data(), copy.size()}, scratch.data());
  }

  check_parts(probe, record, primary_key.slice());

  for (uint i = 0; i < table->s->keys; i++) {
    KeyCodec *codec = probe->codecs[i].get();
    const KEY *info = &table->key_info[i];
    columns.clear();
    codec->append_columns(record, &columns);
    row.keys.push_back(to_string(columns));
    const std::string name = info->name.str;

    for (const StoredRow &other : probe->seen) {
      const int server = server_order(table, info, record, other.record.data());
      const std::string &mine = row.keys[i], &theirs = other.keys[i];
      const int ours = sign(mine.compare(theirs));
      if (sign(server) != ours) {
        verdict += "; " + name + " server " + std::to_string(server) + " ours " + std::to_string(ours) + " " +
                   hex(mine) + " " + hex(theirs);
        break;
      }
      if (ours != 0 &&
          (mine.compare(0, theirs.size(), theirs) == 0 || theirs.compare(0, mine.size(), mine) == 0))
        verdict += "; " + name + " one key is a prefix of another";
    }

    uint image_size = 0;
    for (uint part = 0; part < info->ext_key_parts; part++) {
      image_size += info->key_part[part].store_length;
      std::vector<uchar> image(image_size);
      key_copy(image.data(), record, info, image_size, true);
      search.clear();
      const KeyCodec::Search got =
          codec->append_search(image.data(), make_prev_keypart_map(part + 1), &search);
      key.clear();
      key.append(columns.slice());
      if (part >= info->user_defined_key_parts) key.append(primary_key.slice());
      const std::string whole = to_string(key), found = to_string(search);
      if (whole.compare(0, found.size(), found) != 0)
        verdict += "; " + name + " search of " + std::to_string(part + 1) + " parts " + hex(found) +
                   " is no prefix of " + hex(whole);
      if (got.all_columns != (part + 1 >= info->user_defined_key_parts) ||
          (got.all_columns && got.has_null != codec->has_null(record)))
        verdict += "; " + name + " search says other columns";
      if (got.all_columns && part + 1 == info->user_defined_key_parts && found != to_string(columns))
        verdict += "; " + name + " whole search differs";
      if (part + 1 == info->ext_key_parts && part >= info->user_defined_key_parts &&
          KeyCodec::primary_key_can_cover(table->s) && found != whole)
        verdict += "; " + name + " extended search is short";
    }

    if (codec == probe->primary) continue;
    EntrySet entries;
    codec->entries(record, primary_key.slice(), &entries);
    key.assign(entries[0].key.slice());
    value.assign(entries[0].value.slice());
    Slice got;
    if (!codec->primary_key(key.slice(), value.slice(), &got) || got.size != primary_key.size() ||
        memcmp(got.data, primary_key.data(), got.size) != 0)
      verdict += "; " + name + " loses the row's key";
    memset(scratch.data(), 0x5a, scratch.size());
    if (!codec->decode_entry(key.slice(), value.slice(), nullptr, scratch.data())) {
      verdict += "; " + name + " entry does not decode";
    } else {
      for (const KeyPart &part : codec->parts())
        if (part.covering && !same_field(table, table->field[part.field_index], record, scratch.data()))
          verdict += "; " + name + " gives another " + table->field[part.field_index]->field_name.str;
      if (probe->primary)
        for (const KeyPart &part : probe->primary->parts())
          if (part.covering && !same_field(table, table->field[part.field_index], record, scratch.data()))
            verdict +=
                "; " + name + " gives another primary " + table->field[part.field_index]->field_name.str;
    }
    for (size_t cut = 0; cut < key.size(); cut++) {
      std::vector<uchar> shorter(key.data(), key.data() + cut);
      codec->decode_entry({shorter.data(), cut}, value.slice(), nullptr, scratch.data());
    }
    for (size_t cut = 0; cut < value.size(); cut++) {
      std::vector<uchar> shorter(value.data(), value.data() + cut);
      if (codec->decode_entry(key.slice(), {shorter.data(), cut}, nullptr, scratch.data()))
        verdict += "; " + name + " a shorter value decodes";
    }
  }
  probe->seen.push_back(std::move(row));
}

}  // namespace

extern "C" {

my_bool codec_probe_init(UDF_INIT *init, UDF_ARGS *, char *message) {
  TABLE *table = current_thd->open_tables;
  if (!table) {
    strcpy(message, "codec_probe: no table");
    return 1;
  }
  table->use_all_columns();
  Probe *probe = new Probe;
  probe->table = table;
  probe->codecs.resize(table->s->keys);
  const uint pk = table->s->primary_key;
  if (pk < table->s->keys) {
    probe->codecs[pk] = KeyCodec::make(table, pk, nullptr);
    probe->primary = probe->codecs[pk].get();
  }
  for (uint i = 0; i < table->s->keys; i++)
    if (i != pk) probe->codecs[i] = KeyCodec::make(table, i, probe->primary);
  static const RowHistory only_the_present;
  probe->rows = RowCodec::make(table, probe->primary, only_the_present);
  probe->reader.reset(new RowReader(*probe->rows));
  init->ptr = reinterpret_cast<char *>(probe);
  init->const_item = 0;
  init->max_length = 60000;
  return 0;
}

void codec_probe_deinit(UDF_INIT *init) { delete reinterpret_cast<Probe *>(init->ptr); }

char *codec_probe(UDF_INIT *init, UDF_ARGS *, char *, unsigned long *length, unsigned char *is_null,
                  unsigned char *) {
  Probe *probe = reinterpret_cast<Probe *>(init->ptr);
  *is_null = 0;
  probe->verdict.clear();
  check_row(probe);
  if (probe->verdict.empty()) probe->verdict = "ok";
  *length = probe->verdict.size();
  return const_cast<char *>(probe->verdict.c_str());
}
}

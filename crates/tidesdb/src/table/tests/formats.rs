//! Both versions of the table format: their bytes, their padding, and refusal of what no build uses yet.

use super::*;
use crate::format::checksum;
use crate::format::value_pointer::ValuePointer;
use crate::options::FormatVersion;

const BOTH: [FormatVersion; 2] = [FormatVersion::One, FormatVersion::Two];

/// A table of three entries, made by hand from `docs/format/table.md`.
const VERSION_1: &str = "\
    03000000000000000000000000000000000000656c70706100746f63697270610000616e616e6162340000003b0000003f000000\
    05010503726564070207000609060679656c6c6f77000001000000000049000000ae988abd010000000600000000000000000000\
    0000000000000000002200000062616e616e610000590001000003000000000027000000cbc87b74010103020103030101040561\
    70706c65050662616e616e6106010507010708011b0b01010c01590d0600802000000000000500000000002f00000041b6e21354\
    44425441424c45010000000300000001010000000000004f01000000000000590000000000000037000000000000009000000000\
    0000003f000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000022c2a1a5";

const VERSION_2: &str = "\
    03000000000000000000000000000000000000656c70706100746f63697270610000616e616e6162340000003b0000003f000000\
    05010503726564070207000609060679656c6c6f77000001000000000049000000ae988abd010000000600000000000000000000\
    0000000000000000002200000062616e616e610000590001000003000000000027000000cbc87b74010103020103030101040561\
    70706c65050662616e616e6106010507010708011b0b01010c01590d060080200000004001060000050000000000320000000517\
    e3370000000000000000000000000000000003000000000000000000000000000000090000000000000000000000000000000000\
    0000000000000000000064a93a545444425441424c45020000000300000001010000000000009201000000000000590000000000\
    00003700000000000000900000000000000042000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000edfbe5b8";

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn plain(block_size: u32) -> SsTableOptions {
    SsTableOptions {
        compression: Compression::None,
        block_size,
        bits_per_key: 0,
        prefix_len: 0,
        use_btree: false,
        block_codec: BlockCodec::Plain,
    }
}

fn written(format: FormatVersion, options: &SsTableOptions, model: &Model) -> (Store, Arc<SsTable>) {
    let store = Store { format, ..Store::new(1 << 20) };
    let meta = store.write(0, options, model).unwrap();
    let table = store.open(meta);
    (store, table)
}

#[test]
fn the_bytes_of_both_versions_stay() {
    let mut model = Model::new();
    model.insert((b"apple".to_vec(), Reverse(5)), (Kind::PUT, b"red".to_vec()));
    model.insert((b"apricot".to_vec(), Reverse(7)), (Kind::DELETE, Vec::new()));
    model.insert((b"banana".to_vec(), Reverse(6)), (Kind::PUT.marked_may_overwrite(), b"yellow".to_vec()));
    for (format, bytes) in BOTH.into_iter().zip([VERSION_1, VERSION_2]) {
        let (store, table) = written(format, &plain(4096), &model);
        assert_eq!(*store.file().bytes.read(), from_hex(bytes), "{format:?}");
        table.verify().unwrap();
        assert_eq!(table.facts().unwrap().version, format.number());
    }
}

/// The data blocks of a table, in order.
fn data_blocks(table: &Arc<SsTable>) -> Vec<BlockFacts> {
    let mut blocks = Vec::new();
    table.each_block(&mut |block| {
        blocks.push(block.unwrap());
        true
    });
    blocks
}

fn sectors(blocks: &[BlockFacts], start: u64) -> u64 {
    let span =
        |block: &BlockFacts| (start + block.offset + block.len).div_ceil(512) - (start + block.offset) / 512;
    blocks.iter().map(span).sum()
}

#[test]
fn padding_spares_sectors_and_stays_below_three_percent() {
    let mut rng = StdRng::seed_from_u64(4);
    let value = |rng: &mut StdRng| vec![0u8; rng.gen_range(0..300)];
    let model: Model = (0..20_000u32)
        .map(|i| ((i.to_be_bytes().to_vec(), Reverse(1)), (Kind::PUT, value(&mut rng))))
        .collect();
    for start in [0, 64, 4096 + 448] {
        for block_size in [4096, 16 << 10] {
            let [first, second] = BOTH.map(|format| {
                let store = Store { format, ..Store::new(0) };
                let meta = store.write(start, &plain(block_size), &model).unwrap();
                let table = store.open(meta);
                table.verify().unwrap();
                (data_blocks(&table), table.facts().unwrap(), table.meta().len)
            });
            assert_eq!((first.1.version, first.1.padding), (1, 0));
            assert_eq!(
                (first.1.data_bytes, first.1.data_blocks),
                (second.1.data_bytes, second.1.data_blocks)
            );
            let padding = second.1.padding;
            assert!(padding > 0 && padding * 100 < second.2 * 3, "{padding} of {}", second.2);
            let spared = (sectors(&first.0, start), sectors(&second.0, start));
            assert!(spared.1 < spared.0, "{spared:?}");
            println!(
                "start {start}, blocks of {block_size}: sectors {spared:?}, padding {padding} of {}",
                second.2
            );
        }
    }
}

#[test]
fn padding_is_checked_and_never_read_as_a_block() {
    let model = rows_of(2000);
    let (store, table) = written(FormatVersion::Two, &plain(1024), &model);
    let blocks = data_blocks(&table);
    let gaps: Vec<u64> =
        blocks.windows(2).flat_map(|pair| pair[0].offset + pair[0].len..pair[1].offset).collect();
    assert_eq!(gaps.len() as u64, table.facts().unwrap().padding);
    assert!(!gaps.is_empty());
    for at in gaps.into_iter().step_by(7) {
        store.file().bytes.write()[at as usize] = 1;
        let error = table.verify().unwrap_err().to_string();
        assert!(error.contains("padding that is not zero"), "{error}");
        assert_eq!(scan_all(&table), 2000);
        store.file().bytes.write()[at as usize] = 0;
    }
    table.verify().unwrap();
}

#[test]
fn a_large_value_in_pieces_begins_at_a_sector_too() {
    for format in BOTH {
        let store = Store { format, ..Store::new(0) };
        let path = Path::new("store").join(TableStore::file_name(FILE));
        let file = store.disk.open(&path, OpenMode::Create).unwrap();
        let mut writer = SsTableWriter::new(file, 0, 3, plain(4096)).in_format(format);
        writer.add(b"a", Entry::new(1, Kind::PUT, &[7; 1000])).unwrap();
        // With it the block has five bytes less than 40 sectors.
        let piece = vec![9u8; 40 * 512 - 60];
        writer.add_in_pieces(b"b", Entry::new(1, Kind::PUT, b"head"), Pieces::new(&piece, &[])).unwrap();
        let table = store.open(writer.finish().unwrap());
        table.verify().unwrap();
        let hit = table.get(b"b", hash_key(b"b"), MAX_SEQ).unwrap().unwrap();
        assert_eq!(hit.stored().len(), 4 + piece.len());
        let block = &data_blocks(&table)[1];
        assert_eq!(block.offset % 512 == 0, format == FormatVersion::Two, "{format:?}: {block:?}");
    }
}

/// Each byte of a block's trailer that no build uses, in use, under a valid checksum.
#[test]
fn reserved_bytes_of_a_block_are_refused_by_name() {
    for format in BOTH {
        let (store, table) = written(format, &plain(128), &damage_model());
        let whole = store.file().bytes.read().clone();
        let meta = table.meta().clone();
        let block = data_blocks(&table)[0].clone();
        let (start, end) = (block.offset as usize, (block.offset + block.len) as usize);
        let refused = |at: usize, value: u8| {
            let mut bytes = whole.clone();
            bytes[end - 16 + at] = value;
            let crc = checksum::crc(&bytes[start..end - 4]);
            let crc = checksum::extend(crc, &block.offset.to_le_bytes());
            bytes[end - 4..end].copy_from_slice(&crc.to_le_bytes());
            *store.file().bytes.write() = bytes;
            store.cache.erase_file(FILE);
            let table = store.open(meta.clone());
            let error = table.get(b"k\x00", hash_key(b"k\x00"), MAX_SEQ).unwrap_err();
            assert_eq!(error.to_string(), table.verify().unwrap_err().to_string());
            error
        };
        for (at, value, expected) in [
            (1, 1, "a sealed block"),
            (1, 2, "block flags that this build does not know"),
            (3, 2, "a block codec with a number above 1"),
            (3, 255, "a block codec with a number above 1"),
            (4, 1, "compressed with a dictionary"),
            (7, 1, "compressed with a dictionary"),
        ] {
            let error = refused(at, value);
            assert!(matches!(error, Error::LaterVersion { .. }), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        let unmarked = refused(3, 1);
        assert!(unmarked.to_string().contains("a list of postings is cut short"), "{unmarked}");
        let references = refused(2, 6);
        assert!(matches!(references, Error::Corruption { .. }), "{references}");
    }
}

/// Each reserved flag and byte of a payload, in use, under a valid checksum.
#[test]
fn reserved_bytes_of_a_payload_are_refused_by_name() {
    for format in BOTH {
        let options = SsTableOptions { bits_per_key: 10, ..plain(128) };
        let (store, table) = written(format, &options, &damage_model());
        let whole = store.file().bytes.read().clone();
        let (meta, facts) = (table.meta().clone(), table.facts().unwrap());
        let data = data_blocks(&table)[0].clone();
        let refused = |(offset, len): (u64, u64), at: usize, value: u8| {
            let (start, end) = (offset as usize, (offset + len) as usize);
            let mut bytes = whole.clone();
            bytes[start + at] = value;
            let crc = checksum::extend(checksum::crc(&bytes[start..end - 4]), &offset.to_le_bytes());
            bytes[end - 4..end].copy_from_slice(&crc.to_le_bytes());
            *store.file().bytes.write() = bytes;
            store.cache.erase_file(FILE);
            let table = store.open(meta.clone());
            let asked = table.may_contain(b"k\x00");
            let error = asked.and_then(|_| table.get(b"k\x00", hash_key(b"k\x00"), MAX_SEQ)).unwrap_err();
            assert!(matches!(error, Error::LaterVersion { .. }), "{format:?}, {offset}, {at}: {error}");
            assert!(matches!(table.verify(), Err(Error::LaterVersion { .. })), "{format:?}, {offset}, {at}");
        };
        for (at, value) in [(8, 4), (8, 0x80), (11, 1), (12, 1), (15, 0x80)] {
            refused((data.offset, data.len), at, value);
            refused(facts.top_at, at, value);
        }
        refused(facts.top_at, 8, 1);
        let tail = facts.filter_at.1 as usize - 16 - 8;
        (1..4).for_each(|at| refused(facts.filter_at, tail + at, 1));
    }
}

/// The value of an entry taken for a pointer, in an otherwise whole block.
#[test]
fn a_pointer_that_is_none_is_damage() {
    for format in BOTH {
        let mut model = Model::new();
        model.insert((b"k".to_vec(), Reverse(5)), (Kind::PUT, b"value".to_vec()));
        let (store, table) = written(format, &plain(128), &model);
        let block = data_blocks(&table)[0].clone();
        let end = (block.offset + block.len) as usize;
        {
            let file = store.file();
            let mut bytes = file.bytes.write();
            let at = bytes.windows(7).position(|found| found == b"\x01\x05\x05valu").unwrap();
            bytes[at] |= 0b10_0000;
            let crc = checksum::extend(checksum::crc(&bytes[..end - 4]), &0u64.to_le_bytes());
            bytes[end - 4..end].copy_from_slice(&crc.to_le_bytes());
        }
        store.cache.erase_file(FILE);
        let found = table.get(b"k", hash_key(b"k"), MAX_SEQ).unwrap().expect("is there");
        assert_eq!(found.entry().kind, Kind::PUT.with_pointer());
        let error = table.verify().unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "{error}");
        assert!(error.to_string().contains("the pointer to a value file"), "{error}");
    }
}

#[test]
fn a_table_of_version_2_counts_the_values_in_value_files() {
    let pointer = |file, stored_len| {
        let mut bytes = Vec::new();
        ValuePointer { file, offset: 64, stored_len, raw_len: 9000, crc: 1, kept: false }
            .encode(b"", &mut bytes);
        bytes
    };
    let mut model = Model::new();
    for (key, file, len) in [(b"a", 9, 4000), (b"b", 3, 5000), (b"c", 9, 1)] {
        model.insert((key.to_vec(), Reverse(5)), (Kind::PUT.with_pointer(), pointer(file, len)));
    }
    model.insert((b"d".to_vec(), Reverse(5)), (Kind::PUT, b"inline".to_vec()));
    let (_, table) = written(FormatVersion::Two, &plain(128), &model);
    let expected =
        vec![ValueUse { file: 3, values: 1, bytes: 5000 }, ValueUse { file: 9, values: 2, bytes: 4001 }];
    assert_eq!(table.meta().values, expected);
    assert_eq!(table.properties().unwrap().values, expected);
    table.verify().expect("verifies");
    let mut old = Store::new(1 << 20);
    old.format = FormatVersion::One;
    assert!(matches!(old.write(0, &plain(128), &model), Err(Error::InvalidArgument(_))));
}

#[test]
fn tables_of_both_versions_share_a_file_and_are_found_from_its_end() {
    let mut rng = StdRng::seed_from_u64(3);
    let models: Vec<Model> = (0..6).map(|_| random_model(&mut rng)).collect();
    let mut store = Store::new(1 << 20);
    let (mut at, mut metas) = (0, Vec::new());
    for (i, model) in models.iter().enumerate() {
        store.format = BOTH[i % 2];
        let meta = store.write(at, &SsTableOptions::default(), model).unwrap();
        at = next_table_offset(meta.offset + meta.len);
        metas.push(meta);
    }
    for (meta, model) in metas.iter().zip(&models) {
        check_against_model(&mut rng, &store.open(meta.clone()), model, "a table of several");
    }
    let found = SsTable::find_all(&store.files, &store.cache, FILE).unwrap();
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    let versions: Vec<u32> = found.tables.iter().map(|table| table.facts().unwrap().version).collect();
    assert_eq!(versions, [1, 2, 1, 2, 1, 2]);
    let places: Vec<u64> = found.tables.iter().map(|table| table.meta().offset).collect();
    assert_eq!(places, metas.iter().map(|meta| meta.offset).collect::<Vec<_>>());
}

/// Entries of a full text index: words of rows, each with a class and positions.
fn postings() -> Model {
    let rows = |every: u32| (0..20_000u32).step_by(every as usize);
    let lists = [(&b"and\0\x01"[..], 1), (b"sea\0\x01", 7), (b"seas\0\x01", 7000)];
    let entry = |(word, row): (&[u8], u32)| {
        let value = vec![30 + (row % 8) as u8, (row % 120) as u8];
        (([word, &row.to_be_bytes()].concat(), Reverse(0)), (Kind::PUT, value))
    };
    lists.iter().flat_map(|&(word, every)| rows(every).map(move |row| (word, row))).map(entry).collect()
}

#[test]
fn lists_of_postings_take_a_fifth_and_version_1_has_none() {
    let model = postings();
    let options = |block_codec| SsTableOptions { block_codec, compression: Compression::Lz4, ..plain(4096) };
    let len = |format, codec| {
        let (_store, table) = written(format, &options(codec), &model);
        table.verify().unwrap();
        table.facts().unwrap().data_bytes
    };
    let (plain, packed) =
        (len(FormatVersion::Two, BlockCodec::Plain), len(FormatVersion::Two, BlockCodec::Postings));
    assert!(packed * 3 < plain, "{packed} bytes, compressed by LZ4 {plain}");
    assert_eq!(len(FormatVersion::One, BlockCodec::Postings), len(FormatVersion::One, BlockCodec::Plain));
}

#[test]
fn keys_without_ascending_numbers_are_compressed() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut id = || [b"\x17\x01\x02\x03\x04\x05\x06\x07".to_vec(), rng.gen::<[u8; 8]>().to_vec()].concat();
    let rows: Vec<Vec<u8>> = (0..2000).map(|_| id()).collect();
    let words = (0..20u8).map(|word| vec![b'a' + word; 4]);
    let keys = words.flat_map(|word| rows.iter().map(move |row| [&word[..], row].concat()));
    let model: Model = keys.map(|key| ((key, Reverse(0)), (Kind::PUT, vec![9, 1]))).collect();
    let len = |block_codec| {
        let options = SsTableOptions { block_codec, compression: Compression::Zstd, ..plain(4096) };
        let (_store, table) = written(FormatVersion::Two, &options, &model);
        table.verify().unwrap();
        table.facts().unwrap().data_bytes
    };
    let (plain, packed) = (len(BlockCodec::Plain), len(BlockCodec::Postings));
    assert!(packed <= plain, "{packed} bytes, {plain} by Zstandard");
}

#[test]
fn later_and_damaged_lists_of_postings_are_refused() {
    let options = SsTableOptions { block_codec: BlockCodec::Postings, ..plain(4096) };
    let store = Store { format: FormatVersion::Two, ..Store::new(0) };
    let meta = store.write(0, &options, &postings()).unwrap();
    let table = store.open(meta.clone());
    let whole = store.file().bytes.read().clone();
    let block = data_blocks(&table)[0].clone();
    let (start, end) = (block.offset as usize, (block.offset + block.len) as usize);
    let refused = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[start + at] = value;
        let crc = checksum::extend(checksum::crc(&bytes[start..end - 4]), &block.offset.to_le_bytes());
        bytes[end - 4..end].copy_from_slice(&crc.to_le_bytes());
        *store.file().bytes.write() = bytes;
        let table = store.open(meta.clone());
        let key = b"and\0\x01\0\0\0\0";
        let read = table.get(key, hash_key(key), MAX_SEQ).map(drop);
        let mut versions = table.version_iter();
        let scanned = versions.seek(&[]);
        // A point read ends at its key.
        assert!(read.is_ok() || scanned.is_err());
        assert!(scanned.is_ok() || table.verify().is_err());
        scanned
    };
    // The number of keys has two bytes, and the flags come after them.
    let later = refused(6, 4).unwrap_err();
    assert!(matches!(later, Error::LaterVersion { .. }), "{later}");
    let mut damaged = 0;
    for at in 0..60 {
        for value in [0, 1, 0x7f, 0xff] {
            damaged += usize::from(refused(at, value).is_err());
        }
    }
    assert!(damaged > 100, "{damaged}");
}

#[test]
fn lists_of_postings_are_cached_packed_and_read_as_others() {
    let model = postings();
    let options = SsTableOptions { block_codec: BlockCodec::Postings, bits_per_key: 10, ..plain(4096) };
    let store = Store { format: FormatVersion::Two, ..Store::new(64 << 20) };
    let table = store.open(store.write(0, &options, &model).unwrap());
    for ((key, _), (_, value)) in model.iter().step_by(501) {
        let hit = table.get(key, hash_key(key), MAX_SEQ).unwrap().expect("a key of the model");
        assert_eq!(hit.stored(), value);
        let absent = [&key[..], b"\0"].concat();
        assert!(table.get(&absent, hash_key(&absent), MAX_SEQ).unwrap().is_none());
    }
    assert_eq!(scan_all(&table), model.len());
    let mut versions = table.version_iter();
    versions.seek(&[]).unwrap();
    for ((key, _), (_, value)) in &model {
        assert_eq!((versions.key(), versions.entry().stored()), (&key[..], &value[..]));
        versions.next().unwrap();
    }
    assert!(!versions.valid());
    let cached = store.cache.bytes();
    assert!(cached < model.len() * 6, "{cached} bytes for {} entries", model.len());
}

//! Manifests: whole, cut, flipped, of both versions, and on a full disk.

use super::*;

const BOTH: [FormatVersion; 2] = [FormatVersion::One, FormatVersion::Two];

/// The bytes of a manifest with these edits, and the end of each edit.
fn manifest(number: FileNo, format: FormatVersion, edits: &[Edit]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = header(number, format);
    let mut ends = Vec::new();
    for (i, edit) in edits.iter().enumerate() {
        frame(number, i as u32, edit, &mut bytes).unwrap();
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn edits() -> Vec<Edit> {
    (0..5)
        .map(|i| Edit {
            next_file: Some(100 + i),
            last_seq: Some(i * 1000),
            options: vec![("name".into(), "x".repeat(i as usize * 7))],
            ..Edit::default()
        })
        .collect()
}

fn parsed(bytes: &[u8]) -> Result<Vec<String>> {
    Ok(parse(Path::new("m"), 7, bytes)?.edits.iter().map(|e| format!("{e:?}")).collect())
}

#[test]
fn every_truncation_is_a_prefix_and_none_of_the_snapshot_is_damage() {
    let all: Vec<String> = edits().iter().map(|e| format!("{e:?}")).collect();
    for format in BOTH {
        let (bytes, ends) = manifest(7, format, &edits());
        for len in 0..=bytes.len() {
            let whole = ends.iter().filter(|&&end| end <= len).count();
            match parsed(&bytes[..len]) {
                Ok(read) => assert_eq!(read, all[..whole], "cut at {len}"),
                Err(_) => assert_eq!(whole, 0, "cut at {len}"),
            }
        }
    }
}

#[test]
fn every_bit_flip_is_an_error_or_takes_only_the_last_edit() {
    let all: Vec<String> = edits().iter().map(|e| format!("{e:?}")).collect();
    for format in BOTH {
        let (bytes, ends) = manifest(7, format, &edits());
        let last = ends[ends.len() - 2];
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match parsed(&damaged) {
                Ok(read) => {
                    assert!(bit / 8 >= last, "a flip of bit {bit} was not noticed");
                    assert_eq!(read, all[..all.len() - 1]);
                }
                Err(Error::Corruption { .. }) => assert!(bit / 8 < last, "bit {bit} of the tail"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_tail_of_zeros_or_of_another_manifest_is_dropped() {
    for format in BOTH {
        let (mut bytes, _) = manifest(7, format, &edits());
        let (other, ends) = manifest(6, format, &edits());
        bytes.extend_from_slice(&[0; 5000]);
        assert_eq!(parsed(&bytes).unwrap().len(), 5);
        bytes.extend_from_slice(&other[ends[3]..]);
        assert_eq!(parsed(&bytes).unwrap().len(), 5);
    }
}

#[test]
fn a_dump_has_the_edits_before_damage_with_their_places() {
    let disk = crate::io::FaultyDisk::new(1);
    let path = Path::new("/m/MANIFEST-00000007");
    let dumped = |bytes: &[u8]| {
        disk.create_dir_all(Path::new("/m")).unwrap();
        disk.open(path, OpenMode::Create).unwrap().write_at(bytes, 0).unwrap();
        dump(&disk, path).unwrap()
    };
    let (mut bytes, ends) = manifest(7, FormatVersion::One, &edits());
    let whole = dumped(&bytes);
    assert!(whole.damage.is_none() && !whole.is_torn && whole.edits.len() == 5);
    assert_eq!(whole.edits[1].0, ends[0] as u64);
    assert_eq!(whole.end, ends[4] as u64);
    let torn = dumped(&bytes[..ends[4] - 1]);
    assert!(torn.damage.is_none() && torn.is_torn && torn.edits.len() == 4);
    bytes[ends[2] + 20] ^= 1;
    let damaged = dumped(&bytes);
    assert_eq!((damaged.edits.len(), damaged.is_torn), (3, false));
    assert!(damaged.damage.unwrap().to_string().contains(&format!("offset {}", ends[2])));
    assert!(dump(&disk, Path::new("/m/other")).is_err());
}

#[test]
fn a_newer_format_version_is_named() {
    let (mut bytes, _) = manifest(7, FormatVersion::One, &edits());
    bytes[8] = 9;
    let crc = checksum::crc(&bytes[..20]);
    bytes[20..24].copy_from_slice(&crc.to_le_bytes());
    assert!(parsed(&bytes).unwrap_err().to_string().contains("format version 9"));
}

/// The bytes of both headers, and each byte of version 2 that no build has used yet.
#[test]
fn headers_stay_and_reserved_bytes_are_refused_by_name() {
    let (first, second) = (header(0x0102, FormatVersion::One), header(0x0102, FormatVersion::Two));
    let mut expected = b"TDBMANIF\x01\0\0\0\x02\x01\0\0\0\0\0\0".to_vec();
    expected.extend_from_slice(&checksum::crc(&expected).to_le_bytes());
    assert_eq!(first, expected);
    let mut expected = b"TDBMANIF\x02\0\0\0\x02\x01\0\0\0\0\0\0".to_vec();
    expected.extend_from_slice(&checksum::crc(&expected).to_le_bytes());
    expected.resize(60, 0);
    expected.extend_from_slice(&checksum::crc(&expected).to_le_bytes());
    assert_eq!(second, expected);

    let (bytes, _) = manifest(7, FormatVersion::Two, &edits());
    for at in 24..60 {
        let mut later = bytes.clone();
        later[at] = 1;
        assert!(matches!(parsed(&later), Err(Error::Corruption { .. })), "byte {at} without its checksum");
        let crc = checksum::crc(&later[..60]);
        later[60..64].copy_from_slice(&crc.to_le_bytes());
        let error = parsed(&later).unwrap_err();
        let expected = if at < 52 { "sealed edits" } else { "reserved bytes of a manifest's header" };
        assert!(
            matches!(error, Error::LaterVersion { .. }) && error.to_string().contains(expected),
            "{error}"
        );
    }
}

#[test]
fn a_manifest_keeps_its_version_when_it_goes_on() {
    let disk = crate::io::FaultyDisk::new(5);
    let dir = Path::new("/m");
    disk.create_dir_all(dir).unwrap();
    for (number, format) in (1..).zip(BOTH) {
        let made = ManifestWriter::create(&disk, dir, number, format, &edits()[0]).unwrap();
        assert_eq!((made.format(), made.number()), (format, number));
        drop(made);
        let mut resumed = ManifestWriter::resume(&disk, dir, number).unwrap();
        assert_eq!(resumed.format(), format);
        resumed.append(&edits()[1], Need::Urgent).unwrap();
        let (read, found) = read_manifest(&disk, dir, number).unwrap();
        assert_eq!((read, found.len()), (format, 2));
    }
}

#[test]
fn on_a_full_disk_urgent_edits_find_the_reserve_and_a_new_process_goes_on() {
    let disk = crate::io::FaultyDisk::new(5);
    let dir = Path::new("/m");
    disk.create_dir_all(dir).unwrap();
    let mut writer = ManifestWriter::create(&disk, dir, 3, FormatVersion::One, &Edit::default()).unwrap();
    disk.set_capacity(Some(0));
    let edit = Edit { options: vec![("name".into(), "x".repeat(1000))], ..Edit::default() };
    let mut written = 1;
    let full = loop {
        match writer.append(&edit, Need::Ordinary) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::DiskFull(_)) && !writer.failed(), "{full}");
    let mut urgent = 0;
    while writer.append(&edit, Need::EmptyFlush).is_ok() {
        urgent += 1;
    }
    assert!((7..10).contains(&urgent), "half of the reserve had room for {urgent} edits");
    while urgent < 10 {
        writer.append(&edit, Need::Urgent).unwrap();
        urgent += 1;
    }
    drop(writer);

    // A torn edit after the last: the next process writes over it.
    let end = disk.contents(&dir.join(manifest_name(3))).unwrap();
    let end = parse(&dir.join(manifest_name(3)), 3, &end).unwrap().end;
    disk.overwrite(&dir.join(manifest_name(3)), end as u64, b"EDIT torn");
    let mut writer = ManifestWriter::resume(&disk, dir, 3).unwrap();
    writer.append(&edit, Need::Urgent).unwrap();
    urgent += 1;
    assert_eq!(read_manifest(&disk, dir, 3).unwrap().1.len(), written + urgent);
    while writer.append(&edit, Need::Urgent).is_ok() {
        urgent += 1;
    }
    assert!(!writer.failed() && (14..20).contains(&urgent), "the reserve had room for {urgent} edits");
    disk.set_capacity(None);
    writer.append(&edit, Need::Ordinary).unwrap();
    assert_eq!(read_manifest(&disk, dir, 3).unwrap().1.len(), written + urgent + 1);
}

#[test]
fn names_round_trip() {
    assert_eq!(parse_manifest_name(&manifest_name(12)), Some(12));
    assert_eq!(parse_manifest_name(&manifest_name(123_456_789_012)), Some(123_456_789_012));
    for wrong in ["MANIFEST-1", "MANIFEST-0000000x", "manifest-00000001", "MANIFEST-+0000001"] {
        assert_eq!(parse_manifest_name(wrong), None);
    }
}

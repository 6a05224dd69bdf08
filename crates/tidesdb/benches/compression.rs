//! Each method on one block of order lines (numbers, dates, 24 random letters, a comment of six words), at 4
//! KB and at 16 KB. Measures the time to compress and to decompress it; prints the compressed size.
//! `cargo bench -p tidesdb --bench compression`.

#![allow(missing_docs)]

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use tidesdb::internal::format::compression::{compress, decompress};
use tidesdb::Compression;

const METHODS: [Compression; 4] =
    [Compression::Lz4Fast, Compression::Lz4, Compression::Snappy, Compression::Zstd];

const WORDS: [&str; 12] = [
    "carefully ",
    "final ",
    "packages ",
    "sleep ",
    "above ",
    "the ",
    "regular ",
    "deposits ",
    "quickly ",
    "pending ",
    "accounts ",
    "haggle ",
];

fn order_lines(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut block = Vec::new();
    for line in 0u32.. {
        if block.len() >= len {
            break;
        }
        block.extend_from_slice(&(line / 10).to_be_bytes());
        block.extend_from_slice(&(line % 10).to_be_bytes());
        block.extend_from_slice(&(random(100_000) as u32).to_le_bytes());
        block.extend_from_slice(&(1_700_000_000 + u64::from(line) * 7).to_le_bytes());
        block.extend_from_slice(&(random(1_000_000) as u32).to_le_bytes());
        block.extend((0..24).map(|_| b'a' + random(26) as u8));
        for _ in 0..6 {
            block.extend_from_slice(WORDS[random(WORDS.len() as u64) as usize].as_bytes());
        }
    }
    block.truncate(len);
    block
}

fn benches(criterion: &mut Criterion) {
    for len in [4096, 16_384] {
        let block = order_lines(len);
        let mut group = criterion.benchmark_group(format!("{len}"));
        group.throughput(Throughput::Bytes(len as u64));
        for method in METHODS {
            let mut packed = Vec::new();
            let stored_as = compress(method, &block, &mut packed);
            eprintln!("{method:?}: {len} to {} bytes", packed.len());
            let stored = packed.clone();
            group.bench_function(format!("compress/{method:?}"), |bench| {
                bench.iter(|| compress(method, &block, &mut packed));
            });
            let mut raw = vec![0; len];
            group.bench_function(format!("decompress/{method:?}"), |bench| {
                bench.iter(|| decompress(stored_as, &stored, &mut raw).expect("what was compressed"));
            });
        }
        group.finish();
    }
}

criterion_group!(compression, benches);
criterion_main!(compression);

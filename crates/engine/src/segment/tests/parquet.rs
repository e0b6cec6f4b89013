//! Parquet segments: every type, pages, row groups copied as bytes, and standard readers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use bytes::Bytes;
use futures::executor::block_on;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Encoding;

use super::super::*;
use super::round_trip::{assert_same, cache_of, read_all, write_as};
use super::sample::{every_kind, every_type, every_type_data, layout, narrow, narrow_rows};
use super::store::MemoryStore;
use crate::change_batch::{ChangeBatch, Scus, masks};
use crate::manifest::{SegmentFormat, SegmentMeta};
use crate::stages::merge::patch;

const PARQUET: SegmentFormat = SegmentFormat::Parquet;

fn options(group_rows: usize) -> WriteOptions {
    WriteOptions {
        group_rows,
        group_bytes: 1,
        ..WriteOptions::default()
    }
}

fn plain_rows(layout: &RowLayout, rows: std::ops::Range<i64>) -> ChangeBatch {
    let count = rows.clone().count() as u64;
    let mut all = ChangeBatch::upserts(every_type_data(layout, rows), 0);
    all.scus = Scus::Each((0..count).map(|row| 50 + row % 3).collect());
    all
}

fn only(metas: Vec<Arc<SegmentMeta>>) -> Arc<SegmentMeta> {
    let [meta] = &metas[..] else {
        panic!("one file: {metas:?}")
    };
    Arc::clone(meta)
}

#[test]
fn every_type_survives_every_codec() {
    let layout = every_type();
    let rows = plain_rows(&layout, 0..700);
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let store = MemoryStore::default();
        let options = WriteOptions {
            codec,
            ..options(300)
        };
        let pushes = vec![rows.slice(0, 7), rows.slice(7, 500), rows.slice(507, 193)];
        let meta = only(write_as(PARQUET, &store.env(), &layout, options, pushes));
        assert_eq!(
            (meta.rows, meta.newest_scu.0, meta.all_upserts),
            (700, 52, true)
        );
        block_on(verify_segment(&store.env(), &layout, &meta)).unwrap();
        assert_same(&read_all(&store.env(), &layout, &meta).unwrap(), &rows);
    }
}

#[test]
fn versions_of_columns_start_a_file_with_a_column_for_them() {
    let layout = every_type();
    let rows = plain_rows(&layout, 0..120);
    let mut later = plain_rows(&layout, 120..160);
    later.column_scus = every_kind(&layout)
        .column_scus
        .map(|column| column.slice(0, 40));
    let last = plain_rows(&layout, 160..200);
    let env = MemoryStore::default().env();
    let pushes = vec![rows.clone(), later.clone(), last.clone()];
    let metas = write_as(PARQUET, &env, &layout, options(40), pushes);
    assert_eq!(
        metas.iter().map(|meta| meta.rows).collect::<Vec<_>>(),
        [120, 80]
    );
    assert_same(&read_all(&env, &layout, &metas[0]).unwrap(), &rows);
    let both = cut::joined(&[later, last]).unwrap();
    assert_same(&read_all(&env, &layout, &metas[1]).unwrap(), &both);
}

#[test]
fn changes_that_are_not_whole_rows_are_refused() {
    let layout = every_type();
    let env = MemoryStore::default().env();
    let mut writer = SegmentWriter::create(&env, &layout, PARQUET, options(10)).unwrap();
    assert!(block_on(writer.push(every_kind(&layout))).is_err());
}

#[test]
fn projections_and_row_ranges_read_what_they_need() {
    let layout = every_type();
    let rows = plain_rows(&layout, 0..8000);
    let env = MemoryStore::default().env();
    let meta = only(write_as(
        PARQUET,
        &env,
        &layout,
        options(4000),
        vec![rows.clone()],
    ));
    block_on(async {
        let counters = ReadCounters::default();
        let segment = Segment::open(&env, &layout, Arc::clone(&meta), &counters)
            .await
            .unwrap();
        assert_eq!(segment.extents().len(), 2);
        for projection in [&[][..], &[1], &[22, 13, 0], &[20, 21, 1], &[1, 1]] {
            let mut wanted = rows.slice(4000, 4000);
            wanted.data = wanted.data.project(projection).unwrap();
            let read = segment
                .read_rows(1, 0..4000, Some(projection), &counters)
                .await
                .unwrap();
            assert_eq!(read.data, wanted.data);
            for (start, length) in [(0, 1), (700, 3), (3999, 1), (500, 3000)] {
                let range = start..start + length;
                let read = segment
                    .read_rows(1, range, Some(projection), &counters)
                    .await;
                assert_eq!(read.unwrap().data, wanted.slice(start, length).data);
            }
        }
        let before = counters.bytes_read();
        segment
            .read_rows(0, 0..4000, Some(&[1]), &counters)
            .await
            .unwrap();
        let one_column = counters.bytes_read() - before;
        segment.read_rows(0, 5..6, None, &counters).await.unwrap();
        let one_row = counters.bytes_read() - before - one_column;
        assert!(
            one_column * 8 < meta.bytes,
            "{one_column} of {}",
            meta.bytes
        );
        assert!(one_row * 4 < meta.bytes, "{one_row} of {}", meta.bytes);
    });
}

#[test]
fn a_point_read_takes_one_page_a_column() {
    let layout = every_type();
    let rows = plain_rows(&layout, 0..8000);
    let env = MemoryStore::default().env();
    let meta = only(write_as(
        PARQUET,
        &env,
        &layout,
        options(8000),
        vec![rows.clone()],
    ));
    let keys = layout.codec.encode(&rows.data).unwrap();
    block_on(async {
        let counters = ReadCounters::default();
        let segment = Segment::open(&env, &layout, Arc::clone(&meta), &counters)
            .await
            .unwrap();
        for row in [0, 1, 1023, 1024, 5000, 7999] {
            let counters = ReadCounters::default();
            let key = keys.row(row).data();
            let found = segment
                .read_point(0, key, &counters)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(found.alone().unwrap().data, rows.slice(row, 1).data);
            // A page of each leaf, and at most a dictionary beside it.
            let leaves = layout.schema.fields().len() as u64 + 1;
            assert!((leaves..=2 * leaves).contains(&counters.pages_read()));
            assert_eq!(counters.extents_read(), 1);
        }
        let absent = absent_key(&layout);
        assert!(
            segment
                .read_point(0, &absent, &counters)
                .await
                .unwrap()
                .is_none()
        );
    });
}

#[test]
fn a_range_takes_the_pages_that_it_needs() {
    let layout = narrow();
    let env = MemoryStore::default().env();
    let rows = narrow_rows(&layout, &(0..100_000).collect::<Vec<i64>>(), 4);
    let meta = only(write_as(
        PARQUET,
        &env,
        &layout,
        options(65_536),
        vec![rows.clone()],
    ));
    let keys = layout.codec.encode(&rows.data).unwrap();
    block_on(async {
        let counters = ReadCounters::default();
        let segment = Segment::open(&env, &layout, Arc::clone(&meta), &counters)
            .await
            .unwrap();
        let bound = |row: usize| (row < 65_536).then(|| keys.row(row).data());
        for (low, high) in [
            (0, 1),
            (20_000, 20_100),
            (8191, 8193),
            (65_000, 65_535),
            (7, 7),
        ] {
            let between = segment.rows_between(0, bound(low), bound(high));
            assert!(between.start <= low && between.end >= high, "{between:?}");
            assert!(between.len() <= high - low + 2 * 8192, "{between:?}");
            let before = counters.bytes_read();
            let read = segment.read_rows(0, between.clone(), Some(&[0, 1]), &counters);
            assert_eq!(read.await.unwrap().data, {
                let columns = rows.data.project(&[0, 1]).unwrap();
                columns.slice(between.start, between.len())
            });
            assert!((counters.bytes_read() - before) * 2 < meta.bytes);
        }
        assert_eq!(segment.rows_between(0, None, None), 0..65_536);
        assert_eq!(segment.rows_between(1, bound(5), None), 0..34_464);
    });
}

/// The key of a row between two that are there.
fn absent_key(layout: &RowLayout) -> Vec<u8> {
    let columns: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(arrow::array::Int64Array::from(vec![4000])),
        Arc::new(arrow::array::StringArray::from(vec!["key 004000 and more"])),
    ];
    let keys = layout.codec.encode_columns(&columns).unwrap();
    keys.row(0).data().to_vec()
}

#[test]
fn row_groups_are_copied_as_bytes() {
    let layout = every_type();
    let rows = plain_rows(&layout, 0..3000);
    let env = MemoryStore::default().env();
    let source = only(write_as(
        PARQUET,
        &env,
        &layout,
        options(1000),
        vec![rows.clone()],
    ));
    let copy = block_on(async {
        let counters = ReadCounters::default();
        let segment = Segment::open(&env, &layout, source, &counters)
            .await
            .unwrap();
        let mut writer = SegmentWriter::create(&env, &layout, PARQUET, options(500)).unwrap();
        writer.push(rows.slice(0, 1000)).await.unwrap();
        for extent in 1..3 {
            let encoded = segment.read_encoded(extent, &counters).await.unwrap();
            writer.push_encoded(encoded).await.unwrap();
        }
        writer
            .finish()
            .await
            .unwrap()
            .into_iter()
            .map(Arc::new)
            .collect()
    });
    let copy = only(copy);
    block_on(verify_segment(&env, &layout, &copy)).unwrap();
    assert_same(&read_all(&env, &layout, &copy).unwrap(), &rows);
}

/// The rows with some columns of others, set in SCU 99.
fn with_columns(
    layout: &RowLayout,
    rows: &ChangeBatch,
    from: &ChangeBatch,
    touched: &[usize],
) -> ChangeBatch {
    let columns = (0..rows.data.num_columns()).map(|at| match touched.contains(&at) {
        true => Arc::clone(from.data.column(at)),
        false => Arc::clone(rows.data.column(at)),
    });
    let data = RecordBatch::try_new(Arc::clone(&layout.schema), columns.collect()).unwrap();
    let distances = (0..rows.rows()).map(|row| {
        let distance = |at| match touched.contains(&at) {
            true => 0,
            false => 99 - rows.scu(row),
        };
        let distances: Vec<u64> = (0..rows.data.num_columns()).map(distance).collect();
        let mut bytes = Vec::new();
        masks::encode_distances(&distances, &mut bytes);
        bytes
    });
    ChangeBatch {
        scus: Scus::Uniform(99),
        column_scus: Some(BinaryArray::from_iter_values(distances)),
        ..ChangeBatch::upserts(data, 0)
    }
}

#[test]
fn touched_columns_are_replaced_and_the_others_copied() {
    let layout = every_type();
    let rows = plain_rows(&layout, 0..3000);
    let others = plain_rows(&layout, 5001..8001);
    let env = MemoryStore::default().env();
    let pushes = vec![rows.clone()];
    let source = only(write_as(PARQUET, &env, &layout, options(1000), pushes));
    let width = layout.schema.fields().len();
    // Numbers, texts, intervals, lists and structs; in each group another mix.
    let touched: [Vec<usize>; 3] = [vec![2, 20, 22], vec![], (2..width).step_by(2).collect()];
    let expected: Vec<ChangeBatch> = (0..3)
        .map(|group| {
            let (rows, others) = (
                rows.slice(group * 1000, 1000),
                others.slice(group * 1000, 1000),
            );
            match touched[group].is_empty() {
                true => rows,
                false => with_columns(&layout, &rows, &others, &touched[group]),
            }
        })
        .collect();
    let patched = block_on(async {
        let counters = ReadCounters::default();
        let segment = Segment::open(&env, &layout, source, &counters)
            .await
            .unwrap();
        let mut writer = SegmentWriter::create(&env, &layout, PARQUET, options(500)).unwrap();
        for (extent, touched) in touched.iter().enumerate() {
            assert!(writer.is_between_extents());
            let encoded = segment.read_encoded(extent, &counters).await.unwrap();
            if touched.is_empty() {
                writer.push_copied(encoded, segment.meta()).await.unwrap();
                continue;
            }
            let mut kept = [&[0, 1], &touched[..]].concat();
            kept.dedup();
            let before = segment.thin_rows(extent, &encoded, &kept).unwrap().unwrap();
            let after = patch::thin(&expected[extent], &kept).unwrap();
            let both = (&before, &after);
            let push = writer.push_patched(encoded, segment.meta(), both, touched);
            push.await.unwrap();
        }
        let made = writer.finish().await.unwrap();
        made.into_iter().map(Arc::new).collect()
    });
    let patched = only(patched);
    block_on(verify_segment(&env, &layout, &patched)).unwrap();
    assert_eq!(patched.newest_scu.0, 99);
    let raw: usize = expected
        .iter()
        .map(|rows| cut::rows_bytes(rows, 0, rows.rows()))
        .sum();
    // What cells that are null take depends on where they come from.
    let off = patched.raw_bytes.abs_diff(raw as u64);
    assert!(off < raw as u64 / 100, "{} {raw}", patched.raw_bytes);
    let expected = cut::joined(&expected).unwrap();
    assert_same(&read_all(&env, &layout, &patched).unwrap(), &expected);
}

#[test]
fn rows_pushed_together_are_one_row_group() {
    let layout = narrow();
    let env = MemoryStore::default().env();
    let groups_of = |lengths: &[i64]| -> Vec<u32> {
        let metas = block_on(async {
            let mut writer = SegmentWriter::create(&env, &layout, PARQUET, options(100)).unwrap();
            let mut next = 0;
            for length in lengths {
                let keys: Vec<i64> = (next..next + length).collect();
                next += length;
                let batches = vec![narrow_rows(&layout, &keys, 7)];
                writer.push_together(batches).await.unwrap();
            }
            writer.finish().await.unwrap()
        });
        let meta = only(metas.into_iter().map(Arc::new).collect());
        let counters = ReadCounters::default();
        let segment = block_on(Segment::open(&env, &layout, meta, &counters)).unwrap();
        segment.extents().iter().map(|extent| extent.rows).collect()
    };
    assert_eq!(groups_of(&[101, 99, 149]), [101, 99, 149]);
    assert_eq!(groups_of(&[160]), [80, 80]);
    assert_eq!(groups_of(&[40, 70]), [110]);
    assert_eq!(groups_of(&[40]), [40]);
}

#[test]
fn a_page_read_often_is_kept() {
    let layout = narrow();
    let env = MemoryStore::default().env();
    let keys: Vec<i64> = (0..10_000).collect();
    let rows = narrow_rows(&layout, &keys, 4);
    let meta = only(write_as(
        PARQUET,
        &env,
        &layout,
        options(8192),
        vec![rows.clone()],
    ));
    let keys = layout.codec.encode(&rows.data).unwrap();
    block_on(async {
        let (cache, counters) = (cache_of(16 << 20), ReadCounters::default());
        let segment = cache.open(&env, &layout, &meta, &counters).await.unwrap();
        for row in 4000..4010 {
            let key = keys.row(row).data();
            let extent = segment.may_contain(key, key_hash(key)).unwrap();
            let found = cache
                .point(&segment, extent, key, &counters)
                .await
                .unwrap()
                .unwrap();
            let found = found.alone().unwrap();
            assert_eq!(found.data, rows.slice(row, 1).data);
        }
        assert_eq!(counters.extents_cached(), 6);
    });
}

#[test]
fn standard_readers_read_the_file() {
    let layout = every_type();
    let rows = plain_rows(&layout, 0..900);
    let store = MemoryStore::default();
    let meta = only(write_as(
        PARQUET,
        &store.env(),
        &layout,
        options(400),
        vec![rows.clone()],
    ));
    let file = Bytes::from(store.bytes(&meta.file));
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let reader =
        ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options).unwrap();
    assert_eq!(
        reader.metadata().file_metadata().created_by(),
        Some("lazybase")
    );
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    let ids: Vec<i64> = batches
        .iter()
        .flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec())
        .collect();
    assert_eq!(ids, (0..900).collect::<Vec<i64>>());
    assert_eq!(batches[0]["_scu"].as_primitive::<UInt64Type>().value(1), 51);
    assert_eq!(
        &batches[0]["key"],
        &rows.data["key"].slice(0, batches[0].num_rows())
    );
}

#[test]
fn columns_are_stored_as_their_table_says() {
    use lazybase_model::table::{ColumnCodec, ColumnEncoding, ColumnStorage};
    let plain = every_type();
    let codecs = [
        (ColumnCodec::None, "UNCOMPRESSED"),
        (ColumnCodec::Lz4, "LZ4_RAW"),
        (ColumnCodec::Snappy, "SNAPPY"),
        (ColumnCodec::Zstd(7), "ZSTD"),
    ];
    for turn in 0..4 {
        let mut table = (*plain.table).clone();
        for (at, column) in table.columns.iter_mut().enumerate() {
            let encodings = ColumnEncoding::of_type(&column.data_type);
            if let Some(encoding) = encodings.iter().cycle().nth(turn) {
                column.storage = ColumnStorage {
                    codec: Some(codecs[(at + turn) % codecs.len()].0),
                    encoding: Some(*encoding),
                };
            }
        }
        let layout = Arc::new(RowLayout::primary(&Arc::new(table)).unwrap());
        let rows = plain_rows(&layout, 0..700);
        let store = MemoryStore::default();
        let pushes = vec![rows.clone()];
        let meta = only(write_as(
            PARQUET,
            &store.env(),
            &layout,
            options(400),
            pushes,
        ));
        block_on(verify_segment(&store.env(), &layout, &meta)).unwrap();
        assert_same(&read_all(&store.env(), &layout, &meta).unwrap(), &rows);
        let file = Bytes::from(store.bytes(&meta.file));
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let group = reader.metadata().row_group(0);
        for (at, column) in layout.table.columns.iter().enumerate() {
            let Some(encoding) = column.storage.encoding else {
                continue;
            };
            let path = column.name.as_str();
            let chunk = group
                .columns()
                .iter()
                .find(|chunk| chunk.column_path().string() == path);
            let chunk = chunk.unwrap();
            let (_, codec) = codecs[(at + turn) % codecs.len()];
            let found = format!("{:?}", chunk.compression());
            assert!(found.starts_with(codec), "{path}: {found}, not {codec}");
            let lengths = matches!(column.data_type, DataType::Utf8 | DataType::Binary);
            let wanted = match encoding {
                ColumnEncoding::Plain => "PLAIN",
                ColumnEncoding::Dictionary => "RLE_DICTIONARY",
                ColumnEncoding::Delta if lengths => "DELTA_LENGTH_BYTE_ARRAY",
                ColumnEncoding::Delta => "DELTA_BINARY_PACKED",
                ColumnEncoding::Prefix => "DELTA_BYTE_ARRAY",
                ColumnEncoding::ByteStreamSplit => "BYTE_STREAM_SPLIT",
                ColumnEncoding::Rle => "RLE",
            };
            let found: Vec<String> = chunk.encodings().map(|of| format!("{of:?}")).collect();
            assert!(
                found.contains(&wanted.to_owned()),
                "{path}: {found:?}, not {wanted}"
            );
        }
    }
}

/// A key, texts of several kinds and bytes; one text column says how it is stored.
fn text_layout() -> Arc<RowLayout> {
    use lazybase_model::table::{ColumnEncoding, ColumnStorage};
    let columns = [
        ("id", DataType::Int64),
        ("short", DataType::Utf8),
        ("long", DataType::Utf8),
        ("few", DataType::Utf8),
        ("plain", DataType::Utf8),
        ("bytes", DataType::Binary),
    ];
    let mut table = (*layout(&columns, &[0]).table).clone();
    table.columns[4].storage = ColumnStorage {
        codec: None,
        encoding: Some(ColumnEncoding::Plain),
    };
    Arc::new(RowLayout::primary(&Arc::new(table)).unwrap())
}

/// Rows of `text_layout`: short texts are missing, empty, and of letters of two bytes, and from the
/// 400th to the 799th row all missing.
fn text_rows(layout: &RowLayout, rows: std::ops::Range<i64>) -> ChangeBatch {
    let short = |row: i64| match row % 5 {
        _ if (400..800).contains(&row) => None,
        0 => None,
        1 => Some(String::new()),
        _ => Some(format!("ä{row}")),
    };
    let few = |row: i64| Some(["one", "two"][row as usize % 2]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.clone().collect::<Int64Array>()),
        Arc::new(rows.clone().map(short).collect::<StringArray>()),
        Arc::new(StringArray::from_iter_values(
            rows.clone().map(|row| format!("{row:060}")),
        )),
        Arc::new(rows.clone().map(few).collect::<StringArray>()),
        Arc::new(StringArray::from_iter_values(
            rows.clone().map(|row| format!("p{row}")),
        )),
        Arc::new(BinaryArray::from_iter_values(rows.map(i64::to_be_bytes))),
    ];
    let data = RecordBatch::try_new(Arc::clone(&layout.schema), columns).unwrap();
    ChangeBatch::upserts(data, 3)
}

/// The columns of a row group that are stored apart from their lengths.
fn apart(store: &MemoryStore, meta: &SegmentMeta, group: usize) -> Vec<String> {
    let file = Bytes::from(store.bytes(&meta.file));
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let mut found = Vec::new();
    for chunk in reader.metadata().row_group(group).columns() {
        let mut encodings = chunk.encodings();
        if encodings.any(|encoding| encoding == Encoding::DELTA_LENGTH_BYTE_ARRAY) {
            found.push(chunk.column_path().string());
        }
    }
    found
}

#[test]
fn short_texts_are_stored_apart_from_their_lengths() {
    let layout = text_layout();
    let rows = text_rows(&layout, 0..1000);
    let store = MemoryStore::default();
    let env = store.env();
    let pushes = vec![rows.clone()];
    let meta = only(write_as(PARQUET, &env, &layout, options(400), pushes));
    block_on(verify_segment(&env, &layout, &meta)).unwrap();
    assert_same(&read_all(&env, &layout, &meta).unwrap(), &rows);
    for group in [0, 2] {
        assert_eq!(apart(&store, &meta, group), ["short", "bytes"]);
    }
    // Single rows, of which one lies among texts that are missing.
    block_on(async {
        let counters = ReadCounters::default();
        let segment = Segment::open(&env, &layout, Arc::clone(&meta), &counters)
            .await
            .unwrap();
        for row in [0, 1, 399, 500, 801, 999] {
            let (group, at) = (row / 400, row % 400);
            let read = segment.read_rows(group, at..at + 1, None, &counters);
            assert_eq!(read.await.unwrap().data, rows.slice(row, 1).data);
        }
    });
    // A file that begins with a row group of another is like that.
    let copy = block_on(async {
        let counters = ReadCounters::default();
        let segment = Segment::open(&env, &layout, Arc::clone(&meta), &counters)
            .await
            .unwrap();
        let mut writer = SegmentWriter::create(&env, &layout, PARQUET, options(400)).unwrap();
        let first = segment.read_encoded(0, &counters).await.unwrap();
        writer.push_encoded(first).await.unwrap();
        writer.push(rows.slice(400, 600)).await.unwrap();
        writer.finish().await.unwrap()
    });
    let copy = only(copy.into_iter().map(Arc::new).collect());
    block_on(verify_segment(&env, &layout, &copy)).unwrap();
    assert_same(&read_all(&env, &layout, &copy).unwrap(), &rows);
    assert_eq!(apart(&store, &copy, 2), ["short", "bytes"]);
}

/// Whether texts have a dictionary, are stored apart from their lengths, or plain.
#[test]
fn texts_come_as_views_where_that_is_wanted() {
    let layout = text_layout();
    let rows = text_rows(&layout, 0..1000);
    let env = MemoryStore::default().env();
    let meta = only(write_as(PARQUET, &env, &layout, options(400), vec![rows]));
    block_on(async {
        let counters = ReadCounters::default();
        let segment = Segment::open(&env, &layout, Arc::clone(&meta), &counters)
            .await
            .unwrap();
        let read = async |group: usize, rows: std::ops::Range<usize>, views: bool, of: &[usize]| {
            let part = Part {
                rows,
                columns: of.into(),
                versions: false,
                views,
            };
            let read = segment.read_part(group, part, &counters).await.unwrap();
            read.data.clone()
        };
        for group in 0..3 {
            for range in [0..200, 0..1, 199..200, 70..133] {
                for columns in [&[1][..], &[3, 0, 2], &[4, 5, 1, 1]] {
                    let plain = read(group, range.clone(), false, columns).await;
                    let views = read(group, range.clone(), true, columns).await;
                    assert_eq!(views.num_columns(), columns.len());
                    for (plain, view) in plain.columns().iter().zip(views.columns()) {
                        let wanted = match plain.data_type() {
                            DataType::Utf8 => cast(plain, &DataType::Utf8View).unwrap(),
                            _ => Arc::clone(plain),
                        };
                        assert_eq!(&wanted, view);
                    }
                }
            }
        }
        // Beside their versions texts come as they are.
        let part = Part {
            rows: 0..9,
            columns: [1].into(),
            versions: true,
            views: true,
        };
        let read = segment.read_part(0, part, &counters).await.unwrap();
        assert_eq!(read.data.column(0).data_type(), &DataType::Utf8);
    });
}

/// Of a row of hundreds of bytes a number takes a few.
#[test]
fn some_columns_weigh_in_the_cache_what_they_take() {
    let layout = every_type();
    let rows = plain_rows(&layout, 0..2000);
    let env = MemoryStore::default().env();
    let meta = only(write_as(PARQUET, &env, &layout, options(500), vec![rows]));
    let cache = cache_of(64 << 20);
    block_on(async {
        let counters = ReadCounters::default();
        let segment = cache.open(&env, &layout, &meta, &counters).await.unwrap();
        let before = cache.bytes();
        let groups = segment.extents().len();
        for group in 0..groups {
            let part = Part {
                rows: 0..segment.extents().info(group).rows as usize,
                columns: [1].into(),
                versions: false,
                views: false,
            };
            let read = cache.extent_part(&segment, group, part, &counters);
            assert_eq!(read.await.unwrap().rows().data.num_columns(), 1);
        }
        let key_bytes = segment.extents().info(0).max_key.len() as u64;
        let weighed = cache.bytes() - before;
        let most = 2000 * (key_bytes + 32) + groups as u64 * 1024;
        assert!(
            weighed < most,
            "{weighed} for rows of {key_bytes} bytes of key"
        );
    });
}

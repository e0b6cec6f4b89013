//! What is pushed comes back, row by row, through every way of reading.

use std::sync::Arc;

use futures::executor::block_on;
use lazybase_model::change::StoredKind;
use proptest::collection::btree_set;
use proptest::prelude::*;

use super::super::encode::{ExtentEncoder, decode_extent};
use super::super::*;
use super::sample::{every_kind, every_type, every_type_data, narrow, narrow_rows};
use super::store::MemoryStore;
use crate::change_batch::{ChangeBatch, Kinds, Scus};
use crate::env::Env;
use crate::manifest::{SegmentFormat, SegmentMeta};

/// A cache of so many bytes.
pub(super) fn cache_of(bytes: u64) -> SegmentCache {
    SegmentCache::new(Env::test(1).env.clock, bytes)
}

pub(super) fn assert_same(left: &ChangeBatch, right: &ChangeBatch) {
    assert_eq!(left.data, right.data);
    let null = |masks: &Option<arrow::array::BinaryArray>, row: usize| {
        masks
            .as_ref()
            .filter(|m| arrow::array::Array::is_valid(m, row))
            .map(|m| m.value(row).to_vec())
    };
    for row in 0..left.rows() {
        assert_eq!(left.kind(row), right.kind(row), "row {row}");
        assert_eq!(left.scu(row), right.scu(row), "row {row}");
        assert_eq!(null(&left.masks, row), null(&right.masks, row), "row {row}");
        let versions = [&left.column_scus, &right.column_scus].map(|v| null(v, row));
        assert_eq!(versions[0], versions[1], "row {row}");
    }
}

pub(super) fn write(
    env: &Env,
    layout: &Arc<RowLayout>,
    options: WriteOptions,
    batches: Vec<ChangeBatch>,
) -> Vec<Arc<SegmentMeta>> {
    write_as(SegmentFormat::Extent, env, layout, options, batches)
}

pub(super) fn write_as(
    format: SegmentFormat,
    env: &Env,
    layout: &Arc<RowLayout>,
    options: WriteOptions,
    batches: Vec<ChangeBatch>,
) -> Vec<Arc<SegmentMeta>> {
    block_on(async {
        let mut writer = SegmentWriter::create(env, layout, format, options).unwrap();
        for batch in batches {
            writer.push(batch).await.unwrap();
        }
        let metas = writer.finish().await.unwrap();
        metas.into_iter().map(Arc::new).collect()
    })
}

pub(super) fn read_all(
    env: &Env,
    layout: &Arc<RowLayout>,
    meta: &Arc<SegmentMeta>,
) -> Result<ChangeBatch> {
    block_on(async {
        let counters = ReadCounters::default();
        let segment = Segment::open(env, layout, Arc::clone(meta), &counters).await?;
        let mut rows = Vec::new();
        for extent in 0..segment.extents().len() {
            let read = segment.read_extent(extent, &counters).await?;
            rows.push((*read).clone());
        }
        cut::joined(&rows)
    })
}

#[test]
fn every_type_and_kind_survives_every_codec() {
    let layout = every_type();
    let rows = every_kind(&layout);
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let store = MemoryStore::default();
        let options = WriteOptions {
            extent_bytes: 2000,
            codec,
            ..WriteOptions::default()
        };
        let metas = write(&store.env(), &layout, options, vec![rows.clone()]);
        let [meta] = &metas[..] else {
            panic!("one file: {metas:?}")
        };
        assert_eq!(meta.rows, rows.rows() as u64);
        assert_eq!(meta.newest_scu.0, 102);
        assert!(!meta.all_upserts);
        block_on(verify_segment(&store.env(), &layout, meta)).unwrap();
        assert_same(&read_all(&store.env(), &layout, meta).unwrap(), &rows);
    }
}

#[test]
fn an_extent_holds_no_more_than_its_slice() {
    let layout = every_type();
    let data = every_type_data(&layout, 0..20_000);
    let all = ChangeBatch::upserts(data, 1);
    let mut encoder = ExtentEncoder::new(&layout.schema, Codec::None).unwrap();
    let (_, few) = encoder.encode_rows(&all.slice(10_001, 7)).unwrap();
    let (stored, fewer) = encoder
        .encode_rows(&ChangeBatch::upserts(
            every_type_data(&layout, 10_001..10_008),
            1,
        ))
        .unwrap();
    assert_eq!(few, fewer);
    let back = decode_extent(&stored, &layout.schema, None).unwrap();
    assert_same(&back, &all.slice(10_001, 7));
}

#[test]
fn uniform_kinds_and_versions_cost_no_column() {
    let layout = narrow();
    let rows = narrow_rows(&layout, &[1, 2, 3], 9);
    let mut spelt = rows.clone();
    spelt.kinds = Kinds::Each(vec![StoredKind::UPSERT.bits(); 3].into());
    spelt.scus = Scus::Each(vec![9; 3].into());
    let mut encoder = ExtentEncoder::new(&layout.schema, Codec::Lz4).unwrap();
    let plain = encoder.encode_rows(&rows).unwrap();
    assert_eq!(plain, encoder.encode_rows(&spelt).unwrap());
}

#[test]
fn a_torn_pair_and_wrong_masks_are_refused() {
    let layout = every_type();
    let rows = every_kind(&layout);
    let mut encoder = ExtentEncoder::new(&layout.schema, Codec::Lz4).unwrap();
    assert!(
        encoder.encode_rows(&rows.slice(0, 6)).is_err(),
        "ends with half a pair"
    );
    assert!(encoder.encode_rows(&rows.slice(0, 7)).is_ok());
    let mut unmasked = rows.clone();
    unmasked.masks = None;
    assert!(encoder.encode_rows(&unmasked).is_err());
}

#[test]
fn projections_choose_columns_in_any_order() {
    let layout = every_type();
    let rows = every_kind(&layout);
    let mut encoder = ExtentEncoder::new(&layout.schema, Codec::Lz4).unwrap();
    let (stored, _) = encoder.encode_rows(&rows).unwrap();
    for projection in [&[][..], &[1], &[22, 13, 0], &[21, 1]] {
        let read = decode_extent(&stored, &layout.schema, Some(projection)).unwrap();
        let mut wanted = rows.clone();
        wanted.data = rows.data.project(projection).unwrap();
        assert_same(&read, &wanted);
    }
}

#[test]
fn copied_extents_equal_their_source() {
    let layout = narrow();
    let store = MemoryStore::default();
    let env = store.env();
    let keys: Vec<i64> = (0..3000).collect();
    let options = WriteOptions {
        extent_bytes: 4000,
        segment_bytes: 20_000,
        ..WriteOptions::default()
    };
    let rows = narrow_rows(&layout, &keys, 4);
    let sources = write(&env, &layout, options, vec![rows.clone()]);
    assert!(sources.len() > 2, "{}", sources.len());
    let copies = block_on(async {
        let counters = ReadCounters::default();
        let mut writer = SegmentWriter::create(
            &env,
            &layout,
            SegmentFormat::Extent,
            WriteOptions::default(),
        )
        .unwrap();
        for source in &sources {
            let segment = Segment::open(&env, &layout, Arc::clone(source), &counters)
                .await
                .unwrap();
            for extent in 0..segment.extents().len() {
                let encoded = segment.read_encoded(extent, &counters).await.unwrap();
                writer.push_encoded(encoded).await.unwrap();
            }
        }
        assert_eq!(counters.extents_read(), 0);
        writer.finish().await.unwrap()
    });
    let [copy] = &copies[..] else {
        panic!("one file")
    };
    let copy = Arc::new(copy.clone());
    block_on(verify_segment(&env, &layout, &copy)).unwrap();
    assert_same(&read_all(&env, &layout, &copy).unwrap(), &rows);
}

#[test]
fn futures_may_move_between_threads() {
    fn sendable(_: impl Send) {}
    let (layout, env) = (narrow(), MemoryStore::default().env());
    let metas = write(
        &env,
        &layout,
        WriteOptions::default(),
        vec![narrow_rows(&layout, &[1], 1)],
    );
    let cache = cache_of(1 << 20);
    let counters = ReadCounters::default();
    let format = SegmentFormat::Extent;
    let mut writer = SegmentWriter::create(&env, &layout, format, WriteOptions::default()).unwrap();
    sendable(writer.push(narrow_rows(&layout, &[1], 1)));
    sendable(cache.open(&env, &layout, &metas[0], &counters));
    sendable(verify_segment(&env, &layout, &metas[0]));
    let segment = block_on(cache.open(&env, &layout, &metas[0], &counters)).unwrap();
    let part = Part {
        rows: 0..1,
        columns: [0].into(),
        versions: false,
        views: false,
    };
    sendable(cache.extent_part(&segment, 0, part, &counters));
    sendable(writer.finish());
}

#[test]
fn rows_out_of_order_are_refused() {
    let layout = narrow();
    let env = MemoryStore::default().env();
    let options = WriteOptions {
        extent_bytes: 1,
        ..WriteOptions::default()
    };
    block_on(async {
        let mut writer =
            SegmentWriter::create(&env, &layout, SegmentFormat::Extent, options).unwrap();
        writer.push(narrow_rows(&layout, &[5, 6], 1)).await.unwrap();
        let error = writer
            .push(narrow_rows(&layout, &[6, 7], 1))
            .await
            .unwrap_err();
        assert!(error.message().contains("out of key order"), "{error}");
    });
}

#[test]
fn the_cache_reads_each_extent_once_and_stays_in_bounds() {
    let layout = narrow();
    let env = MemoryStore::default().env();
    let keys: Vec<i64> = (0..20_000).collect();
    let metas = write(
        &env,
        &layout,
        WriteOptions::default(),
        vec![narrow_rows(&layout, &keys, 1)],
    );
    block_on(async {
        let cache = cache_of(64 << 20);
        let counters = ReadCounters::default();
        for _ in 0..2 {
            let segment = cache
                .open(&env, &layout, &metas[0], &counters)
                .await
                .unwrap();
            for extent in 0..segment.extents().len() {
                cache.extent(&segment, extent, &counters).await.unwrap();
            }
            assert_eq!(counters.extents_read(), segment.extents().len() as u64);
        }
        assert_eq!(counters.extents_read(), counters.extents_cached());
        assert_eq!(counters.bytes_read() + 16, metas[0].bytes);
        let small = cache_of(600_000);
        let segment = small
            .open(&env, &layout, &metas[0], &counters)
            .await
            .unwrap();
        for extent in 0..segment.extents().len() {
            let rows = segment.extents().info(extent).rows as usize;
            let part = Part {
                rows: 0..rows,
                columns: [1].into(),
                versions: false,
                views: false,
            };
            let wanted = small.extent_part(&segment, extent, part, &counters);
            assert_eq!(wanted.await.unwrap().rows().data.num_columns(), 1);
            assert!(small.bytes() <= 600_000);
        }
    });
}

#[test]
fn what_a_read_may_keep_is_told_by_what_a_cache_may_hold() {
    let cache = Arc::new(cache_of(4_000_000));
    assert_eq!(cache.bytes(), 0);
    assert!(cache.has_room_for(900_000) && !cache.has_room_for(1_100_000));
    let mut lent = cache.lend();
    lent.set(2_000_000);
    assert!(cache.has_room_for(400_000) && !cache.has_room_for(600_000));
    assert!(cache.has_room_beside(900_000, 2_000_000));
    assert!(!cache.has_room_beside(1_100_000, 2_000_000));
    drop(lent);
    assert!(cache.has_room_for(900_000));
    assert!(!cache_of(0).has_room_for(0));
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(48)
    }
}

proptest! {
    #![proptest_config(config())]

    /// However rows come in and whatever the sizes, extents cover them all, in order, and a point
    /// lookup finds exactly the keys that are there.
    #[test]
    fn extents_cover_all_rows(
        keys in btree_set(0i64..5000, 1..600),
        pushes in prop::collection::vec(1usize..200, 1..20),
        extent_bytes in 1usize..20_000,
        group_rows in 1usize..400,
        parquet in any::<bool>(),
        segment_bytes in 1u64..50_000,
    ) {
        let layout = narrow();
        let env = MemoryStore::default().env();
        let keys: Vec<i64> = keys.into_iter().collect();
        let mut batches = Vec::new();
        let (mut rest, mut sizes) = (&keys[..], pushes.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            batches.push(narrow_rows(&layout, now, 3));
            rest = later;
        }
        let format = if parquet { SegmentFormat::Parquet } else { SegmentFormat::Extent };
        let options = WriteOptions {
            extent_bytes,
            segment_bytes,
            group_rows,
            group_bytes: 1,
            codec: Codec::Lz4,
        };
        let metas = write_as(format, &env, &layout, options, batches);
        prop_assert_eq!(metas.iter().map(|meta| meta.rows).sum::<u64>(), keys.len() as u64);
        block_on(async {
            let counters = ReadCounters::default();
            let cache = cache_of(8 << 20);
            let all = narrow_rows(&layout, &(-1..5001).collect::<Vec<i64>>(), 3);
            let encoded = layout.codec.encode(&all.data).unwrap();
            for pair in metas.windows(2) {
                assert!(pair[0].max_key < pair[1].min_key);
            }
            let mut found = Vec::new();
            for meta in &metas {
                verify_segment(&env, &layout, meta).await.unwrap();
                let segment = cache.open(&env, &layout, meta, &counters).await.unwrap();
                for (row, key) in encoded.iter().enumerate() {
                    let hash = key_hash(key.data());
                    let Some(extent) = segment.may_contain(key.data(), hash) else { continue };
                    let point = cache.point(&segment, extent, key.data(), &counters);
                    let point = point.await.unwrap();
                    let single = segment.extents_overlapping(
                        Some(key.data()),
                        Some(&[key.data(), b"\0"].concat()),
                    );
                    assert_eq!(single, extent..extent + 1);
                    if let Some(rows) = point {
                        assert_eq!(rows.alone().unwrap().data, all.slice(row, 1).data);
                        found.push(row as i64 - 1);
                    }
                }
                let extents = segment.extents_overlapping(None, None);
                assert_eq!(extents, 0..segment.extents().len());
            }
            assert_eq!(found, keys);
        });
    }
}

/// Types that are rare in tables: their arrays keep type and field names in both formats.
#[test]
fn rare_types_survive() {
    use arrow::datatypes::{DataType as T, Field, IntervalUnit, TimeUnit};
    let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    let inner = T::Struct(vec![field("x", T::List(field("strange", T::Utf8)))].into());
    let entry = vec![
        Arc::new(Field::new("k", T::Utf8, false)),
        field("v", T::Int32),
    ];
    let entries = Arc::new(Field::new("pairs", T::Struct(entry.into()), false));
    let zone: Arc<str> = "+02:00".into();
    let types = [
        T::List(field("element", inner)),
        T::LargeList(field("item", T::Int64)),
        T::FixedSizeList(field("coordinate", T::Float64), 2),
        T::Map(entries, false),
        T::Float16,
        T::UInt16,
        T::Decimal128(38, 0),
        T::Decimal256(60, 4),
        T::LargeBinary,
        T::BinaryView,
        T::Date64,
        T::Time32(TimeUnit::Second),
        T::Time32(TimeUnit::Millisecond),
        T::Time64(TimeUnit::Nanosecond),
        T::Timestamp(TimeUnit::Second, Some(zone)),
        T::Timestamp(TimeUnit::Nanosecond, None),
        T::Duration(TimeUnit::Microsecond),
        T::Interval(IntervalUnit::YearMonth),
        T::FixedSizeBinary(5),
    ];
    for format in [SegmentFormat::Extent, SegmentFormat::Parquet] {
        for data_type in &types {
            let columns = [("id", T::Int64), ("rare", data_type.clone())];
            let layout = super::sample::layout(&columns, &[0]);
            let rows: Vec<arrow::array::ArrayRef> = vec![
                Arc::new(arrow::array::Int64Array::from(vec![1, 2, 3])),
                arrow::array::new_null_array(data_type, 3),
            ];
            let rows = arrow::array::RecordBatch::try_new(Arc::clone(&layout.schema), rows);
            let rows = ChangeBatch::upserts(rows.unwrap(), 1);
            let env = MemoryStore::default().env();
            let options = WriteOptions::default();
            let metas = write_as(format, &env, &layout, options, vec![rows.clone()]);
            let read = read_all(&env, &layout, &metas[0]);
            let read = read.unwrap_or_else(|error| panic!("{format:?} {data_type}: {error}"));
            assert_same(&read, &rows);
        }
    }
}

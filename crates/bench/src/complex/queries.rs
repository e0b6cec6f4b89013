//! SQL by a secondary key: of settled tables, then with one row in twenty updated, sorted and not
//! merged, so that the views end before the updates.

use std::path::Path;
use std::time::Instant;

use lazybase_cluster::{SettleTo, StageName};
use lazybase_query::{Database, OpenOptions, Session};

use super::world::{ATTRIBUTES, BATCH_KEYS, ROWS_PER_KEY, Rows, World};
use super::{ComplexArgs, Figures};
use crate::Outcome;
use crate::base;
use crate::data::Seeded;
use crate::report::median;

/// One row of this many is updated.
const UPDATED_ONE_OF: u64 = 20;
/// How often each query runs, over ranges of its own.
const TIMES: usize = 21;
/// Queries at horizons of their own: a batch of one row comes before each.
const TIMES_FRESH: usize = 7;
/// A range holds one row of this many.
const SHARES: [u64; 2] = [1_000, 100];

/// A table asked by its view's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    One,
    Two,
}

impl Of {
    fn name(self) -> &'static str {
        match self {
            Of::One => "one",
            Of::Two => "two",
        }
    }

    /// A query over one part in `share` of the keys, which are uniform.
    fn sql(self, share: u64, seeded: &mut Seeded) -> String {
        match self {
            Of::One => {
                let width = u64::MAX / share;
                let low = seeded.below(u64::MAX - width);
                format!(
                    "SELECT count(*), sum(int_data) FROM test_one WHERE \
                     string_data >= '{low:016x}' AND string_data < '{:016x}'",
                    low + width
                )
            }
            Of::Two => {
                let width = u64::from(u32::MAX) / share;
                let low = seeded.below(u64::from(u32::MAX) - width) as i64 + i64::from(i32::MIN);
                format!(
                    "SELECT count(*), sum(attribute) FROM test_two WHERE \
                     value >= {low} AND value < {}",
                    low + width as i64
                )
            }
        }
    }
}

/// Median milliseconds: of queries one after the other, and of those at horizons of their own.
struct Times {
    steady: f64,
    fresh: f64,
    first: f64,
}

/// Takes all figures.
pub(super) fn measure(args: &ComplexArgs, folder: &Path, figures: &mut Figures) -> Outcome<()> {
    let keys = args.query_rows / ROWS_PER_KEY;
    let world = World::create(folder, true)?;
    let mut seeded = Seeded::new(args.seed);
    world.ingest(0..keys, &mut seeded)?;
    world.settle()?;
    world.close()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(in_database(keys, folder, &mut seeded, figures))?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

async fn in_database(
    keys: u64,
    folder: &Path,
    seeded: &mut Seeded,
    figures: &mut Figures,
) -> Outcome<()> {
    let options = OpenOptions {
        settings: base::settings(),
        ..OpenOptions::default()
    };
    let database = Database::open_with(folder, options).await?;
    let world = World::open(database.instance())?;
    let session = database.session();
    for share in SHARES {
        settle(&world).await?;
        hold(&world).await?;
        let settled = [
            times(&session, &world, keys, Of::One, share, seeded).await?,
            times(&session, &world, keys, Of::Two, share, seeded).await?,
        ];
        settle(&world).await?;
        for (name, of) in [
            ("upserts", Of::One),
            ("upserts", Of::Two),
            ("updates", Of::One),
        ] {
            update(&world, keys, name == "upserts", seeded).await?;
            let lagging = times(&session, &world, keys, of, share, seeded).await?;
            settle(&world).await?;
            let settled = &settled[usize::from(of == Of::Two)];
            let name = format!("secondary_{name}_{}", of.name());
            figures.add_of(
                &format!("{name}_ratio"),
                share,
                lagging.steady / settled.steady,
            );
            let fresh = lagging.fresh / settled.fresh;
            figures.add_of(&format!("{name}_fresh_ratio"), share, fresh);
            let first = lagging.first / settled.steady;
            figures.add_of(&format!("{name}_first_ratio"), share, first);
            figures.add_of(&format!("{name}_settled_ms"), share, settled.steady);
        }
    }
    drop(session);
    database.close().await?;
    Ok(())
}

/// Lets nothing work.
async fn hold(world: &World) -> Outcome<()> {
    for stage in StageName::ALL {
        world.instance.pause(stage).await?;
    }
    Ok(())
}

async fn settle(world: &World) -> Outcome<()> {
    for stage in StageName::ALL {
        world.instance.resume(stage).await?;
    }
    Ok(world
        .instance
        .settle(None, SettleTo::Authority, &|_| {})
        .await?)
}

/// Updates one row in twenty, spread over the tables, and sorts that: whole rows of both, or
/// TestOne's integer.
async fn update(world: &World, keys: u64, whole: bool, seeded: &mut Seeded) -> Outcome<()> {
    hold(world).await?;
    let start = seeded.below(UPDATED_ONE_OF);
    let ones: Vec<u64> = (start..keys).step_by(UPDATED_ONE_OF as usize).collect();
    for ones in ones.chunks(BATCH_KEYS as usize) {
        let rows = match whole {
            false => world.tables.updates(ones, seeded)?,
            true => {
                // As many of TestTwo's rows as it has for each row of TestOne.
                let twos = ones.iter().flat_map(|key| {
                    let spread = move |at: u64| (key + 3 * at) % keys;
                    (0..ATTRIBUTES).map(move |at| (spread(at), at as i32))
                });
                world
                    .tables
                    .upserts(ones, &twos.collect::<Vec<_>>(), seeded)?
            }
        };
        commit(world, rows).await?;
    }
    for stage in [StageName::Remap, StageName::Sort] {
        world.instance.resume(stage).await?;
    }
    world
        .instance
        .settle(None, SettleTo::Sorted, &|_| {})
        .await?;
    hold(world).await
}

async fn commit(world: &World, rows: Rows) -> Outcome<()> {
    let world = world.clone();
    tokio::task::spawn_blocking(move || world.commit(rows)).await??;
    Ok(())
}

async fn times(
    session: &Session,
    world: &World,
    keys: u64,
    of: Of,
    share: u64,
    seeded: &mut Seeded,
) -> Outcome<Times> {
    let first = query(session, &of.sql(share, seeded)).await?;
    let mut steady = Vec::new();
    for _ in 0..TIMES {
        steady.push(query(session, &of.sql(share, seeded)).await?);
    }
    let mut fresh = Vec::new();
    for _ in 0..TIMES_FRESH {
        let (one, two) = ([seeded.below(keys)], [(seeded.below(keys), 1)]);
        commit(world, world.tables.upserts(&one, &two, seeded)?).await?;
        fresh.push(query(session, &of.sql(share, seeded)).await?);
    }
    Ok(Times {
        steady: median(&mut steady),
        fresh: median(&mut fresh),
        first,
    })
}

/// Milliseconds of a query.
async fn query(session: &Session, sql: &str) -> Outcome<f64> {
    let start = Instant::now();
    let answers = session.execute(sql).await?;
    let millis = start.elapsed().as_secs_f64() * 1e3;
    match answers.last().map(|answer| answer.batches.len()) {
        Some(1..) => Ok(millis),
        _ => Err(format!("{sql:?} has no answer").into()),
    }
}

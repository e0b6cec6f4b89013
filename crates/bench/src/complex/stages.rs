//! Each stage alone over one SCU, with secondary views and without.

use std::path::Path;
use std::time::Duration;

use futures::executor::block_on;
use lazybase_engine::read::Identifier;
use lazybase_engine::segment::RowLayout;
use lazybase_engine::stages::ingest::UnsortedScu;

use super::world::{ROWS_PER_KEY, Took, World, took};
use super::{ComplexArgs, Figures, medians};
use crate::Outcome;
use crate::data::Seeded;

/// What table 3 of the paper says of each stage, rows a second; how many times that is wanted.
const PAPER: [(&str, f64, f64); 4] = [
    ("ingest", 27_000.0, 20.0),
    ("remap", 138_000.0, 10.0),
    ("sort", 41_000.0, 20.0),
    ("merge", 73_000.0, 10.0),
];

/// What the stages took over one SCU.
#[derive(Debug, Clone, Copy)]
struct Run {
    ingest: Took,
    /// Numbers for the keys.
    assign: Took,
    /// Reading every row back with them.
    rewrite: Took,
    sort: Took,
    merge: Took,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Run {
            ingest,
            assign,
            rewrite,
            sort,
            merge,
        } = self;
        write!(
            f,
            "ingest {ingest}, assign {assign}, rewrite {rewrite}, sort {sort}, merge {merge}"
        )
    }
}

/// Takes all figures of SCUs of this many rows.
pub(super) fn measure(
    args: &ComplexArgs,
    rows: u64,
    folder: &Path,
    figures: &mut Figures,
) -> Outcome<()> {
    let rows = rows / ROWS_PER_KEY * ROWS_PER_KEY;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for turn in 0..args.times.max(1) {
        // In turns: a machine that slows down slows both.
        for views in [turn % 2 == 0, turn % 2 == 1] {
            let at = folder.join(format!("stages-{rows}"));
            let run = one(args.seed + turn as u64, rows, views, &at)?;
            std::fs::remove_dir_all(&at)?;
            eprintln!("# {rows} rows, views {views}: {run}");
            match views {
                true => with.push(run),
                false => without.push(run),
            }
        }
    }
    say(rows, &with, &without, figures);
    Ok(())
}

fn say(rows: u64, with: &[Run], without: &[Run], figures: &mut Figures) {
    let of = |runs: &[Run], stage: fn(&Run) -> Took| {
        medians(&runs.iter().map(stage).collect::<Vec<_>>())
    };
    let stages: [fn(&Run) -> Took; 4] = [
        |run| run.ingest,
        |run| run.assign + run.rewrite,
        |run| run.sort,
        |run| run.merge,
    ];
    for ((name, paper, wanted), stage) in PAPER.into_iter().zip(stages) {
        let (wall, cpu) = of(with, stage);
        let rate = rows as f64 / wall;
        figures.add_of(&format!("{name}_rows_s"), rows, rate);
        figures.add_of(&format!("{name}_cores"), rows, cpu / wall);
        figures.add_of(&format!("{name}_paper_ratio"), rows, rate / paper);
        let met = if rate >= wanted * paper {
            "met"
        } else {
            "MISSED"
        };
        eprintln!("#   {wanted} times the paper's {paper}: {met}");
    }
    let (assign, _) = of(with, |run| run.assign);
    figures.add_of("remap_assign_rows_s", rows, rows as f64 / assign);
    let pair = |stage| (of(with, stage), of(without, stage));
    let [ingest, _, sort, merge] = stages.map(pair);
    // Of processor time: it is steadier than the clock on the wall, which waits for the disk.
    figures.add_of("views_ingest_ratio", rows, ingest.0.1 / ingest.1.1);
    figures.add_of("views_sort_ratio", rows, sort.0.1 / sort.1.1);
    figures.add_of("views_merge_ratio", rows, merge.0.1 / merge.1.1);
    let more = sort.0.1 - sort.1.1 + merge.0.1 - merge.1.1;
    figures.add_of("views_cost_in_sorts", rows, more / sort.1.1);
}

/// Each stage over the second of two SCUs: half of its keys are known from the first.
fn one(seed: u64, rows: u64, views: bool, folder: &Path) -> Outcome<Run> {
    let world = World::create(folder, views)?;
    let mut seeded = Seeded::new(seed);
    let keys = rows / ROWS_PER_KEY;
    world.ingest(0..keys, &mut seeded)?;
    block_on(world.instance.seal())?;
    world.settle()?;
    // Files that nothing names are removed while no clock runs.
    std::thread::sleep(lazybase_model::limits::DELETE_GRACE + Duration::from_secs(1));

    let first = keys / 2;
    let ingest = world.ingest(first..first + keys, &mut seeded)?;
    let assign = world.remap()?;
    let ((), rewrite) = took(|| rewrite(&world))?;
    let sort = world.sort()?;
    let merge = world.settle()?;
    world.close()?;
    Ok(Run {
        ingest,
        assign,
        rewrite,
        sort,
        merge,
    })
}

/// Reads every row of the SCUs that are not sorted with its numbers.
pub(super) fn rewrite(world: &World) -> Outcome<()> {
    let (ids, unsorted) = world.instance.identifier("benchmark");
    for scu in &unsorted {
        block_on(rewrite_scu(world, &ids, scu))?;
    }
    Ok(())
}

async fn rewrite_scu(world: &World, ids: &Identifier, scu: &UnsortedScu) -> Outcome<()> {
    let manifest = world.instance.manifest();
    for state in manifest.tables.values() {
        let layout = RowLayout::primary(&state.table)?;
        for batch in scu.prefix(u32::MAX) {
            for place in Identifier::places(&state.table, &batch) {
                ids.read(&layout, scu, &batch, place).await?;
            }
        }
    }
    Ok(())
}

//! Remap alone: SCUs that mention the keys of a large map, drawn by Zipf's law or uniformly.

use std::path::Path;

use futures::executor::block_on;
use lazybase_cluster::SettleTo;

use super::stages::rewrite;
use super::world::{Took, World, names, names_of, scattered, took};
use super::{ComplexArgs, Figures, medians};
use crate::Outcome;
use crate::data::Seeded;
use crate::machine::Watch;

/// Keys of a batch.
const BATCH_KEYS: u64 = 65_536;
/// Of a hundred mentions, those of keys that the map holds.
const KNOWN_PERCENT: u64 = 90;
/// The SCU of about a second's mentions is this part of the large one.
const SMALL: u64 = 20;

/// One way to mention keys.
struct Kind {
    name: &'static str,
    zipf: bool,
    /// Mentions of an SCU.
    mentions: u64,
    /// SCUs that wait together.
    scus: u64,
}

/// A map of many keys, then SCUs that mention them, each kind some times over.
pub(super) fn measure(args: &ComplexArgs, folder: &Path, figures: &mut Figures) -> Outcome<()> {
    let world = World::create(folder, false)?;
    let (_, load) = took(|| load(&world, args.map_keys))?;
    eprintln!("# {} keys are in the map after {load}", args.map_keys);
    figures.add("remap_map_stored_part", stored_part(&world));
    let watch = Watch::start(folder);
    let mut drawn = Drawn {
        seeded: Seeded::new(args.seed),
        known: args.map_keys,
        fresh: args.map_keys,
    };
    // One SCU that does not count opens the map's segments, and fills the page cache.
    let (large, small) = (args.mentions, args.mentions / SMALL);
    mention(&world, large, false, &mut drawn)?;
    world.remap()?;
    world.sort()?;
    let kind = |name, zipf, mentions, scus| Kind {
        name,
        zipf,
        mentions,
        scus,
    };
    // The backlog last: its SCUs leave a run each.
    for kind in [
        kind("remap_keys", true, large, 1),
        kind("remap_keys_uniform", false, large, 1),
        kind("remap_keys_small_scu", true, small, 1),
        kind("remap_keys_backlog", true, small, SMALL),
    ] {
        let (mut assigned, mut all) = (Vec::new(), Vec::new());
        for _ in 0..args.times.max(1) {
            for _ in 0..kind.scus {
                mention(&world, kind.mentions, kind.zipf, &mut drawn)?;
                block_on(world.instance.seal())?;
            }
            let assign = world.remap()?;
            let ((), rewrite) = took(|| rewrite(&world))?;
            eprintln!("# {}: {assign}, rewritten {rewrite}", kind.name);
            assigned.push(assign);
            all.push(assign + rewrite);
            // What is new goes into runs beside the map's base, as it does in a live system.
            world.sort()?;
        }
        say(&kind, &assigned, &all, figures);
    }
    figures.add("remap_memory_max_mib", watch.memory_mib());
    world.close()?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// A core's rate: of the wall's time or the processors', whichever is more.
fn say(kind: &Kind, assigned: &[Took], all: &[Took], figures: &mut Figures) {
    let mentions = (kind.mentions * kind.scus) as f64;
    let rate = |times: &[Took]| {
        let (wall, cpu) = medians(times);
        mentions / wall.max(cpu)
    };
    figures.add(&format!("{}_assign_s_core", kind.name), rate(assigned));
    figures.add(&format!("{}_s_core", kind.name), rate(all));
}

/// Fills the map in the order of its keys, which takes the least time: what comes of it is the
/// same map as in any other order, but for which number a key has.
fn load(world: &World, keys: u64) -> Outcome<()> {
    let mut places: Vec<u64> = (0..keys).map(scattered).collect();
    places.sort_unstable();
    world.pause(false)?;
    for places in places.chunks(BATCH_KEYS as usize) {
        let names = names_of(places.iter().copied());
        world.commit(world.tables.owners(&names)?)?;
    }
    block_on(world.instance.settle(None, SettleTo::Authority, &|_| {}))?;
    world.pause(true)
}

/// Draws mentions.
struct Drawn {
    seeded: Seeded,
    known: u64,
    fresh: u64,
}

impl Drawn {
    fn key(&mut self, zipf: bool) -> u64 {
        if self.seeded.below(100) >= KNOWN_PERCENT {
            self.fresh += 1;
            return self.fresh;
        }
        match zipf {
            true => rank(&mut self.seeded, self.known),
            false => self.seeded.below(self.known),
        }
    }
}

/// A rank below `count` by Zipf's law of exponent 1.
fn rank(seeded: &mut Seeded, count: u64) -> u64 {
    let uniform = (seeded.next() >> 11) as f64 / (1_u64 << 53) as f64;
    ((count as f64).powf(uniform) as u64).clamp(1, count) - 1
}

/// Commits the mentions of one SCU.
fn mention(world: &World, mentions: u64, zipf: bool, drawn: &mut Drawn) -> Outcome<()> {
    let mut left = mentions;
    while left > 0 {
        let count = left.min(BATCH_KEYS);
        let keys: Vec<u64> = (0..count).map(|_| drawn.key(zipf)).collect();
        let rows = world.tables.mentions(&names(keys), &mut drawn.seeded)?;
        world.commit(rows)?;
        left -= count;
    }
    Ok(())
}

/// What the map takes in its files, of what its rows take uncompressed.
fn stored_part(world: &World) -> f64 {
    let manifest = world.instance.manifest();
    let view = world.tables.map.primary.id;
    let runs = manifest.runs.values().filter(|run| run.view == view);
    let segments = runs.flat_map(|run| &run.segments);
    let (mut stored, mut raw) = (0, 0);
    for segment in segments {
        stored += segment.bytes;
        raw += segment.raw_bytes;
    }
    stored as f64 / raw.max(1) as f64
}

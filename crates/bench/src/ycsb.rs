//! YCSB's core workloads over PostgreSQL's protocol, with the statements of its client for
//! PostgreSQL to the letter. Rows are counted: a read that finds nothing is a failure here.
//!
//! ```text
//!   load -> A, B, C, D, E, F, each on several connections -> rows and last values checked
//!        -> a DELETE
//! ```
//!
//! Reads a server; writes its table `usertable`, which is made anew.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use clap::Args;

use crate::Outcome;
use crate::data::Seeded;
use wire::Wire;

mod wire;

const FIELDS: usize = 10;
const VALUE_LETTERS: usize = 100;
const SCAN_MAX: u64 = 100;
/// How much more often the first of many keys is asked for than the others.
const ZIPFIAN: f64 = 0.99;

#[derive(Args)]
pub(crate) struct YcsbArgs {
    /// The server, as postgresql://user@host:port/database.
    #[arg(long)]
    url: String,
    /// How many rows are loaded.
    #[arg(long, default_value_t = 10_000)]
    records: u64,
    /// How many operations each workload has.
    #[arg(long, default_value_t = 10_000)]
    operations: u64,
    /// How many connections work at a time.
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Which workloads run, in this order.
    #[arg(long, default_value = "abcdef")]
    workloads: String,
}

/// The shares of a workload's operations, in percent.
struct Mix {
    read: u64,
    update: u64,
    insert: u64,
    scan: u64,
    /// Reads and then updates the same row.
    modify: u64,
    /// Whether the newest rows are asked for most.
    latest: bool,
}

fn mix(workload: char) -> Outcome<Mix> {
    let none = Mix {
        read: 0,
        update: 0,
        insert: 0,
        scan: 0,
        modify: 0,
        latest: false,
    };
    Ok(match workload {
        'a' => Mix {
            read: 50,
            update: 50,
            ..none
        },
        'b' => Mix {
            read: 95,
            update: 5,
            ..none
        },
        'c' => Mix { read: 100, ..none },
        'd' => Mix {
            read: 95,
            insert: 5,
            latest: true,
            ..none
        },
        'e' => Mix {
            scan: 95,
            insert: 5,
            ..none
        },
        'f' => Mix {
            read: 50,
            modify: 50,
            ..none
        },
        other => return Err(format!("there is no workload {other:?}").into()),
    })
}

/// What all connections know together.
struct World {
    url: String,
    /// How often the keys up to each place are asked for, of 1 in all.
    shares: Vec<f64>,
    /// How many rows are there, and how many were begun.
    there: AtomicU64,
    begun: AtomicU64,
    /// The values that were written into field8 of each row.
    written: Mutex<HashMap<String, HashSet<String>>>,
}

/// Runs the workloads and prints a line for each.
pub(crate) fn run(args: &YcsbArgs) -> Outcome<()> {
    if args.records == 0 || args.threads == 0 {
        return Err("there must be rows and connections".into());
    }
    let world = World {
        url: args.url.clone(),
        shares: shares(args.records),
        there: AtomicU64::new(0),
        begun: AtomicU64::new(0),
        written: Mutex::default(),
    };
    let mut control = Wire::connect(&args.url)?;
    println!("version {}", env!("CARGO_PKG_VERSION"));
    control.query("DROP TABLE IF EXISTS usertable")?;
    let columns: Vec<String> = (0..FIELDS)
        .map(|at| format!("FIELD{at} VARCHAR(100)"))
        .collect();
    control.query(&format!(
        "CREATE TABLE IF NOT EXISTS usertable (YCSB_KEY VARCHAR(64) PRIMARY KEY, {});",
        columns.join(", ")
    ))?;
    let begun = Instant::now();
    together(args.threads, |thread| {
        let mut client = Client::new(&world, thread)?;
        while world.begun.load(Ordering::Relaxed) < args.records {
            client.insert()?;
        }
        Ok(())
    })?;
    report("load", world.there.load(Ordering::Relaxed), begun);
    for workload in args.workloads.chars() {
        let mix = mix(workload)?;
        let begun = Instant::now();
        together(args.threads, |thread| {
            let mut client = Client::new(&world, thread + 1000 * u64::from(workload))?;
            (0..args.operations / args.threads).try_for_each(|_| client.one(&mix))
        })?;
        report(&workload.to_string(), args.operations, begun);
        check(&world, &mut control)?;
    }
    // No workload deletes.
    Client::new(&world, 0)?.delete(&key(0))
}

fn report(name: &str, operations: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    println!("{name:5} {:9.0} operations/s", operations as f64 / seconds);
}

/// Runs the same work on several threads; the first error is the outcome.
fn together(threads: u64, work: impl Fn(u64) -> Outcome<()> + Sync) -> Outcome<()> {
    thread::scope(|scope| {
        let work = &work;
        let all: Vec<_> = (0..threads)
            .map(|at| scope.spawn(move || work(at)))
            .collect();
        all.into_iter()
            .try_for_each(|one| one.join().map_err(|_| "a connection's thread panicked")?)
    })
}

/// Counts the rows, and looks at every row that was updated.
fn check(world: &World, control: &mut Wire) -> Outcome<()> {
    let told = control.query("SELECT count(*), count(DISTINCT YCSB_KEY) FROM usertable")?;
    let wanted = Some(world.there.load(Ordering::Relaxed).to_string());
    if told.rows != [vec![wanted.clone(), wanted.clone()]] {
        return Err(format!("{:?} rows are there, not {wanted:?}", told.rows).into());
    }
    let found = control.query("SELECT YCSB_KEY, field8 FROM usertable")?;
    let written = world.written.lock().map_err(|_| "a thread panicked")?;
    let mut seen = 0;
    for row in &found.rows {
        let [Some(key), Some(value)] = row.as_slice() else {
            return Err(format!("{row:?} has an empty cell").into());
        };
        if let Some(values) = written.get(key) {
            seen += 1;
            if !values.contains(value) {
                return Err(format!("{value:?} of {key:?} was never written last").into());
            }
        }
    }
    match seen == written.len() {
        true => Ok(()),
        false => Err(format!("{} updated rows are there, not {}", seen, written.len()).into()),
    }
}

/// How often the keys up to each place are asked for.
fn shares(records: u64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut shares: Vec<f64> = (1..=records)
        .map(|place| {
            sum += (place as f64).powf(-ZIPFIAN);
            sum
        })
        .collect();
    shares.iter_mut().for_each(|share| *share /= sum);
    shares
}

/// The key of a number: numbers that follow each other lie far apart.
fn key(number: u64) -> String {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    format!("user{hash}")
}

/// The key of a row, as its first field tells it.
fn key_in(row: &[Option<String>]) -> Option<&str> {
    row.first()?.as_deref()?.split(' ').next()
}

/// One connection at work.
struct Client<'w> {
    world: &'w World,
    wire: Wire,
    random: Seeded,
    insert: String,
}

impl<'w> Client<'w> {
    fn new(world: &'w World, seed: u64) -> Outcome<Client<'w>> {
        let mut wire = Wire::connect(&world.url)?;
        let fields: Vec<String> = (0..FIELDS).map(|at| format!("field{at}")).collect();
        let places: Vec<String> = (1..=FIELDS + 1).map(|at| format!("${at}")).collect();
        let insert = format!(
            "INSERT INTO usertable (YCSB_KEY ,{}) VALUES ({}) ON CONFLICT DO NOTHING",
            fields.join(" ,"),
            places.join(" ,")
        );
        let all = fields.join(",");
        let statements = [
            ("insert", insert.clone()),
            (
                "read",
                format!("SELECT {all} FROM usertable WHERE YCSB_KEY = $1"),
            ),
            (
                "scan",
                format!("SELECT {all} FROM usertable WHERE YCSB_KEY >= $1 LIMIT $2"),
            ),
            (
                "update",
                "UPDATE usertable SET field8 = $1 WHERE YCSB_KEY = $2".to_owned(),
            ),
            (
                "delete",
                "DELETE FROM usertable WHERE YCSB_KEY = $1".to_owned(),
            ),
        ];
        for (name, sql) in &statements {
            let types = wire.prepare(name, sql)?;
            for (at, oid) in types.iter().enumerate() {
                // text, varchar; int8 for LIMIT.
                let is_limit = *name == "scan" && at == 1;
                if !(matches!(oid, 25 | 1043) && !is_limit || *oid == 20 && is_limit) {
                    return Err(format!("{name}'s parameter {} is of type {oid}", at + 1).into());
                }
            }
        }
        Ok(Client {
            world,
            wire,
            random: Seeded::new(seed),
            insert,
        })
    }

    /// One operation of a workload.
    fn one(&mut self, mix: &Mix) -> Outcome<()> {
        let mut drawn = self.random.below(100);
        let mut is = |share: u64| {
            let is = drawn < share;
            drawn = drawn.saturating_sub(share);
            is
        };
        if is(mix.read) {
            let key = self.drawn_key(mix.latest);
            self.read(&key).map(|_| ())
        } else if is(mix.update) {
            let key = self.drawn_key(mix.latest);
            self.update(&key)
        } else if is(mix.insert) {
            self.insert()
        } else if is(mix.scan) {
            self.scan()
        } else if is(mix.modify) {
            let key = self.drawn_key(mix.latest);
            self.read(&key)?;
            self.update(&key)
        } else {
            Err("a workload's shares are not 100 percent".into())
        }
    }

    /// A key that is there.
    fn drawn_key(&mut self, latest: bool) -> String {
        let drawn = self.random.below(1 << 52) as f64 / (1_u64 << 52) as f64;
        let place = self.world.shares.partition_point(|share| *share < drawn) as u64;
        let there = self.world.there.load(Ordering::Relaxed);
        match latest {
            true => key(there - 1 - place.min(there - 1)),
            // Spread, so that what is asked for most does not lie together.
            false => key(place.wrapping_mul(0x9e37_79b9) % self.world.shares.len() as u64),
        }
    }

    fn value(&mut self) -> String {
        let letters = (0..VALUE_LETTERS).map(|_| char::from(b'!' + self.random.below(90) as u8));
        letters.collect()
    }

    fn insert(&mut self) -> Outcome<()> {
        let number = self.world.begun.fetch_add(1, Ordering::Relaxed);
        let mut values = vec![key(number)];
        values.extend((0..FIELDS).map(|_| self.value()).collect::<Vec<_>>());
        // A scan asks for the fields alone: the first one tells which row it is.
        values[1] = format!("{} {}", values[0], values[1]);
        values[1].truncate(VALUE_LETTERS);
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let told = self.wire.execute("insert", &values)?;
        if told.tag != "INSERT 0 1" {
            return Err(format!("{} said {:?}", self.insert, told.tag).into());
        }
        // A row counts as there only with all before it.
        while self
            .world
            .there
            .compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            thread::yield_now();
        }
        Ok(())
    }

    fn read(&mut self, key: &str) -> Outcome<Vec<Option<String>>> {
        let mut told = self.wire.execute("read", &[key])?;
        match told.rows.pop() {
            Some(row) if told.rows.is_empty() && row.iter().all(Option::is_some) => Ok(row),
            other => Err(format!("{key:?} has not one row: {other:?}, {:?}", told.rows).into()),
        }
    }

    fn update(&mut self, key: &str) -> Outcome<()> {
        let value = self.value();
        {
            let mut written = self.world.written.lock().map_err(|_| "a thread panicked")?;
            let values = written.entry(key.to_owned()).or_default();
            values.insert(value.clone());
        }
        let told = self.wire.execute("update", &[&value, key])?;
        match told.tag.as_str() {
            "UPDATE 1" => Ok(()),
            other => Err(format!("an update said {other:?}").into()),
        }
    }

    fn delete(&mut self, key: &str) -> Outcome<()> {
        let told = self.wire.execute("delete", &[key])?;
        let left = self.wire.execute("read", &[key])?;
        match told.tag == "DELETE 1" && left.rows.is_empty() {
            true => Ok(()),
            false => Err(format!("{key:?}: {:?}, and {:?} is left", told.tag, left.rows).into()),
        }
    }

    fn scan(&mut self) -> Outcome<()> {
        let (key, limit) = (self.drawn_key(false), 1 + self.random.below(SCAN_MAX));
        let there = self.world.there.load(Ordering::Relaxed);
        let first = self.read(&key)?;
        let told = self.wire.execute("scan", &[&key, &limit.to_string()])?;
        let found = told.rows.len() as u64;
        let wrong = |what: &str| {
            let told = format!("a scan from {key:?} gave {found} rows of {limit}: {what}");
            Err(told.into())
        };
        let keys: Option<Vec<&str>> = told.rows.iter().map(|row| key_in(row)).collect();
        let Some(keys) = keys else {
            return wrong("not all have their key");
        };
        if told.rows.first() != Some(&first) || keys.first() != Some(&key.as_str()) {
            return wrong("the row of the key itself is not the first");
        }
        if keys.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong("they are not in the order of keys");
        }
        if found > limit {
            return wrong("too many");
        }
        // Fewer than asked are all that there are: at least those that were there before.
        if found < limit {
            let behind = (0..there)
                .filter(|number| self::key(*number) >= key)
                .count();
            if found < behind as u64 {
                return wrong("too few, and not at the end");
            }
        }
        Ok(())
    }
}

//! Those who take numbers of sequences, as sessions do that insert rows: from the stock mostly, now
//! and then so many that a block has to be reserved. One of them drops sequences, and makes them
//! again.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use lazybase_cluster::Instance;
use lazybase_engine::manifest::Ddl;
use lazybase_model::sequence::Sequence;
use lazybase_model::{Error, ErrorKind, SequenceId};

use crate::dice::Dice;
use crate::life::{Answer, Life, Run, Trouble};
use crate::marks::Mark;
use crate::sequences::Asked;
use crate::story::SequenceDraw;

/// The most microseconds between two times that one of them takes numbers.
const PAUSE_MICROS: u64 = 30_000;

impl SequenceDraw {
    /// Its definition.
    fn sequence(&self, id: SequenceId) -> Sequence {
        Sequence {
            start: self.start,
            increment: self.increment,
            min: self.bounds.0,
            max: self.bounds.1,
            cycle: self.cycles,
            ..Sequence::new(id, self.name.as_str())
        }
    }
}

/// Makes the story's sequences in a database that is being opened, those that nobody saw yet.
pub(crate) async fn make_sequences(run: &Run, instance: &Instance) -> Result<(), Error> {
    let mut ddl = Vec::new();
    for (place, draw) in run.story.sequences.drawn.iter().enumerate() {
        let is_there = instance.manifest().sequence_named(&draw.name).is_some();
        let mut known = run.sequences.lock();
        // One that is gone is missed once the database is open.
        if is_there || known.is_known(place) {
            continue;
        }
        let sequence = draw.sequence(instance.take_sequence_id());
        known.propose(place, sequence.id);
        let counter = sequence.begin();
        ddl.push(Ddl::CreateSequence { sequence, counter });
    }
    if ddl.is_empty() {
        return Ok(());
    }
    instance.commit(ddl, None).await.map(drop)
}

/// After an opening each sequence is there, the one that was or may be.
///
/// # Errors
/// What is wrong with one.
pub(crate) fn check_sequences(life: &Life) -> Result<(), String> {
    let mut known = life.run.sequences.lock();
    for (place, draw) in life.run.story.sequences.drawn.iter().enumerate() {
        known.opened(place, seen(life, draw))?;
    }
    Ok(())
}

/// The sequence of a name.
fn seen(life: &Life, draw: &SequenceDraw) -> Option<SequenceId> {
    let manifest = life.instance.manifest();
    let state = manifest.sequence_named(&draw.name)?;
    Some(state.sequence.id)
}

/// The same, which has to be the one that is known.
fn look(life: &Life, place: usize) -> Answer<SequenceId> {
    let draw = &life.run.story.sequences.drawn[place];
    let seen = seen(life, draw);
    life.run.sequences.lock().see(place, seen)?;
    let gone = || Trouble::Wrong(format!("sequence {:?} is gone", draw.name));
    seen.ok_or_else(gone)
}

/// Takes numbers until the life is over.
pub(crate) async fn take(life: Arc<Life>, number: usize) {
    let purpose = 700 + 4 * u64::from(life.number) + number as u64;
    let mut dice = Dice::of(life.run.story.seed, purpose);
    let sequences = &life.run.story.sequences;
    while !life.is_over() {
        let pause = Duration::from_micros(dice.below(PAUSE_MICROS));
        life.world().sleep(pause).await;
        let place = dice.index(sequences.drawn.len());
        let answer = match number == 0 && dice.permille(sequences.remakes) {
            true => make_again(&life, place).await,
            false => {
                let wanted = match dice.percent(10) {
                    true => dice.between(20, 120),
                    false => dice.between(1, 4),
                };
                take_some(&life, place, wanted as usize).await
            }
        };
        life.report(answer);
    }
}

/// At rest each sequence goes on.
pub(crate) fn take_at_rest(life: &Life) -> BoxFuture<'_, Answer<()>> {
    Box::pin(async move {
        for place in 0..life.run.story.sequences.drawn.len() {
            take_some(life, place, 1).await?;
        }
        Ok(())
    })
}

async fn take_some(life: &Life, place: usize, wanted: usize) -> Answer<()> {
    let id = look(life, place)?;
    let draw = &life.run.story.sequences.drawn[place];
    let asked = {
        let mut known = life.run.sequences.lock();
        known.ask(place, id, wanted, life.number)
    };
    let since = life.world().now();
    let numbers = match life.instance.next_numbers(id, wanted).await {
        Ok(numbers) => numbers,
        Err(error) => return Err(not_taken(life, &asked, since, error)),
    };
    let last = numbers.last().copied().unwrap_or_default();
    life.world().note("numbers", place as u64, last as u64, || {
        format!("{wanted} of sequence {id}: {numbers:?}")
    });
    let met = {
        let mut known = life.run.sequences.lock();
        known.answer(draw, &asked, &numbers)?
    };
    met.into_iter().for_each(|mark| life.world().meet(mark));
    Ok(())
}

/// Why nobody got numbers.
fn not_taken(life: &Life, asked: &Asked, since: Duration, error: Error) -> Trouble {
    let (id, wanted) = (asked.id, asked.wanted);
    life.world()
        .note("no numbers", u64::from(id.0), wanted as u64, || {
            format!("{wanted} of sequence {id}: {error}")
        });
    let may_be_gone = life.run.sequences.lock().may_be_gone(asked);
    if error.kind() == ErrorKind::NotFound && may_be_gone {
        return Trouble::Excused(error);
    }
    let trouble = life.judge("taking numbers", since, error);
    if let Trouble::Excused(_) = trouble {
        life.world().meet(Mark::NumbersRefused);
    }
    trouble
}

/// Drops a sequence and makes it again, in one commit.
async fn make_again(life: &Life, place: usize) -> Answer<()> {
    let old = look(life, place)?;
    // Whether there is another one already is told by the next opening.
    if life.run.sequences.lock().is_in_doubt(place) {
        return Ok(());
    }
    let draw = &life.run.story.sequences.drawn[place];
    let sequence = draw.sequence(life.instance.take_sequence_id());
    let (new, counter) = (sequence.id, sequence.begin());
    let ddl = vec![
        Ddl::DropSequence { sequence: old },
        Ddl::CreateSequence { sequence, counter },
    ];
    life.run.sequences.lock().propose(place, new);
    let since = life.world().now();
    let done = life.instance.commit(ddl, None).await;
    let name = &draw.name;
    match done {
        Ok(_) => {
            life.world()
                .note("sequence", place as u64, u64::from(new.0), || {
                    format!("{name} is {new}, and was {old}")
                });
            Ok(life.run.sequences.lock().made(place, new)?)
        }
        Err(error) => {
            life.world()
                .note("sequence", place as u64, 0, || format!("{name}: {error}"));
            // Any other error says that nothing happened.
            let is_told = error.kind() != ErrorKind::MaybeHappened;
            let trouble = life.judge("a change of a sequence", since, error);
            if let (Trouble::Excused(_), true) = (&trouble, is_told) {
                life.run.sequences.lock().refused(place, new)?;
            }
            Err(trouble)
        }
    }
}

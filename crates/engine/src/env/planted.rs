//! Mistakes that a simulation makes on purpose, to show that it would find them.
//!
//! They are compiled in by the feature `planted-faults` alone, which no release turns on; without
//! it [`is_planted`] is `false` for the compiler, and nothing of them is left.
//!
//! Which one is made is said by an environment, as [`Chosen`]. Opening a database in it begins it
//! in the thread that opens: it holds for all that this thread runs, until it opens another
//! database, and not for actors in other threads. A simulation is one thread, so that it holds for
//! all of it; and whether it is made costs no more to ask than a look at a variable of the thread.
//!
//! A binary that can make one has a mark among its bytes ([`is_marked`]): so a test tells that what
//! is released can make none.

use std::io::{self, BufRead};

/// Declares the faults with their names.
macro_rules! planted {
    ($($fault:ident $name:literal,)*) => {
        /// A mistake.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Planted {
            $(#[doc = $name] $fault,)*
        }

        impl Planted {
            /// All of them.
            pub const ALL: &'static [Planted] = &[$(Planted::$fault,)*];

            /// What it is.
            pub fn name(self) -> &'static str {
                match self {
                    $(Planted::$fault => $name,)*
                }
            }
        }
    };
}

planted! {
    SyncSkipped "the log is not synced",
    SyncRetried "a sync of the log that failed is tried again",
    GroupNotMoved "a group whose write failed is acknowledged as it is",
    TornBatchAccepted "a log frame counts whatever its payload's checksum says",
    StaleFrames "frames count that stand behind the end of a log file",
    EditTwice "an edit whose write had to be tried again is committed once more",
    MarksForgotten "the marks of producers are not sealed with their SCU",
    DuplicateEarly "a numbered batch is judged before the one in front of it is durable",
    HorizonShort "an answer lacks the last batch of its horizon",
    HorizonLong "an answer has a batch after its horizon",
    FloorIgnored "an answer may lie before its session's floor",
    ClockByWall "the database's clock goes with the machine's, and not with elapsed time",
    BoundDoubled "an answer may be twice as stale as was asked",
    FilterBeforeReconcile "deletes are left out before sources are reconciled",
    TieReversed "of two changes of a key in an SCU the first counts last",
    SortPanics "a sort of changes panics",
    NewestAlone "the newest run's change of a key is taken for the whole row",
    ExactOverlap "a count is called exact though sources overlap",
    OwnUnseen "a transaction does not see its own changes",
    ViewEntryKept "a view's entry stays when its row moves",
    ViewChangeMissed "a view's reader misses deletes since the view's end",
    UnplacedMissed "a view's reader misses changes that do not say the whole row",
    RangeForgotten "a view is brought on by the changes of its table's first range alone",
    PredicateOnNewest "ended rows of the newest source are left out before it is reconciled",
    PinIgnored "files go that a snapshot still reads",
    LogPinIgnored "logs go that a snapshot still reads",
    RetentionShort "pasts go that the retention keeps",
    EndedUntold "a snapshot that was ended as it kept too much goes on reading",
    ExpiredEarly "a merge drops rows that end later than its boundary",
    CombinedAsSet "a sum takes the last value alone",
    IdGivenTwice "the next number is now and then the last one again",
    IdShared "a key that an unsorted SCU gave a number gets another one",
    ZombieAdopted "an attempt that was given up is believed when it comes back",
    ReferenceForgotten "a reference to a new key makes no row",
    ChecksumIgnored "stored rows count whatever their checksums say",
    ChangedCopied "a row group of the authority is copied though changes met it",
    GivenUpEarly "a damaged sort is given up though its log is kept",
    HealedShort "what is made again lacks the changes of the newest run that it is made of",
    ViewBuiltAhead "a view built over rows misses what comes in meanwhile",
    DamageIsEnd "a damaged frame of the newest log file is taken for the end of the log",
    MissingIsEmpty "a log file that is missing is taken for one that held nothing",
    NumbersEarly "numbers of a sequence are given out before the edit that reserves them is there",
}

/// Whether faults can be planted in this build.
pub const fn can_be_planted() -> bool {
    cfg!(feature = "planted-faults")
}

/// Which mistake the databases of an environment make; none, in a build that can make none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chosen {
    #[cfg(feature = "planted-faults")]
    fault: Option<Planted>,
}

impl Chosen {
    /// No mistake.
    pub const NONE: Chosen = Chosen {
        #[cfg(feature = "planted-faults")]
        fault: None,
    };

    /// This one, or none.
    #[cfg(feature = "planted-faults")]
    pub const fn of(fault: Option<Planted>) -> Chosen {
        Chosen { fault }
    }

    /// None, whichever is asked for: this build can make none.
    #[cfg(not(feature = "planted-faults"))]
    pub const fn of(_: Option<Planted>) -> Chosen {
        Chosen::NONE
    }

    /// From now on it is made in what this thread runs, and no other one is.
    pub fn begin(self) {
        #[cfg(feature = "planted-faults")]
        {
            // No binary that can open a database goes without its mark.
            std::hint::black_box(MARKER);
            CHOSEN.set(self.fault);
        }
    }
}

/// What stands in each binary in which faults can be planted, and in no other one.
const MARKER: &str = "LAZYBASE THAT CAN MAKE MISTAKES ON PURPOSE";

/// Whether these bytes are those of a binary in which faults can be planted.
///
/// # Errors
/// Those of reading them.
pub fn is_marked(mut binary: impl BufRead) -> io::Result<bool> {
    let marker = MARKER.as_bytes();
    let last = marker[marker.len() - 1];
    let mut read = Vec::new();
    while binary.read_until(last, &mut read)? > 0 {
        if read.ends_with(marker) {
            return Ok(true);
        }
        // The mark may begin in what was read.
        let gone = read.len().saturating_sub(marker.len());
        read.drain(..gone);
    }
    Ok(false)
}

#[cfg(feature = "planted-faults")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Whether a fault was planted.
#[cfg(feature = "planted-faults")]
#[inline]
pub fn is_planted(fault: Planted) -> bool {
    CHOSEN.get() == Some(fault)
}

/// Whether a fault was planted: never, in this build.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub const fn is_planted(_: Planted) -> bool {
    false
}

#[cfg(test)]
mod tests;

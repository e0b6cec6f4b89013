//! SCU numbers, spans of them, and horizons: the total order of batches.
//!
//! An SCU (self-consistent update, section 3.1 of the LazyBase paper) is the unit of numbering
//! and of pipeline work. SCU n is applied after SCU n-1; inside an SCU batches are ordered by
//! their commit frames. Nothing here, and nothing that orders changes, ever looks at a clock.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a self-consistent update. The first SCU of a database is 1; 0 stands for
/// "before everything".
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ScuNumber(pub u64);

impl ScuNumber {
    /// Before the first SCU.
    pub const ZERO: ScuNumber = ScuNumber(0);

    /// The SCU applied right after this one.
    pub fn next(self) -> ScuNumber {
        ScuNumber(self.0 + 1)
    }

    /// The SCU applied right before this one; zero stays zero.
    pub fn previous(self) -> ScuNumber {
        ScuNumber(self.0.saturating_sub(1))
    }
}

impl fmt::Display for ScuNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A contiguous range of SCU numbers, `first..=last`. One span is empty: that of a base run from
/// before the first SCU ([`Span::EMPTY_BASE`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The oldest SCU in the span.
    pub first: ScuNumber,
    /// The newest SCU in the span; never before `first`, but for [`Span::EMPTY_BASE`].
    pub last: ScuNumber,
}

impl Span {
    /// The span of a base run that ends before the first SCU: it holds no SCU, and is followed by
    /// any span that begins at SCU 1.
    pub const EMPTY_BASE: Span = Span {
        first: ScuNumber(1),
        last: ScuNumber::ZERO,
    };

    /// The span of a base run that ends at `last`; [`Span::EMPTY_BASE`] when that is zero.
    pub fn base(last: ScuNumber) -> Span {
        Span {
            first: ScuNumber(1),
            last,
        }
    }

    /// Whether the span holds no SCU.
    pub fn is_empty(self) -> bool {
        self.last < self.first
    }

    /// The boundary that the span begins at: the end of the SCU before its first.
    pub fn start(self) -> ScuNumber {
        self.first.previous()
    }

    /// The span of one SCU.
    pub fn single(scu: ScuNumber) -> Span {
        Span {
            first: scu,
            last: scu,
        }
    }

    /// The span from `first` to `last`, both included.
    pub fn new(first: ScuNumber, last: ScuNumber) -> Span {
        debug_assert!(first <= last, "a span runs forward");
        Span { first, last }
    }

    /// How many SCUs the span holds.
    pub fn scus(self) -> u64 {
        self.last.0 + 1 - self.first.0
    }

    /// Whether `scu` lies in the span.
    pub fn contains(self, scu: ScuNumber) -> bool {
        self.first <= scu && scu <= self.last
    }

    /// Whether `later` begins right where this span ends.
    pub fn is_followed_by(self, later: Span) -> bool {
        self.last.next() == later.first
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.first, self.last)
    }
}

/// How many batches of one SCU count, in the order of their commit frames.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BatchCount(pub u32);

impl BatchCount {
    /// Every batch of the SCU: what a sealed SCU's horizon says.
    pub const ALL: BatchCount = BatchCount(u32::MAX);
}

/// A point in the total order of batches: an answer at this horizon contains exactly the batches
/// of all SCUs before `scu`, and the first `batches` batches of `scu` itself.
///
/// Two spellings of the same point compare equal only once normalised: "all of SCU n" is written
/// `(n, ALL)`, never `(n + 1, 0)`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Horizon {
    /// The newest SCU of which anything counts.
    pub scu: ScuNumber,
    /// How many of that SCU's batches count.
    pub batches: BatchCount,
}

impl Horizon {
    /// Before the first batch: an empty database.
    pub const ZERO: Horizon = Horizon {
        scu: ScuNumber::ZERO,
        batches: BatchCount::ALL,
    };

    /// The end of SCU `scu`.
    pub fn end_of(scu: ScuNumber) -> Horizon {
        Horizon {
            scu,
            batches: BatchCount::ALL,
        }
    }

    /// The point right after the first `batches` batches of the SCU `scu`; the end of the SCU
    /// before it when there are none.
    pub fn inside(scu: ScuNumber, batches: u32) -> Horizon {
        match batches {
            0 => Horizon::end_of(scu.previous()),
            n => Horizon {
                scu,
                batches: BatchCount(n),
            },
        }
    }

    /// Whether the horizon ends at an SCU's end.
    pub fn is_boundary(self) -> bool {
        self.batches == BatchCount::ALL
    }
}

impl fmt::Display for Horizon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_boundary() {
            true => write!(f, "{}", self.scu),
            false => write!(f, "{}+{}", self.scu.previous(), self.batches.0),
        }
    }
}

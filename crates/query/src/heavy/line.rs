//! The line of heavy statements: who has a place, who waits, and who is next.
//!
//! Places go to whoever's session has the fewest of them, and of these to who came first. A
//! statement keeps its ticket: one whose place went to others while its client did not read comes
//! before those that have come later.
//!
//! Keeps numbers only. Invariant LINE-1: there are never more placed than places, and nobody waits
//! while a place is free, or its holder idle for [`IDLE`] (they look that often).

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;

/// A place whose holder's rows nobody has taken for so long goes to whoever waits.
pub(super) const IDLE: Duration = Duration::from_millis(100);

/// Where a statement stands: the lower one has come earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// The line of a database.
#[derive(Debug)]
pub(crate) struct Line {
    places: usize,
    waiting_max: usize,
    standing: Mutex<Standing>,
}

#[derive(Debug, Default)]
struct Standing {
    /// The last ticket that was given out.
    last: u64,
    placed: BTreeMap<Ticket, Placed>,
    waiting: BTreeMap<Ticket, Waiting>,
}

#[derive(Debug)]
struct Placed {
    session: u64,
    /// Since when nobody takes its rows; `None` while somebody does.
    idle_since: Option<Duration>,
}

#[derive(Debug)]
struct Waiting {
    session: u64,
    waker: Waker,
}

/// What comes of asking for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// It has one.
    Placed,
    /// It waits: it is woken when it has one, and shall ask again after [`IDLE`].
    Waits,
    /// So many wait already that it is not let in.
    Refused { placed: usize, waiting: usize },
}

impl Line {
    /// A line before so many places, in which so many may wait.
    pub(crate) fn new(places: usize, waiting_max: usize) -> Line {
        Line {
            places: places.max(1),
            waiting_max,
            standing: Mutex::default(),
        }
    }

    /// How many have a place, and how many wait for one.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let standing = self.standing.lock();
        (standing.placed.len(), standing.waiting.len())
    }

    /// A ticket, behind all that were given out.
    pub(super) fn ticket(&self) -> Ticket {
        let mut standing = self.standing.lock();
        standing.last += 1;
        Ticket(standing.last)
    }

    /// Asks for the place of a ticket, or says that its holder works on. One that has begun is
    /// never refused.
    pub(super) fn ask(
        &self,
        ticket: Ticket,
        session: u64,
        has_begun: bool,
        waker: &Waker,
        now: Duration,
    ) -> Asked {
        let mut standing = self.standing.lock();
        if standing.works(ticket) {
            return Asked::Placed;
        }
        let waker = waker.clone();
        let before = standing.waiting.insert(ticket, Waiting { session, waker });
        let called = standing.call(self.places, now);
        let asked = if standing.works(ticket) {
            Asked::Placed
        } else if !has_begun && before.is_none() && standing.waiting.len() > self.waiting_max {
            standing.waiting.remove(&ticket);
            Asked::Refused {
                placed: standing.placed.len(),
                waiting: standing.waiting.len(),
            }
        } else {
            Asked::Waits
        };
        drop(standing);
        called.into_iter().for_each(Waker::wake);
        asked
    }

    /// The holder of a place has given rows: it is idle until somebody wants more of them.
    pub(super) fn rests(&self, ticket: Ticket, now: Duration) {
        if let Some(placed) = self.standing.lock().placed.get_mut(&ticket) {
            placed.idle_since = Some(now);
        }
    }

    /// A ticket is given back, with the place if it has one.
    pub(super) fn leave(&self, ticket: Ticket, now: Duration) {
        let mut standing = self.standing.lock();
        standing.placed.remove(&ticket);
        standing.waiting.remove(&ticket);
        let called = standing.call(self.places, now);
        drop(standing);
        called.into_iter().for_each(Waker::wake);
    }
}

impl Standing {
    /// Whether a ticket has a place: then its holder works from here on.
    fn works(&mut self, ticket: Ticket) -> bool {
        match self.placed.get_mut(&ticket) {
            Some(placed) => {
                placed.idle_since = None;
                true
            }
            None => false,
        }
    }

    /// Gives the places that can be given; whom to wake for that.
    fn call(&mut self, places: usize, now: Duration) -> Vec<Waker> {
        let mut called = Vec::new();
        while let Some(next) = self.next_one() {
            if !self.has_room(places, now) {
                break;
            }
            if let Some(waiting) = self.waiting.remove(&next) {
                // One that does not come for its place keeps it no longer than others.
                let placed = Placed {
                    session: waiting.session,
                    idle_since: Some(now),
                };
                self.placed.insert(next, placed);
                called.push(waiting.waker);
            }
        }
        called
    }

    /// Who is to have the next place.
    fn next_one(&self) -> Option<Ticket> {
        let held = |session: u64| {
            let placed = self.placed.values();
            placed.filter(|placed| placed.session == session).count()
        };
        let waiting = self.waiting.iter();
        let order = |(ticket, of): &(&Ticket, &Waiting)| (held(of.session), **ticket);
        waiting.min_by_key(order).map(|(ticket, _)| *ticket)
    }

    /// Whether a place is free, if need be by taking that of who was idle for longest.
    fn has_room(&mut self, places: usize, now: Duration) -> bool {
        if self.placed.len() < places {
            return true;
        }
        let idle = self.placed.iter().filter_map(|(ticket, placed)| {
            let since = placed.idle_since?;
            (now.saturating_sub(since) >= IDLE).then_some((since, *ticket))
        });
        let longest = idle.min().map(|(_, ticket)| ticket);
        longest.is_some_and(|ticket| self.placed.remove(&ticket).is_some())
    }
}

#[cfg(test)]
mod tests;

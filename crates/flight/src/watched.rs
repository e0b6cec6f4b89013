//! Answers while they are sent: a statement that is given up is dropped at once, whether its client
//! takes its rows or not.
//!
//! Nobody polls an answer while its client leaves no room for more of it. Between two polls it
//! rests in a slot, where a task that hears why it is to end takes it out:
//!
//! ```text
//!   the client's polls                      the watch
//!   take it, poll it, lay it back           sleeps
//!   (no room: nobody polls)                 a time limit, a cancel, the server stops:
//!                                           takes it, drops it, leaves the error
//!   find the error, and send it             is over
//!
//!   take it, poll it                        leaves word: it is being polled
//!   find word: drop it, send the error      is over
//! ```
//!
//! Keeps memory only. Invariant FLR-2: a statement that is given up holds nothing from then on,
//! also where its client has not read what was sent before. One that is not given up waits for its
//! client for as long as that is there.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use arrow_flight::FlightData;
use futures::stream::{Stream, StreamExt};
use lazybase_model::{Error, Result};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tonic::Status;

use crate::answers::Messages;
use crate::failure::status;
use crate::stream::{Ends, WayOut};

/// What runs of a statement, with all that it holds.
pub(crate) struct Held {
    pub(crate) messages: Messages,
    pub(crate) way_out: WayOut,
}

impl Held {
    fn give_up(self, why: Error) -> Error {
        self.way_out.give_up(why, self.messages)
    }
}

/// Where a statement is that is being sent.
enum Place {
    /// Nobody polls it; whoever waits for its rows is woken when it is given up.
    Rests(Held, Option<Waker>),
    /// Somebody polls it, and gives it up then if the watch has left word why.
    Polled(Option<Error>),
    /// The watch drops it, and wakes then whoever has asked meanwhile.
    Dropped(Option<Waker>),
    /// It is dropped; its client is to be told why.
    GivenUp(Error),
    /// There is nothing more.
    Over,
}

/// A statement that is being sent.
struct Slot(Mutex<Place>);

impl Slot {
    /// Takes it out for a poll; or what such a poll gives, where it is not there any more.
    fn take(&self, waker: &Waker) -> Result<Held, Poll<Option<Error>>> {
        let mut place = self.0.lock();
        match mem::replace(&mut *place, Place::Over) {
            Place::Rests(held, _) => {
                *place = Place::Polled(None);
                Ok(held)
            }
            Place::Dropped(_) => {
                *place = Place::Dropped(Some(waker.clone()));
                Err(Poll::Pending)
            }
            Place::GivenUp(error) => Err(Poll::Ready(Some(error))),
            // One that has panicked is not polled again.
            Place::Polled(_) | Place::Over => Err(Poll::Ready(None)),
        }
    }

    /// Lays it back; or gives it to whoever has polled it, to be given up.
    fn lay(&self, held: Held, waker: Option<Waker>) -> Option<(Held, Error)> {
        let mut place = self.0.lock();
        match mem::replace(&mut *place, Place::Over) {
            Place::Polled(Some(why)) => Some((held, why)),
            _ => {
                *place = Place::Rests(held, waker);
                None
            }
        }
    }

    /// It has come to its end by itself.
    fn end(&self) {
        *self.0.lock() = Place::Over;
    }

    /// Gives it up, or leaves word for whoever polls it.
    fn give_up(&self, why: Error) {
        let held = {
            let mut place = self.0.lock();
            match mem::replace(&mut *place, Place::Over) {
                Place::Rests(held, waker) => {
                    *place = Place::Dropped(waker);
                    held
                }
                Place::Polled(_) => {
                    *place = Place::Polled(Some(why));
                    return;
                }
                other => {
                    *place = other;
                    return;
                }
            }
        };
        // Not under the lock: this closes files, and frees what a sort holds.
        let error = held.give_up(why);
        let before = mem::replace(&mut *self.0.lock(), Place::GivenUp(error));
        if let Place::Dropped(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// An answer that is being sent. It is dropped with this, too.
pub(crate) struct Watched(Arc<Slot>);

/// Sends what a statement makes until it is given up; `over` is told, or has lost its sender, once
/// the statement holds nothing any more but what waits to be sent.
#[expect(
    clippy::disallowed_methods,
    reason = "how long clients on a network are waited for is no part of what is simulated"
)]
pub(crate) fn watched(held: Held, ends: Ends, over: oneshot::Receiver<()>) -> Watched {
    let slot = Arc::new(Slot(Mutex::new(Place::Rests(held, None))));
    tokio::spawn(watch(Arc::downgrade(&slot), ends, over));
    Watched(slot)
}

async fn watch(slot: Weak<Slot>, ends: Ends, over: oneshot::Receiver<()>) {
    let why = tokio::select! {
        biased;
        _ = over => return,
        why = ends => why,
    };
    if let Some(slot) = slot.upgrade() {
        slot.give_up(why);
    }
}

impl Stream for Watched {
    type Item = Result<FlightData, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut held = match self.0.take(cx.waker()) {
            Ok(held) => held,
            Err(instead) => {
                return instead.map(|error| error.map(|error| Err(status(&error))));
            }
        };
        let polled = held.messages.poll_next_unpin(cx);
        let waker = match &polled {
            Poll::Ready(None | Some(Err(_))) => {
                self.0.end();
                return polled;
            }
            Poll::Ready(Some(Ok(_))) => None,
            Poll::Pending => Some(cx.waker().clone()),
        };
        match self.0.lay(held, waker) {
            None => polled,
            Some((held, why)) => Poll::Ready(Some(Err(status(&held.give_up(why))))),
        }
    }
}

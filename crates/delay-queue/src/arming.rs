//! Setting alarms: one after the other, never one within the other.
//!
//! An alarm may ring before the call that sets it returns, for a clock may look at the time first.
//! Its bell only notes that (see [`Takers::rung`](crate::takers::Takers::rung)): the party that is
//! setting it hears of it in the section in which it says what became of the alarm, and sets the
//! next one. So the stack is as deep for one entry as for all that fall due meanwhile.

use std::io;
use std::task::Waker;
use std::time::Instant;

use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::{Alarm, Clock};

use crate::takers::Arming;

/// Sets the `first` alarm, and those that `note` asks for after it. May run foreign code, so no
/// lock may be held.
///
/// `when` is the point of a number, and `note` the section that says what became of an alarm
/// ([`Takers::armed`](crate::takers::Takers::armed)) and settles.
pub fn arm<C: Clock>(
    clock: &C,
    bell: &Waker,
    when: impl Fn(u64) -> Option<Instant>,
    first: Arming,
    mut note: impl FnMut(&Arming, io::Result<Alarm>) -> Option<Arming>,
) {
    let mut next = Some(first);
    while let Some(arming) = next {
        let alarm = match when(arming.at) {
            Some(when) => guarded(|| clock.wake_at(when, bell.clone())).unwrap_or_else(|payload| {
                discard(payload);
                Err(io::Error::other("the clock panicked"))
            }),
            None => Err(io::Error::other("no clock tells this time")),
        };
        next = note(&arming, alarm);
        drop_quietly(arming); // With it the alarm that it replaces, which is the clock's code.
    }
}

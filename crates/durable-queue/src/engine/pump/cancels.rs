//! Requests to cancel started jobs: when the pump asks the store for them, and who is told.
//!
//! # Invariants
//! 1. If a request was announced after the last answer began, and this process holds its job, the pump asks
//!    again. It forgets the announcement only while it holds no job.
//! 2. The store is asked only while a job is running, and at most once in [`CANCEL_PAUSE`].

use std::collections::BTreeSet;
use std::time::Instant;

use super::pause::Pause;
use super::{Pump, called};
use crate::engine::command::Held;
use crate::engine::plan::CANCEL_PAUSE;
use crate::engine::shared::Shared;
use crate::engine::signals::Events;
use crate::store::{Lease, Store};

#[derive(Default)]
pub(super) struct Cancels {
    /// There may be requests that the last answer did not contain.
    pub(super) may_be_new: bool,
    /// After an answer, or an error.
    pause: Pause,
    /// Requests of the last answer for jobs that were not running here. A job ahead may be among them: its
    /// start was sent, or need not be confirmed.
    others: BTreeSet<Held>,
}

impl Cancels {
    pub(super) fn forget(&mut self) {
        self.may_be_new = false;
        self.others.clear();
    }

    /// When to ask the store.
    pub(super) fn ask_at(&self, now: Instant) -> Option<Instant> {
        let at = self.pause.until.unwrap_or(now);
        self.may_be_new.then_some(at)
    }

    /// Returns whether a cancel of a job was requested that no handler of this process has.
    pub(super) fn is_requested(&mut self, lease: &Lease) -> bool {
        self.others.remove(&Held::of(lease)) || lease.cancelled
    }
}

impl<S: Store> Pump<S> {
    /// Asks for the requests, and tells the handlers.
    pub(super) fn ask_for_cancels(&mut self, now: Instant) {
        let Shared { store, name, .. } = &*self.shared;
        match called(|| store.cancel_requests(name)) {
            Ok(requests) => {
                let cancels = &mut self.cancels;
                cancels.forget();
                cancels.pause.end();
                cancels.pause.until = now.checked_add(CANCEL_PAUSE);
                for (id, token) in requests {
                    let held = Held { id, token };
                    match self.running.signals(&held) {
                        Some(signals) => signals.set(Events::CANCELLED),
                        None => _ = cancels.others.insert(held),
                    }
                }
            }
            // Turns go on: no job waits for the answer.
            Err(error) => {
                self.cancels.pause.begin(now);
                self.report(&error);
            }
        }
    }
}

//! The pump's decisions, as pure functions of its state.
//!
//! This module takes no locks, reads no clock and calls no store: the pump creates a [`View`], asks for its
//! [`Plan`] and carries it out. The tests check the plans of all small states. `PROTOCOL.md` explains why the
//! pump never sleeps past a job.
//!
//! # Invariants
//! 1. Jobs are claimed only if a call waits for them and the rate allows them to start at once.
//! 2. A job claimed ahead that cannot start at its time is released, except for the prefetch.
//! 3. A sleep ends before any of its reasons: a lease to renew, a job or a claim that falls due, the end of a
//!    pause.

use std::time::{Duration, Instant};

use crate::store::offset::Offset;
use crate::store::time::StoreTime;
use crate::store::{Claimed, LOCKED_AGAIN};

/// Interval at which a claim is tried while calls wait, whatever is known. A safety net under lost
/// announcements.
pub const SAFETY_LOOK: Duration = Duration::from_secs(60);
/// Minimum interval at which a process asks its store which of its running jobs are to be cancelled. A handler
/// learns of a request late by at most this, plus the time of the store's announcement and response. While jobs
/// run and no call waits, the interval at which a store is polled is longer by this.
pub const CANCEL_PAUSE: Duration = Duration::from_millis(100);
/// If a synced commit is faster than this, acknowledgements are not held back, because the delay of jobs is
/// negligible.
const NOTICED: Duration = Duration::from_micros(500);
/// Acknowledgements without waiters are held back for this multiple of their commit's duration while jobs
/// fall due, so that most jobs of a steady stream are not delayed by commits.
const HOLD: u32 = 4;
/// One of this many claims ignores urgency, so that a stream of urgent jobs does not starve the others.
const FAIR: u32 = 8;
/// Maximum pause between two looks at a job locked by another transaction. The job may be late by this.
const LONGEST_LOCKED_PAUSE: Duration = Duration::from_millis(100);

/// Before all other times: nothing is known.
pub(crate) const UNKNOWN: StoreTime = StoreTime::from_micros(i64::MIN);

/// After the announcement that anything may have changed, before all others.
const AFTER_RECALL: StoreTime = StoreTime::from_micros(i64::MIN + 1);

/// Knowledge about the store, from the last claim and later announcements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    first: StoreTime,
    first_free: StoreTime,
    paused: bool,
    claimed_at: Option<Instant>,
    /// Number of consecutive claims that found no job although one was due.
    in_vain: u32,
    /// Number of claims since one that ignored urgency.
    urgent_claims: u32,
}

/// The pump's state at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    /// `None` before the store's first response.
    pub(crate) offset: Option<Offset>,
    /// Number of jobs that the waiting calls want.
    pub(crate) demand: usize,
    pub(crate) closing: bool,
    /// When the closing pump ends even if jobs are held.
    pub(crate) deadline: Option<Instant>,
    /// When spare jobs are released.
    pub(crate) spares_at: Option<Instant>,
    /// Number of jobs that the rate allows to start now.
    pub(crate) allowed: usize,
    /// When the rate allows another start.
    pub(crate) next_token: Option<Instant>,
    /// End of the pause after an error of the store.
    pub(crate) retry_at: Option<Instant>,
    /// End of the pause after a claim that was rejected permanently.
    pub(crate) claim_at: Option<Instant>,
    /// When to poll the store's watch.
    pub(crate) look_at: Option<Instant>,
    /// Whether the response to a claim was lost.
    pub(crate) has_lost_claim: bool,
    /// Number of commands to send.
    pub(crate) commands: usize,
    /// Number of commands that can wait, and since when there are any.
    pub(crate) quiet: usize,
    pub(crate) quiet_since: Option<Instant>,
    /// Recent duration of a synced turn.
    pub(crate) sync: Duration,
    /// Whether any started job is not settled yet.
    pub(crate) is_running: bool,
    /// When to ask the store for cancels, while a job runs. `None` if none were requested since the last answer,
    /// as far as is known.
    pub(crate) cancels_at: Option<Instant>,
    pub(crate) next_renewal: Option<Instant>,
    /// Number of jobs claimed ahead.
    pub(crate) ahead: usize,
    /// Number of due jobs ahead, and the due time of the first other one.
    pub(crate) due: usize,
    pub(crate) next_due: Option<StoreTime>,
    pub(crate) known: Known,
    /// The horizon of the last claim.
    pub(crate) horizon: Duration,
    /// Maximum number of jobs ahead beyond the demand.
    pub(crate) prefetch: usize,
}

/// The pump's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Step 7. Cut short if jobs or commands are left.
    End { cut_short: bool },
    /// Step 6. Ended by an announcement earlier than `threshold`.
    Sleep {
        threshold: StoreTime,
        until: Option<Instant>,
    },
    /// Ask which jobs a claim holds whose response was lost.
    Recover,
    /// Poll the store's watch.
    Look,
    /// Ask which running jobs are to be cancelled.
    AskForCancels,
    /// Step 4.
    Turn(TurnPlan),
}

/// Contents of a turn of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnPlan {
    /// Whether commands that can wait are held back. All others are sent.
    pub(crate) holds_quiet: bool,
    pub(crate) renews: bool,
    /// Number of jobs ahead to start, from the first.
    pub(crate) start: usize,
    /// Number of jobs to release, after the started ones.
    pub(crate) release: usize,
    pub(crate) claim: Option<ClaimPlan>,
}

/// See [`Claim`](crate::store::Claim).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClaimPlan {
    pub(crate) max: usize,
    pub(crate) start: usize,
    pub(crate) ahead: usize,
    pub(crate) urgent_first: bool,
}

impl Known {
    pub(crate) fn nothing() -> Self {
        Self {
            first: UNKNOWN,
            first_free: UNKNOWN,
            paused: false,
            claimed_at: None,
            in_vain: 0,
            urgent_claims: 0,
        }
    }

    /// A job may be due at `due`, earlier than known.
    pub(crate) fn announced(&mut self, due: StoreTime) {
        if due != StoreTime::NEVER {
            self.paused = false; // The pause may have ended; the next turn tells.
            self.first = self.first.min(due);
            self.first_free = self.first_free.min(due);
        }
    }

    /// A job that is not known may be due.
    pub(crate) fn may_be_more(&mut self) {
        self.first = UNKNOWN;
    }

    /// A turn was answered.
    pub(crate) fn answered(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// A claim of jobs due within `horizon` was answered at the store's time `now`.
    pub(crate) fn claimed(
        &mut self,
        claimed: &Claimed,
        now: StoreTime,
        horizon: Duration,
        received: Instant,
    ) {
        let (first, first_free) = (claimed.first, claimed.first_free);
        let is_locked =
            claimed.leases.is_empty() && now <= first && first <= now.after(LOCKED_AGAIN);
        if is_locked {
            self.in_vain += 1;
            self.first = first.max(now.after(locked_pause(self.in_vain)));
            // A locked job is not leased.
            self.first_free = first_free.max(self.first.after(horizon));
        } else {
            self.in_vain = 0;
            (self.first, self.first_free) = (first, first_free);
        }
        self.claimed_at = Some(received);
        self.urgent_claims = (self.urgent_claims + 1) % FAIR;
    }
}

impl View {
    pub(crate) fn plan(&self) -> Plan {
        let is_idle =
            !self.is_running && self.ahead == 0 && self.commands == 0 && !self.has_lost_claim;
        if self.closing && (is_idle || self.has_come(self.deadline)) {
            return Plan::End {
                cut_short: !is_idle,
            };
        }
        if self.is_to_come(self.retry_at) {
            return self.sleep(UNKNOWN, &[self.retry_at]);
        }
        if self.has_lost_claim && (self.demand > 0 || self.closing) {
            return Plan::Recover;
        }
        if self.has_come(self.next_look()) {
            return Plan::Look;
        }
        if self.is_running && self.has_come(self.cancels_at) {
            return Plan::AskForCancels;
        }
        self.turn().map_or_else(|| self.rest(), Plan::Turn)
    }

    /// Returns a lower bound of the store's clock. Before the first response no job is due.
    pub(crate) fn store_now(&self) -> StoreTime {
        self.offset
            .map_or(UNKNOWN, |offset| offset.store_time(self.now))
    }

    /// When to poll the store's watch. While no call waits, only for cancels of running jobs.
    fn next_look(&self) -> Option<Instant> {
        if self.wanted() > 0 {
            self.look_at
        } else {
            let at = self.look_at.filter(|_| self.is_running)?;
            at.checked_add(CANCEL_PAUSE)
        }
    }

    fn has_come(&self, at: Option<Instant>) -> bool {
        at.is_some_and(|at| at <= self.now)
    }

    fn is_to_come(&self, at: Option<Instant>) -> bool {
        at.is_some_and(|at| self.now < at)
    }

    /// The demand, limited by the tokens of the rate.
    fn wanted(&self) -> usize {
        if self.closing {
            0
        } else {
            self.demand.min(self.allowed)
        }
    }

    /// Maximum number of jobs ahead in addition to the wanted ones. Zero if the rate is exhausted, because
    /// they could not start.
    fn prefetch(&self) -> usize {
        self.prefetch.min(self.allowed - self.wanted())
    }

    /// Number of jobs that may be claimed ahead, with `wanted` wanted and `ahead` already there.
    fn room(&self, wanted: usize, ahead: usize) -> usize {
        (wanted + self.prefetch()).saturating_sub(ahead)
    }

    /// Returns `None` if there is nothing to send and nothing to claim.
    fn turn(&self) -> Option<TurnPlan> {
        let (start, release) = if self.closing || self.is_paused() {
            (0, self.ahead)
        } else {
            let start = self.wanted().min(self.due);
            (start, (self.due - start).saturating_sub(self.prefetch()))
        };
        let turn = TurnPlan {
            holds_quiet: self.is_to_come(self.hold_until()),
            renews: self.has_come(self.next_renewal),
            start,
            release,
            claim: self.claim(self.wanted() - start, self.ahead - start - release),
        };
        let held = if turn.holds_quiet { self.quiet } else { 0 };
        let has_settles = self.commands > held || turn.renews || start + release > 0;
        (has_settles || turn.claim.is_some()).then_some(turn)
    }

    /// Acknowledgements without waiters are held back while a job is about to fall due for a waiting call,
    /// because no job starts until their commit is synced.
    fn hold_until(&self) -> Option<Instant> {
        let soon = self.store_now().after(self.sync);
        let is_awaited =
            self.wanted() > 0 && (self.due > 0 || self.next_due.is_some_and(|due| due <= soon));
        let since = self
            .quiet_since
            .filter(|_| is_awaited && self.sync >= NOTICED)?;
        since.checked_add(self.sync * HOLD)
    }

    fn claim(&self, wanted: usize, ahead: usize) -> Option<ClaimPlan> {
        let room = self.room(wanted, ahead);
        let next = self.next_claim(room);
        if wanted == 0 || next > self.store_now() || next == StoreTime::NEVER {
            return None;
        }
        Some(ClaimPlan {
            max: wanted + self.prefetch(),
            start: wanted,
            ahead: room,
            urgent_first: self.known.urgent_claims < FAIR - 1,
        })
    }

    /// The time at which a claim with room for `room` jobs ahead would find a job, as far as is known.
    fn next_claim(&self, room: usize) -> StoreTime {
        let Known {
            first, first_free, ..
        } = self.known;
        if self.is_paused() || self.is_to_come(self.claim_at) {
            StoreTime::NEVER
        } else if self.is_stale() {
            UNKNOWN
        } else if room == 0 {
            first
        } else {
            first.min(first_free.before(self.horizon))
        }
    }

    fn is_paused(&self) -> bool {
        self.known.paused && !self.is_stale()
    }

    /// Calls have waited so long that announcements may have been lost.
    fn is_stale(&self) -> bool {
        self.wanted() > 0 && self.has_come(self.safety_look())
    }

    fn safety_look(&self) -> Option<Instant> {
        self.known.claimed_at?.checked_add(SAFETY_LOOK)
    }

    /// Sleeps until the next event.
    fn rest(&self) -> Plan {
        let local = |time| self.offset.and_then(|offset| offset.local(time));
        let next_due = self.next_due.and_then(local);
        let cancels_at = self.cancels_at.filter(|_| self.is_running);
        if self.wanted() == 0 {
            // If calls wait, only the rate blocks the next claim.
            let token = self.next_token.filter(|_| self.demand > 0 && !self.closing);
            let threshold = if self.is_running && self.cancels_at.is_none() {
                AFTER_RECALL
            } else {
                UNKNOWN
            };
            let look = self.next_look();
            let times = [self.next_renewal, next_due, token, look, cancels_at];
            return self.sleep(threshold, &times);
        }
        let room = self.room(self.wanted(), self.ahead);
        let claim = self.next_claim(room);
        let threshold = match room {
            0 => claim,
            _ => claim.after(self.horizon),
        };
        let tried_at = if self.is_to_come(self.claim_at) {
            self.claim_at
        } else {
            self.safety_look()
        };
        let times = [
            self.next_renewal,
            next_due,
            local(claim),
            tried_at,
            self.next_look(),
            cancels_at,
            self.hold_until(),
        ];
        self.sleep(threshold, &times)
    }

    fn sleep(&self, threshold: StoreTime, times: &[Option<Instant>]) -> Plan {
        let times = times.iter().chain([&self.deadline, &self.spares_at]);
        Plan::Sleep {
            threshold,
            until: times.copied().flatten().min(),
        }
    }
}

/// Pause before asking again about a job locked by another transaction, after `times` attempts in a row.
pub(crate) fn locked_pause(times: u32) -> Duration {
    doubled(LOCKED_AGAIN, times.saturating_sub(1), LONGEST_LOCKED_PAUSE)
}

/// Doubles `first` that many times, up to `longest`.
pub(crate) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

#[cfg(all(test, not(anthill_loom)))]
mod tests;

//! What the pump does next, decided from one view of its state.
//!
//! Nothing here locks, reads a clock or calls the store: the pump makes a [`View`], asks for its [`Plan`] and carries
//! that out. The tests ask for the plan of every small state, and `PROTOCOL.md` says why no job is slept over.
//!
//! # What always holds
//! 1. Nothing is claimed unless a call waits for it, and the rate lets it start at once.
//! 2. A job that lies ahead and cannot start at its time is given back, but for the prefetch.
//! 3. A sleep ends before any of its reasons: a lease to renew, a job or a claim that falls due, a pause that ends.

use std::time::{Duration, Instant};

use crate::offset::Offset;
use crate::store::{Claimed, LOCKED_AGAIN};
use crate::time::StoreTime;

/// So often a claim is tried while calls wait, whatever is known: a net under lost announcements.
pub const SAFETY_LOOK: Duration = Duration::from_secs(60);
/// A commit that is synced in less makes no job late that is worth a turn of its own.
const NOTICED: Duration = Duration::from_micros(500);
/// Acknowledgements that can wait are held back for this many times as long as their commit takes, while jobs fall
/// due: so most jobs of a steady stream are not late by it.
const HOLD: u32 = 4;
/// One claim of so many that are answered goes by time alone, so that urgent jobs without end do not starve the
/// others.
const FAIR: u32 = 8;
/// The longest pause between two looks at a job that another transaction has locked: by so much it may come late.
const LONGEST_LOCKED_PAUSE: Duration = Duration::from_millis(100);

/// A time before all others: nothing is known.
pub(crate) const UNKNOWN: StoreTime = StoreTime::from_micros(i64::MIN);

/// What is known of the store: from the last claim, and from what was announced since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// See [`Claimed`].
    first: StoreTime,
    first_free: StoreTime,
    paused: bool,
    claimed_at: Option<Instant>,
    /// How many claims in a row have found nothing, though a job was due.
    in_vain: u32,
    /// How many claims were answered since one that went by time alone.
    urgent_claims: u32,
}

/// The pump's state at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    /// Absent before the store's first answer.
    pub(crate) offset: Option<Offset>,
    /// Jobs that the waiting calls want.
    pub(crate) demand: usize,
    pub(crate) closing: bool,
    /// The end of a pump that is closing, whatever it holds.
    pub(crate) deadline: Option<Instant>,
    /// When spare jobs are given back.
    pub(crate) spares_at: Option<Instant>,
    /// Jobs that the rate lets start now.
    pub(crate) allowed: usize,
    /// When the rate lets one more start.
    pub(crate) next_token: Option<Instant>,
    /// The end of the pause after an error of the store.
    pub(crate) retry_at: Option<Instant>,
    /// The same, after a claim that was refused for good.
    pub(crate) claim_at: Option<Instant>,
    /// When the store's watch is to be looked at.
    pub(crate) look_at: Option<Instant>,
    /// Whether the answer to a claim was lost.
    pub(crate) has_lost_claim: bool,
    /// Commands to send.
    pub(crate) commands: usize,
    /// Those of them that can wait, and since when there are any.
    pub(crate) quiet: usize,
    pub(crate) quiet_since: Option<Instant>,
    /// How long a turn that is synced takes, of late.
    pub(crate) sync: Duration,
    /// Whether a started job is not settled yet.
    pub(crate) is_running: bool,
    pub(crate) next_renewal: Option<Instant>,
    /// Jobs that lie ahead.
    pub(crate) ahead: usize,
    /// Those of them that are due, and when the first of the others is.
    pub(crate) due: usize,
    pub(crate) next_due: Option<StoreTime>,
    pub(crate) known: Known,
    /// That of the last claim.
    pub(crate) horizon: Duration,
    /// How many jobs may lie ahead beyond those that calls want.
    pub(crate) prefetch: usize,
}

/// What the pump does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Step 7; cut short if a job or a command is left.
    End { cut_short: bool },
    /// Step 6. Announcements earlier than `threshold` end it.
    Sleep {
        threshold: StoreTime,
        until: Option<Instant>,
    },
    /// Ask what a claim holds whose answer was lost.
    Recover,
    /// Look at the store's watch.
    Look,
    /// Step 4.
    Turn(TurnPlan),
}

/// What goes into a turn of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnPlan {
    /// Commands that can wait are held back; all others are sent.
    pub(crate) holds_quiet: bool,
    pub(crate) renews: bool,
    /// So many of the jobs ahead are started, in their order.
    pub(crate) start: usize,
    /// So many of those that follow are given back.
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

    /// A job may be due at `due` that was not before.
    pub(crate) fn announced(&mut self, due: StoreTime) {
        if due != StoreTime::NEVER {
            self.paused = false; // It may be over: the store says.
            self.first = self.first.min(due);
            self.first_free = self.first_free.min(due);
        }
    }

    /// A turn was answered.
    pub(crate) fn answered(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// A claim was answered at `now` by the store's clock; it had asked for jobs due within `horizon`.
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
            // A locked job is free, as far as leases go.
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
        if self.wanted() > 0 && self.has_come(self.look_at) {
            return Plan::Look;
        }
        self.turn().map_or_else(|| self.rest(), Plan::Turn)
    }

    /// What the store's clock shows at least. Before the first answer nothing is due.
    pub(crate) fn store_now(&self) -> StoreTime {
        self.offset
            .map_or(UNKNOWN, |offset| offset.store_time(self.now))
    }

    fn has_come(&self, at: Option<Instant>) -> bool {
        at.is_some_and(|at| at <= self.now)
    }

    fn is_to_come(&self, at: Option<Instant>) -> bool {
        at.is_some_and(|at| self.now < at)
    }

    /// As much of the demand as the rate has tokens for.
    fn wanted(&self) -> usize {
        if self.closing {
            0
        } else {
            self.demand.min(self.allowed)
        }
    }

    /// How many jobs may lie here beyond those that are wanted: none that could not start.
    fn prefetch(&self) -> usize {
        self.prefetch.min(self.allowed - self.wanted())
    }

    /// How many jobs may be claimed ahead for so many that are wanted, while so many lie ahead.
    fn room(&self, wanted: usize, ahead: usize) -> usize {
        (wanted + self.prefetch()).saturating_sub(ahead)
    }

    /// None if there is nothing to tell the store, or to ask it for.
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

    /// An acknowledgement that nothing waits for is held back while a job is about to fall due that a call waits for:
    /// until its commit is synced, nothing is started.
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

    /// When a claim with room for so many jobs ahead would find something, as far as is known.
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

    /// Calls have waited for so long that announcements may have been lost.
    fn is_stale(&self) -> bool {
        self.wanted() > 0 && self.has_come(self.safety_look())
    }

    fn safety_look(&self) -> Option<Instant> {
        self.known.claimed_at?.checked_add(SAFETY_LOOK)
    }

    /// There is nothing to do before the next of these times.
    fn rest(&self) -> Plan {
        let local = |time| self.offset.and_then(|offset| offset.local(time));
        let next_due = self.next_due.and_then(local);
        if self.wanted() == 0 {
            // With a token left, what the next claim is for is known, and needs no other.
            let token = self.next_token.filter(|_| self.demand > 0 && !self.closing);
            return self.sleep(UNKNOWN, &[self.next_renewal, next_due, token]);
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
            self.look_at,
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

/// Before the store is asked again about a job that another transaction has locked, the `times`th time in a row.
pub(crate) fn locked_pause(times: u32) -> Duration {
    doubled(LOCKED_AGAIN, times.saturating_sub(1), LONGEST_LOCKED_PAUSE)
}

/// Twice as long each time, up to `longest`.
pub(crate) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

#[cfg(all(test, not(anthill_loom)))]
mod tests;

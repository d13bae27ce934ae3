//! Effects of the store's response to a turn.

use std::sync::Arc;
use std::time::Instant;

use sync_shim::Clock;

use super::Pump;
use super::ahead::Ahead;
use super::item::Item;
use crate::engine::claimed::Guard;
use crate::engine::command::{Command, Held, Ready, Wish};
use crate::engine::config::Config;
use crate::engine::horizon::HORIZON;
use crate::engine::plan::{UNKNOWN, locked_pause};
use crate::engine::running::{Limited, Repeat};
use crate::engine::shared::Shared;
use crate::engine::signals::{Events, Signals};
use crate::engine::stats::Counters;
use crate::engine::time_limit::TimeLimit;
use crate::engine::unread::Unread;
use crate::error::SettleError;
use crate::store::failures::Failed;
use crate::store::offset::Offset;
use crate::store::schedule::UnreadableSchedule;
use crate::store::{Lease, Store, Turn, Verdict};

/// Error text of a job that is buried because its holders die with it.
const SPENT: &str = "no attempt is left, and the last one did not finish";

/// The lease without the parts that only a handler reads.
fn bare(lease: &Lease) -> Lease {
    let Lease { id, token, due, .. } = *lease;
    let Lease {
        started, attempts, ..
    } = *lease;
    Lease {
        id,
        token,
        due,
        started,
        attempts,
        key: None,
        payload: Vec::new(),
        schedule: lease.schedule.clone(),
        urgent: lease.urgent,
        kind: None,
        options: None,
        failures: lease.failures.clone(),
        cancelled: lease.cancelled,
    }
}

impl<S: Store> Pump<S> {
    pub(super) fn succeed(
        &mut self,
        items: Vec<Item>,
        turn: Turn,
        sent: Instant,
        received: Instant,
    ) {
        let Turn {
            now,
            paused,
            verdicts,
            claimed,
        } = turn;
        let had_failed = self.retry.end();
        let had_refused = claimed.is_some() && self.claims.end();
        if (had_failed || had_refused) && !self.claims.is_on() {
            self.shared.control.failed(None);
        }
        let offset = self
            .offset
            .get_or_insert_with(|| Offset::new(received, now));
        let set_back = offset.learn(sent, received, now);
        let mut started = Vec::new();
        for (item, verdict) in items.into_iter().zip(verdicts) {
            match item {
                Item::Command(command) => self.settled(command, verdict, sent),
                Item::Renew(held) => self.renewed(held, verdict, sent),
                Item::Start(mut ahead) => match verdict {
                    Verdict::Done => {
                        ahead.lease.attempts += u32::from(!ahead.lease.started);
                        ahead.lease.started = true;
                        started.push(ahead.lease);
                    }
                    Verdict::NotDue => {
                        ahead.refused += u32::from(ahead.lease.due <= now && !paused);
                        self.put_ahead(ahead);
                    }
                    Verdict::Stale => {} // Cancelled, reset or merged.
                },
            }
        }
        if set_back > HORIZON {
            // Jobs ahead may now fall due after their leases end. Claiming them again gives them longer
            // leases. By the store's clock no lease has expired.
            let jobs = self.ahead.take(usize::MAX);
            self.pending
                .extend(jobs.map(|job| Command::release(&job.lease)));
        }
        if let Some(claimed) = claimed {
            let horizon = self.horizon.current();
            self.known.claimed(&claimed, now, horizon, received);
            started.extend(claimed.leases);
        }
        self.known.answered(paused);
        self.enter(started, sent);
    }

    /// Processes the leases of a call sent at `sent`. Started jobs are handed out.
    pub(super) fn enter(&mut self, leases: Vec<Lease>, sent: Instant) {
        let Config {
            lease: span,
            heartbeat,
            attempt_timeout,
            ..
        } = *self.config();
        let mut supplied = Vec::new();
        let observer = self.config().observer.clone().map(|observer| {
            let now = self.shared.control.clock.now();
            (observer, self.store_now(now), now)
        });
        for lease in leases {
            let held = Held::of(&lease);
            if self.cancels.is_requested(&lease) {
                self.pending.push(Command::release(&lease)); // The store ends it.
                continue;
            }
            if !lease.started {
                self.put_ahead(Ahead {
                    lease,
                    until: sent + span,
                    recalls: self.recalls,
                    refused: 0,
                });
                continue;
            }
            let repeat = Repeat::of(&lease);
            let next = repeat.as_ref().map(|repeat| repeat.next(lease.due));
            let policies = &self.shared.policy;
            let own = policies.of(&lease);
            let is_spent = lease.attempts > policies.max_attempts(own.as_deref());
            let refused = match next {
                Some(Err(UnreadableSchedule)) => {
                    let now = self.shared.control.clock.now();
                    let before = lease.failures.as_deref().map(Arc::from);
                    let error = UnreadableSchedule.to_string();
                    let failed = Failed::new(before, now, lease.due, lease.attempts, error);
                    Some(Wish::Unreadable(Box::new(Unread::new(failed))))
                }
                Some(Ok(Some(next))) if is_spent => Some(Wish::Again(next.into())),
                // Its holders have died with it, one after the other.
                _ if is_spent => Some(Wish::Reject(SPENT.to_owned())),
                _ => None,
            };
            if let Some(wish) = refused {
                self.pending.push(Command::new(held, wish, None));
                continue;
            }
            let signals = Signals::new();
            let span_of_attempt = own.as_deref().and_then(|own| own.time_limit);
            let timeout = attempt_timeout.filter(|_| span_of_attempt.is_none());
            let timeout_at = timeout.and_then(|timeout| sent.checked_add(timeout));
            self.running
                .insert(held, signals.clone(), repeat, sent + span, timeout_at);
            let limit = span_of_attempt.map(|span| {
                let limit = TimeLimit::new(span);
                self.running.limit(
                    held,
                    Limited {
                        limit: limit.clone(),
                        lease: bare(&lease),
                        policy: own.clone(),
                    },
                    sent,
                    span,
                );
                limit
            });
            if heartbeat {
                self.running.renew_after(held, sent, span);
            }
            let handed_out = observer
                .as_ref()
                .map(|(observer, store_now, now)| observer.hand_out(lease.due, *store_now, *now));
            supplied.push(Ready {
                lease,
                lane: 0,
                signals,
                policy: own,
                limit,
                handed_out,
            });
        }
        let control = &self.shared.control;
        Counters::count(&control.counters.taken, supplied.len());
        let count = supplied.len();
        // Read before the calls wake up: a token that is taken later would not have been there for them.
        let now = self.rate.as_ref().map(|_| control.clock.now());
        let left_over = control.serve(supplied, self.refill);
        if let (Some(rate), Some(now)) = (&self.rate, now) {
            let given = u32::try_from(count - left_over.len()).unwrap_or(u32::MAX);
            rate.take(given, now);
        }
        let left_over = left_over.iter().map(|job| Command::release(&job.lease));
        self.pending.extend(left_over);
    }

    /// Fails the attempts whose time limit is over.
    pub(super) fn end_overdue(&mut self, now: Instant) {
        let Shared {
            control, policy, ..
        } = &*self.shared;
        let overdue = self.running.take_overdue(now, &control.counters);
        let failed = overdue.into_iter().map(|(mut limited, signals)| {
            let guard = Guard::new(&mut limited.lease, signals, control, policy, limited.policy);
            guard.into_failure(limited.limit.error())
        });
        self.pending.extend(failed);
    }

    pub(super) fn put_ahead(&mut self, ahead: Ahead) {
        let Lease { due, urgent, .. } = ahead.lease;
        // Before other due jobs. A job that the store says is not due waits for its time.
        let now = || self.store_now(self.shared.control.clock.now());
        let place = match ahead.refused {
            0 if urgent && due <= now() => UNKNOWN,
            0 => due,
            refused => now().after(locked_pause(refused)),
        };
        self.ahead.push(ahead, place);
    }

    fn renewed(&mut self, held: Held, verdict: Verdict, sent: Instant) {
        let span = self.config().lease;
        match verdict {
            Verdict::Done => {
                self.running.renewed(held, sent, span);
            }
            Verdict::Stale | Verdict::NotDue => self.is_lost(held),
        }
    }

    pub(super) fn is_lost(&mut self, held: Held) {
        if let Some(signals) = self.running.remove(&held) {
            signals.set(Events::LOST);
            Counters::count(&self.shared.control.counters.stale, 1);
        }
    }

    fn settled(&mut self, command: Command, verdict: Verdict, sent: Instant) {
        let Command {
            held,
            ref wish,
            perhaps_done,
            ..
        } = command;
        let answer = match (verdict, wish) {
            (Verdict::Done, Wish::Start(_)) => Ok(()),
            (Verdict::Stale | Verdict::NotDue, Wish::Start(_)) => {
                // The job was taken from this process, or the queue was paused: it is handed out again.
                self.is_lost(held);
                if verdict == Verdict::NotDue {
                    self.pending.push(Command::new(held, Wish::Release, None));
                }
                Err(SettleError::Stale)
            }
            (Verdict::Done, Wish::Extend(span)) => {
                self.running.extended(held, sent, *span);
                Ok(())
            }
            (Verdict::Done, _) => {
                self.running.remove(&held);
                Ok(())
            }
            // Not for an extension: it does not end the lease, so a stale one means that another holder has
            // the job.
            (Verdict::Stale | Verdict::NotDue, wish)
                if perhaps_done && !matches!(wish, Wish::Extend(_)) =>
            {
                self.running.remove(&held);
                Err(SettleError::Unknown)
            }
            (Verdict::Stale | Verdict::NotDue, _) => {
                self.is_lost(held);
                Err(SettleError::Stale)
            }
        };
        command.answer(answer);
    }
}

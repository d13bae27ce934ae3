//! The pump: the state machine, one per queue and process, that calls the store for claims and settles. A thread of
//! the queue's [`Threads`](crate::Threads) runs it, one pass at a time.
//!
//! It sends the settles of guards, renews leases, claims jobs ahead for waiting calls, and starts due jobs,
//! each in one turn of the store. `plan.rs` decides; `PROTOCOL.md` defines the steps.
//!
//! # Invariants
//! 1. A job is handed out only after the store has confirmed its start. Without confirmation it is handed out
//!    at its due time, if its lease is live and no recall has arrived since its claim.
//! 2. Due jobs that were due and urgent when they were claimed start before others.
//! 3. Each command is sent until the store answers or rejects it permanently, or until the shutdown's
//!    deadline.

mod ahead;
mod cancels;
mod item;
mod pause;
mod refusals;
mod verdicts;

use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dedup_queue::TokenBucket;
use sync_shim::Clock;
use sync_shim::foreign::{discard, guarded};

use self::ahead::{Ahead, AheadJobs};
use self::cancels::Cancels;
use self::item::Item;
use self::pause::Pause;
use self::refusals::may_be_for_good;
use crate::engine::calls::Refill;
use crate::engine::command::{Command, Held, Wish};
use crate::engine::config::{Config, Rate};
use crate::engine::control::Orders;
use crate::engine::horizon::Horizon;
use crate::engine::plan::{ClaimPlan, Known, Plan, TurnPlan, UNKNOWN, View};
use crate::engine::running::{RENEW_AFTER, RunningJobs};
use crate::engine::shared::Shared;
use crate::engine::stats::Counters;
use crate::error::{CarriedOut, ErrorKind, StoreError, TakeError};
use crate::store::job::{Token, Tokens};
use crate::store::notify::Notifier;
use crate::store::offset::Offset;
use crate::store::time::StoreTime;
use crate::store::{Claim, KindRoom, Lease, RECALL, Result, Settle, Store, Watch};
use crate::threads::pumps::{Pass, Step};

pub use self::pause::{FIRST_PAUSE, LONGEST_PAUSE};
pub use crate::engine::plan::{CANCEL_PAUSE, SAFETY_LOOK};

/// Caps the mean: one slow sync says little about the next.
const LONGEST_SYNC: Duration = Duration::from_millis(20);

/// Maximum number of done jobs that a pump deletes in one call, between two turns.
pub const DONE_BATCH: u32 = 1_000;
/// Time between two looks for done jobs whose time is over, while there may be more.
const SWEEP_AGAIN: Duration = Duration::from_millis(100);
/// Maximum time between two looks for done jobs whose time is over.
const LONGEST_SWEEP: Duration = Duration::from_secs(60);

struct Pump<S> {
    shared: Arc<Shared<S>>,
    tokens: Tokens,
    offset: Option<Offset>,
    /// Claimed but not started, by due time. Jobs that were due and urgent when claimed come first.
    ahead: AheadJobs,
    running: RunningJobs,
    /// Commands to send, perhaps again.
    pending: Vec<Command>,
    /// Since when there are commands that can wait.
    quiet_since: Option<Instant>,
    horizon: Horizon,
    known: Known,
    /// The kinds of which calls want jobs, and how many of each. `None`: any.
    kinds: Option<Vec<(&'static str, usize)>>,
    /// What workers want in addition.
    refill: Option<Refill>,
    /// The kinds to which `known` applies. `None`: all.
    heard: Option<Vec<&'static str>>,
    /// Number of recalls: announcements that jobs may have been taken from their holder.
    recalls: u64,
    cancels: Cancels,
    rate: Option<TokenBucket>,
    /// Recent duration of a synced turn.
    sync: Duration,
    /// Claims whose responses were lost.
    lost: Vec<LostClaim>,
    /// Pauses after errors of the store, and after permanently rejected claims.
    retry: Pause,
    claims: Pause,
    watch: Option<Box<dyn Watch>>,
    look_at: Option<Instant>,
    /// When to look for done jobs whose time is over.
    sweep_at: Instant,
    /// The shortest time for which this process keeps done jobs.
    keeps: Option<Duration>,
}

struct LostClaim {
    token: Token,
    lease: Duration,
    sent: Instant,
}

/// The items of a failed turn, and the error.
type Sent = std::result::Result<(), (Vec<Item>, StoreError)>;

impl<S: Store> Shared<S> {
    /// Starts the pump, unless it is running.
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), TakeError> {
        if self.control.is_forked() {
            return Err(TakeError::Forked);
        }
        let _starting = self.starting.lock();
        if !self.control.reserve_pump() {
            return Ok(());
        }
        // USER CODE: the clock. A panic is the caller's, and the next call starts the pump.
        let pump = guarded(|| Pump::new(Arc::clone(self))).unwrap_or_else(|payload| {
            self.control.no_pump();
            resume_unwind(payload)
        });
        let added = self.control.add_pump(pump);
        added.map_err(|error| {
            self.control.no_pump();
            TakeError::NoThread(Arc::new(error))
        })
    }
}

impl<S: Store> Pump<S> {
    fn new(shared: Arc<Shared<S>>) -> Self {
        let now = shared.control.clock.now();
        Self {
            horizon: Horizon::new(shared.config.horizon, shared.config.lease),
            rate: shared.config.rate.map(Rate::bucket),
            running: RunningJobs::new(now),
            keeps: shared.policy.keep_done,
            shared,
            tokens: Tokens::new(),
            offset: None,
            ahead: AheadJobs::default(),
            pending: Vec::new(),
            quiet_since: None,
            known: Known::nothing(),
            kinds: None,
            refill: None,
            heard: None,
            recalls: 0,
            cancels: Cancels::default(),
            sync: Duration::ZERO,
            lost: Vec::new(),
            retry: Pause::default(),
            claims: Pause::default(),
            watch: None,
            look_at: Some(now),
            sweep_at: now,
        }
    }

    fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Makes a plan and carries it out, except for an end or a sleep.
    fn act(&mut self, orders: Orders, now: Instant) -> Plan {
        let plan = self.view(orders, now).plan();
        match plan {
            Plan::Recover => self.recover(now),
            Plan::Look => {
                if let Err(error) = self.look(now) {
                    self.fail(now, error);
                }
            }
            Plan::AskForCancels => self.ask_for_cancels(now),
            Plan::Turn(turn) => self.turn(turn, now),
            Plan::End { .. } | Plan::Sleep { .. } => {}
        }
        plan
    }

    fn view(&mut self, mut orders: Orders, now: Instant) -> View {
        self.pending.append(&mut orders.commands);
        let late = orders.late.iter().map(|job| Command::release(&job.lease));
        self.pending.extend(late);
        if orders.announced == RECALL {
            self.recalled();
        }
        if self.running.is_empty() && self.ahead.len() == 0 {
            self.cancels.forget(); // Requests before this belong to jobs of other processes.
        }
        self.known.announced(orders.announced);
        let quiet = self.pending.iter().filter(|it| it.can_wait).count();
        self.kinds = orders.demand.kinds;
        self.refill = orders.demand.refill;
        self.quiet_since = (quiet > 0).then(|| self.quiet_since.unwrap_or(now));
        let store_now = self.store_now(now);
        let mut known = self.known;
        if self.has_unheard_kind() {
            known.may_be_more();
        }
        let rate = self.rate.as_ref();
        View {
            now,
            offset: self.offset,
            demand: orders.demand.jobs,
            closing: orders.closing,
            deadline: orders.deadline,
            spares_at: orders.look_at,
            allowed: rate.map_or(usize::MAX, |rate| rate.available(now) as usize),
            next_token: rate.and_then(|rate| now.checked_add(rate.wait(now))),
            retry_at: self.retry.until,
            claim_at: self.claims.until,
            look_at: self.look_at.map(|at| match self.watch {
                Some(_) => at,
                // Before the first claim: a push between the two would not be announced. Another thread has created
                // the pump, perhaps after this one has read its `now`.
                None => at.min(now),
            }),
            has_lost_claim: !self.lost.is_empty(),
            commands: self.pending.len(),
            quiet,
            quiet_since: self.quiet_since,
            sync: self.sync,
            is_running: !self.running.is_empty(),
            cancels_at: self.cancels.ask_at(now),
            next_renewal: self.running.next_renewal(),
            ahead: self.ahead.len(),
            due: self.ahead.count_due(store_now),
            next_due: self.ahead.next_after(store_now),
            known,
            horizon: self.horizon.current(),
            prefetch: self.config().prefetch,
        }
    }

    fn store_now(&self, now: Instant) -> StoreTime {
        self.offset.map_or(UNKNOWN, |offset| offset.store_time(now))
    }

    /// Polls for changes by other processes.
    fn look(&mut self, now: Instant) -> Result<()> {
        let Shared {
            store,
            name,
            control,
            ..
        } = &*self.shared;
        let watch = match &mut self.watch {
            Some(watch) => watch,
            none => {
                let control = Arc::downgrade(control);
                let notifier = Notifier::new(move |due| {
                    if let Some(control) = control.upgrade() {
                        control.announce(due);
                    }
                });
                none.insert(called(|| store.watch(name, notifier))?)
            }
        };
        let period = watch.every();
        if period.is_some() && called(|| watch.look())? {
            self.recalled();
            self.known.announced(UNKNOWN);
        }
        self.look_at = period.and_then(|period| now.checked_add(period));
        Ok(())
    }

    /// Any job may have been taken or cancelled.
    fn recalled(&mut self) {
        self.recalls += 1;
        self.cancels.may_be_new = true;
    }

    /// Asks which jobs are held by the claims whose responses were lost.
    fn recover(&mut self, now: Instant) {
        while let Some(lost) = self.lost.pop() {
            let Shared { store, name, .. } = &*self.shared;
            let LostClaim { token, lease, sent } = lost;
            match called(|| store.held_by(name, token, lease)) {
                Ok(leases) => self.enter(leases, sent),
                // Its leases expire by themselves. Retrying would block everything else.
                Err(error) if may_be_for_good(&error) => self.report(&error),
                Err(error) => {
                    self.lost.push(lost);
                    return self.fail(now, error);
                }
            }
        }
    }

    /// Carries out step 4. If the turn fails, its contents are kept.
    fn turn(&mut self, plan: TurnPlan, now: Instant) {
        if plan.renews {
            self.end_overdue(now);
        }
        let mut items = self.take_commands(plan.holds_quiet, now);
        if plan.renews {
            // All leases near their renewal are renewed together with the first.
            let near = now + self.config().lease / (2 * RENEW_AFTER);
            let counters = &self.shared.control.counters;
            let renewed = self.running.take_renewals(now, near, counters);
            items.extend(renewed.into_iter().map(Item::Renew));
        }
        let mut unasked = Vec::new();
        for job in self.ahead.take_held(plan.start, now) {
            if self.config().confirm || job.recalls != self.recalls {
                items.push(Item::Start(job));
                continue;
            }
            let Ahead { mut lease, .. } = job;
            // The store also counts it, when it receives the start.
            lease.attempts += 1;
            lease.started = true;
            let start = Wish::Start(self.config().lease);
            items.push(Item::Command(Command::new(Held::of(&lease), start, None)));
            unasked.push(lease);
        }
        let released = self.ahead.take_held(plan.release, now).into_iter();
        items.extend(released.map(|job| Item::Command(Command::release(&job.lease))));
        let rooms = self.rooms();
        let claim = plan.claim.map(|claim| self.claim(claim, rooms.as_deref()));
        if items.is_empty() && claim.is_none() {
            return; // The leases of all its jobs have expired.
        }
        // The announcement of a request may have been lost.
        self.cancels.may_be_new |= items.iter().any(Item::is_extension);
        self.enter(unasked, now);
        match self.send(items, claim) {
            Ok(()) => self.sweep(now),
            Err((items, error)) if may_be_for_good(&error) => {
                self.single_out(items, claim.is_some(), error);
            }
            Err((items, error)) => self.keep(items, error),
        }
    }

    /// Deletes some of the done jobs whose time is over, if it is time for it.
    fn sweep(&mut self, now: Instant) {
        let Shared { store, name, .. } = &*self.shared;
        let Some(span) = self.keeps.filter(|_| self.sweep_at <= now) else {
            return;
        };
        let deleted = called(|| store.delete_done(name, DONE_BATCH));
        let are_more = matches!(deleted, Ok(count) if count >= DONE_BATCH as usize);
        let pause = if are_more {
            SWEEP_AGAIN
        } else {
            span.clamp(SWEEP_AGAIN, LONGEST_SWEEP)
        };
        self.sweep_at = now + pause;
        if let Err(error) = deleted {
            self.report(&error);
        }
    }

    /// Takes the commands of this turn. The acknowledgement of a repeating job becomes its next time.
    fn take_commands(&mut self, holds_quiet: bool, now: Instant) -> Vec<Item> {
        let store_now = self.store_now(now);
        let pending = mem::take(&mut self.pending).into_iter();
        let (held, mut sent): (Vec<_>, Vec<_>) =
            pending.partition(|command| holds_quiet && command.can_wait);
        if held.is_empty() {
            self.quiet_since = None;
        }
        self.pending = held;
        for command in &mut sent {
            match &mut command.wish {
                Wish::Ack | Wish::Keep(_) => {
                    if let Some(repeat) = self.running.repeat(&command.held)
                        && let Ok(Some(next)) = repeat.next(store_now)
                    {
                        command.wish = Wish::Again(next.into());
                    } else if let Wish::Keep(wish) = &command.wish {
                        let span = wish.as_keep().span;
                        self.keeps = Some(self.keeps.map_or(span, |least| least.min(span)));
                    }
                }
                Wish::Retry(_, failed) | Wish::Bury(failed) => failed.write(self.offset),
                Wish::Unreadable(unread) => {
                    unread.decide(self.offset, self.shared.policy.unreadable);
                }
                _ => {}
            }
        }
        sent.into_iter().map(Item::Command).collect()
    }

    /// Returns the kinds that a claim lists. A kind whose room is taken by jobs ahead has room for one that is due earlier.
    fn rooms(&self) -> Option<Vec<KindRoom<'static>>> {
        let kinds = self.kinds.as_ref()?.iter().map(|&(kind, room)| {
            let rest = room.saturating_sub(self.ahead.of_kind(kind)).max(1);
            let room = count(rest.saturating_add(self.config().prefetch));
            KindRoom { kind, room }
        });
        Some(kinds.collect())
    }

    /// Whether a call wants jobs of a kind to which `known` does not apply. It does not matter while jobs ahead take all
    /// of its room: they fall due first, as far as is known.
    fn has_unheard_kind(&self) -> bool {
        let Some(heard) = &self.heard else {
            return false;
        };
        let is_unheard = |(kind, room): &(&'static str, usize)| {
            !heard.contains(kind) && self.ahead.of_kind(kind) < *room
        };
        let kinds = self.kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.iter().any(is_unheard))
    }

    /// `known` applies to the kinds that the claim has listed and not filled.
    fn hear(&mut self, rooms: Option<&[KindRoom<'_>]>, leases: &[Lease]) {
        let is_filled = |kind: &str, room: u32| {
            let found = leases.iter().filter(|it| it.kind.as_deref() == Some(kind));
            found.count() >= room as usize
        };
        self.heard = rooms.and_then(|rooms| {
            let kinds = self.kinds.as_ref()?.iter().zip(rooms);
            let heard = kinds.filter(|((kind, _), it)| !is_filled(kind, it.room));
            Some(heard.map(|((kind, _), _)| *kind).collect())
        });
    }

    fn claim<'a>(&mut self, plan: ClaimPlan, kinds: Option<&'a [KindRoom<'a>]>) -> Claim<'a> {
        let token = self.tokens.next();
        Claim {
            token: if self.config().confirm {
                token
            } else {
                token.without_confirmation()
            },
            kinds,
            max: count(plan.max),
            start: count(plan.start),
            ahead: count(plan.ahead),
            horizon: self.horizon.renew(),
            lease: self.config().lease,
            urgent_first: plan.urgent_first,
        }
    }

    /// Makes one round trip. Returns the items if there was no response.
    fn send(&mut self, mut items: Vec<Item>, claim: Option<Claim<'_>>) -> Sent {
        let Shared {
            store,
            name,
            control,
            config,
            ..
        } = &*self.shared;
        let settles: Vec<Settle<'_>> = items.iter().map(|item| item.settle(config.lease)).collect();
        let sent = control.clock.now();
        let answer = called(|| store.turn(name, &settles, claim));
        let answer = answer.and_then(|turn| {
            let is_whole = turn.verdicts.len() == settles.len();
            is_whole
                .then_some(turn)
                .ok_or(StoreError::lost_answer(ErrorKind::Corrupt))
        });
        drop(settles);
        let received = control.clock.now();
        if items.iter().any(Item::is_synced) {
            let took = (received - sent).min(LONGEST_SYNC);
            self.sync = match self.sync {
                Duration::ZERO => took,
                before => (before * 3 + took) / 4,
            };
        }
        match answer {
            Ok(turn) => {
                Counters::count(&control.counters.turns, 1);
                self.horizon.learn(received - sent);
                control.learn_round_trip(received - sent);
                if let (Some(claim), Some(claimed)) = (&claim, &turn.claimed) {
                    self.hear(claim.kinds, &claimed.leases);
                }
                self.succeed(items, turn, sent, received);
                Ok(())
            }
            Err(error) => {
                if error.carried_out() == CarriedOut::Perhaps {
                    self.lost
                        .extend(claim.map(|Claim { token, lease, .. }| LostClaim {
                            token,
                            lease,
                            sent,
                        }));
                    for item in &mut items {
                        if let Item::Command(command) = item {
                            command.perhaps_done = true;
                        }
                    }
                }
                Err((items, error))
            }
        }
    }

    fn fail(&mut self, now: Instant, error: StoreError) {
        self.retry.begin(now);
        self.report(&error);
        self.shared.control.failed(Some(error));
    }

    fn report(&self, error: &StoreError) {
        let Shared {
            control, config, ..
        } = &*self.shared;
        Counters::count(&control.counters.errors, 1);
        if let Some(hook) = &config.on_error {
            // USER CODE: the error hook. No lock is held. A panic ends here.
            if let Err(payload) = guarded(|| hook(error)) {
                discard(payload);
            }
        }
    }
}

impl<S: Store> Pass for Pump<S> {
    fn pass(&mut self, now: Instant) -> Step {
        let orders = self.shared.control.collect(now);
        let seen = orders.seen;
        match self.act(orders, now) {
            Plan::End { cut_short } => Step::End { cut_short },
            Plan::Sleep { threshold, until } => {
                if self.shared.control.falls_asleep(seen, threshold) {
                    Step::Sleep(until)
                } else {
                    Step::Again
                }
            }
            Plan::Recover | Plan::Look | Plan::AskForCancels | Plan::Turn(_) => Step::Again,
        }
    }

    fn end(&mut self, cut_short: bool) {
        self.shared.control.end(cut_short);
    }
}

fn count(jobs: usize) -> u32 {
    u32::try_from(jobs).unwrap_or(u32::MAX)
}

/// Makes a call of a store, which is user code. If it panics, it may have been carried out.
pub(crate) fn called<R>(call: impl FnOnce() -> Result<R>) -> Result<R> {
    // USER CODE: the store or its watch. No lock is held. A panic counts as a lost response.
    guarded(call).unwrap_or_else(|payload| {
        discard(payload);
        Err(StoreError::lost_answer(ErrorKind::Other))
    })
}

#[cfg(all(test, not(anthill_loom)))]
mod tests;

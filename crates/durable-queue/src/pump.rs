//! The pump: the one thread of a queue and process that talks to the store.
//!
//! It settles what guards hand in, renews leases, claims ahead for the calls that wait, and at the
//! tick starts what is due, all in one turn of the store each. `PROTOCOL.md` has the steps.
//!
//! # What always holds
//! 1. Nothing is claimed unless a call waits for it.
//! 2. A job is supplied only after the store has said that it is started; or, without confirmation, at its
//!    time, while its lease lives and nothing has been heard since the claim that could have taken it.
//! 3. Nothing is claimed that the rate does not let start at once; what has lost its turn is released when it
//!    falls due.
//! 4. Of what is due, urgent jobs go first: in claims, but for one of each [`FAIR`], and among what lies ahead.
//! 5. Nothing that was handed in is forgotten: it is sent until the store answers, or refuses it for good, or
//!    until the shutdown's deadline.

mod item;
mod refusals;

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dedup_queue::TokenBucket;
use delay_queue::DelayHeap;
use sync_shim::Clock;
use sync_shim::foreign::{discard, guarded};
use sync_shim::thread::{ThreadOptions, spawn_thread};

use self::item::Item;
use self::refusals::may_be_for_good;
use crate::command::{Command, Held, LostFlag, Ready, Wish};
use crate::config::{Config, Rate};
use crate::control::{Control, Orders, Seen};
use crate::error::{CarriedOut, ErrorKind, SettleError, StoreError, TakeError};
use crate::horizon::{HORIZON, Horizon};
use crate::job::Tokens;
use crate::notify::Notifier;
use crate::offset::Offset;
use crate::running::{RENEW_AFTER, Repeat, RunningJobs};
use crate::schedule::UnreadableSchedule;
use crate::shared::Shared;
use crate::stats::Counters;
use crate::store::{
    Claim, Claimed, LOCKED_AGAIN, Lease, RECALL, Result, Settle, Store, Turn, Verdict, Watch,
};
use crate::time::StoreTime;

/// The first pause after an error of the store; it doubles up to [`LONGEST_PAUSE`].
pub const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two tries of a store that fails: within a second after it is back, it is used.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// So often a claim is tried while calls wait, whatever is known: a net under lost announcements.
pub const SAFETY_LOOK: Duration = Duration::from_secs(60);
/// A commit that is synced in less makes no job late that is worth a turn of its own.
const NOTICED: Duration = Duration::from_micros(500);
/// A slow disk at one time says little about the next.
const LONGEST_SYNC: Duration = Duration::from_millis(20);
/// What is held back for jobs that fall due is so for this many times as long as its commit takes: so
/// most jobs of a steady stream are not late by it.
const HOLD: u32 = 4;
/// The longest pause between two looks at what another transaction has locked: by so much it may come late.
const LONGEST_LOCKED_PAUSE: Duration = Duration::from_millis(100);

/// One claim of so many that are answered goes by time alone, so that urgent jobs without end do not starve the
/// others.
const FAIR: u32 = 8;

/// Why a job is buried whose holders die with it.
const SPENT: &str = "no attempt was left, and the last one did not come to an end";

/// A time before all others: nothing is known.
const UNKNOWN: StoreTime = StoreTime::from_micros(i64::MIN);

struct Pump<S> {
    shared: Arc<Shared<S>>,
    tokens: Tokens,
    offset: Option<Offset>,
    /// Claimed and not started, by their times; those before all that were due and urgent when they came.
    ahead: DelayHeap<Ahead>,
    running: RunningJobs,
    /// To be sent, again perhaps.
    pending: Vec<Command>,
    horizon: Horizon,
    /// How often it was heard that jobs may have been taken from their holder.
    recalls: u64,
    rate: Option<TokenBucket>,
    /// How many jobs the rate lets start in this pass.
    allowed: usize,
    /// How long turns take that are synced, of late.
    sync: Duration,
    /// What can wait is held back until then.
    hold_until: Option<Instant>,
    /// Claims whose answer was lost.
    lost: Vec<LostClaim>,
    /// What the store has said last, and what was announced since.
    first: StoreTime,
    first_free: StoreTime,
    claimed_at: Option<Instant>,
    /// How many claims were answered since one that went by time alone.
    urgent_claims: u32,
    /// How many claims in a row have found nothing, though there was something.
    in_vain: u32,
    paused: bool,
    failures: u32,
    retry_at: Option<Instant>,
    /// How often in a row claims were refused for good, and until when none is made because of it.
    refused_claims: u32,
    claim_at: Option<Instant>,
    watch: Option<Box<dyn Watch>>,
    look_at: Option<Instant>,
}

struct Ahead {
    lease: Lease,
    /// When the lease ends.
    until: Instant,
    /// Those that were heard when it was claimed. After a further one the store is asked in any case.
    recalls: u64,
    /// How often its start was refused, though its time had come.
    refused: u32,
}

struct LostClaim {
    claim: Claim,
    sent: Instant,
}

/// The items of a turn that has failed, and why.
type Sent = std::result::Result<(), (Vec<Item>, StoreError)>;

/// What a pass of the pump does.
struct Plan {
    /// Handed out before the turn, whose items say so to the store.
    unasked: Vec<Lease>,
    items: Vec<Item>,
    claim: Option<Claim>,
}

impl<S: Store> Shared<S> {
    /// Starts the pump, if there is none.
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), TakeError> {
        if self.control.is_forked() {
            return Err(TakeError::Forked);
        }
        let mut pump = self.pump.lock();
        if !self.control.reserve_pump() {
            return Ok(());
        }
        let worker = Pump::new(Arc::clone(self));
        let options = ThreadOptions {
            name: Some("durable-queue"),
            ..ThreadOptions::default()
        };
        match spawn_thread(options, move || worker.run()) {
            Ok(handle) => {
                *pump = Some(handle);
                Ok(())
            }
            Err(error) => {
                self.control.no_pump();
                Err(TakeError::NoThread(Arc::new(error)))
            }
        }
    }
}

impl<S: Store> Pump<S> {
    fn new(shared: Arc<Shared<S>>) -> Self {
        Self {
            horizon: Horizon::new(shared.config.horizon, shared.config.lease),
            recalls: 0,
            rate: shared.config.rate.map(Rate::bucket),
            allowed: 0,
            running: RunningJobs::new(shared.control.clock.now()),
            shared,
            tokens: Tokens::new(),
            offset: None,
            ahead: DelayHeap::new(),
            pending: Vec::new(),
            sync: Duration::ZERO,
            hold_until: None,
            lost: Vec::new(),
            first: UNKNOWN,
            first_free: UNKNOWN,
            claimed_at: None,
            urgent_claims: 0,
            in_vain: 0,
            paused: false,
            failures: 0,
            retry_at: None,
            refused_claims: 0,
            claim_at: None,
            watch: None,
            look_at: None,
        }
    }

    /// The thread.
    fn run(mut self) {
        /// Whatever ends the thread, what waits for its end is woken.
        struct End {
            control: Arc<Control>,
            cut_short: bool,
        }
        impl Drop for End {
            fn drop(&mut self) {
                self.control.end(self.cut_short);
            }
        }
        sync_shim::thread::set_precise_timers();
        let control = Arc::clone(&self.shared.control);
        let mut end = End {
            control: Arc::clone(&control),
            cut_short: true,
        };
        loop {
            let now = control.clock.now();
            let mut orders = control.collect(now);
            self.pending.append(&mut orders.commands);
            let late = mem::take(&mut orders.late).into_iter();
            self.pending
                .extend(late.map(|job| Command::new(job.held(), Wish::Release, None)));
            if self.is_over(&orders, now) {
                end.cut_short = !self.is_idle();
                break;
            }
            let seen = Seen {
                demand: orders.demand,
                closing: orders.closing,
            };
            if let Some((threshold, when)) = self.pass(&orders, now) {
                control.sleep(seen, threshold, earliest([when, orders.look_at]));
            }
        }
    }

    fn is_idle(&self) -> bool {
        let holds_none = self.running.is_empty() && self.ahead.is_empty();
        holds_none && self.pending.is_empty() && self.lost.is_empty()
    }

    fn is_over(&self, orders: &Orders, now: Instant) -> bool {
        let is_late = || orders.deadline.is_some_and(|deadline| now >= deadline);
        orders.closing && (self.is_idle() || is_late())
    }

    fn config(&self) -> &Config {
        &self.shared.config
    }

    /// One look at everything, and one turn if there is anything to do. Else: what announcement
    /// would concern the pump, and when it wants to look again.
    fn pass(&mut self, orders: &Orders, now: Instant) -> Option<(StoreTime, Option<Instant>)> {
        if orders.announced == RECALL {
            self.recalls += 1;
        }
        if orders.announced != StoreTime::NEVER {
            self.paused = false; // It may be over: the store says.
            self.first = self.first.min(orders.announced);
            self.first_free = self.first_free.min(orders.announced);
        }
        let Orders {
            closing, deadline, ..
        } = *orders;
        let demand = if closing { 0 } else { orders.demand };
        self.allowed = self
            .rate
            .as_ref()
            .map_or(usize::MAX, |rate| rate.available(now) as usize);
        let wanted = demand.min(self.allowed);
        if let Some(retry_at) = self.retry_at.filter(|at| now < *at) {
            return Some((UNKNOWN, earliest([Some(retry_at), deadline])));
        }
        if (demand > 0 || closing) && !self.lost.is_empty() {
            if let Err(error) = self.recover() {
                self.fail(now, error);
            }
            return None; // Calls may have been served meanwhile.
        }
        self.claim_at = self.claim_at.filter(|at| now < *at);
        let looked = if wanted > 0 { self.look(now) } else { Ok(()) };
        if let Err(error) = looked {
            self.fail(now, error);
            return None;
        }
        let mut plan = self.plan(now, wanted, closing);
        if plan.items.is_empty() && plan.claim.is_none() {
            let (threshold, when) = self.rest(now, wanted);
            // With a token left, what the next claim is for is known, and needs no other.
            let is_spent = demand > 0 && wanted == 0;
            let token = is_spent.then(|| self.next_token(now)).flatten();
            let when = earliest([when, deadline, token, self.claim_at]);
            return Some((threshold, when));
        }
        let unasked = mem::take(&mut plan.unasked);
        self.enter(unasked, now);
        self.turn(plan);
        None
    }

    /// Looks for what other processes have done.
    fn look(&mut self, now: Instant) -> Result<()> {
        let Shared {
            store,
            name,
            control,
            ..
        } = &*self.shared;
        if self.watch.is_none() {
            let control = Arc::downgrade(control);
            let notifier = Notifier::new(move |due| {
                if let Some(control) = control.upgrade() {
                    control.announce(due);
                }
            });
            self.watch = Some(called(|| store.watch(name, notifier))?);
            self.first = UNKNOWN;
        }
        let watch = self.watch.as_mut().expect("it is there");
        let period = watch
            .every()
            .filter(|_| self.look_at.is_none_or(|at| now >= at));
        if let Some(period) = period {
            if called(|| watch.look())? {
                self.paused = false;
                self.recalls += 1; // It says no more than that.
                (self.first, self.first_free) = (UNKNOWN, UNKNOWN);
            }
            self.look_at = now.checked_add(period);
        }
        if self.claimed_at.is_some_and(|at| now >= at + SAFETY_LOOK) {
            self.paused = false;
            self.first = UNKNOWN;
        }
        Ok(())
    }

    /// Asks what the claims hold whose answers were lost.
    fn recover(&mut self) -> Result<()> {
        while let Some(LostClaim { claim, sent }) = self.lost.last() {
            let (claim, sent) = (*claim, *sent);
            let Shared { store, name, .. } = &*self.shared;
            let leases = called(|| store.held_by(name, claim.token, claim.lease));
            let mut leases = match leases {
                // Its leases end by themselves. All else would wait for it for ever.
                Err(error) if may_be_for_good(&error) => {
                    self.lost.pop();
                    self.report(&error);
                    continue;
                }
                leases => leases?,
            };
            self.lost.pop();
            let is_known = |lease: &Lease| {
                let held = Held::of(lease);
                let mut ahead = self.ahead.iter();
                self.running.contains(&held) || ahead.any(|it| Held::of(&it.value.lease) == held)
            };
            leases.retain(|lease| !is_known(lease));
            self.enter(leases, sent);
        }
        Ok(())
    }

    /// What the store's clock shows at least. Before the first answer nothing is due.
    fn store_now(&self, now: Instant) -> StoreTime {
        self.offset.map_or(UNKNOWN, |offset| offset.store_time(now))
    }

    /// Decides; nothing is lost if the turn then fails.
    fn plan(&mut self, now: Instant, wanted: usize, closing: bool) -> Plan {
        let prefetch = self.prefetch(wanted);
        let store_now = self.store_now(now);
        let commands = self.take_sendable(now, store_now, wanted, closing);
        let repeated = |mut command: Command| {
            if let Wish::Ack = command.wish
                && let Some(repeat) = self.running.repeat(&command.held)
                && let Ok(Some(next)) = repeat.next(store_now)
            {
                command.wish = Wish::Again(next.into());
            }
            Item::Command(command)
        };
        let mut items: Vec<Item> = commands.into_iter().map(repeated).collect();

        // All that are near their renewal go with the first that needs it.
        if self.running.next_renewal().is_some_and(|at| at <= now) {
            let near = now + self.config().lease / (2 * RENEW_AFTER);
            let counters = &self.shared.control.counters;
            let renewed = self.running.take_renewals(now, near, counters);
            items.extend(renewed.into_iter().map(Item::Renew));
        }

        let tick = key(store_now);
        let mut starts = 0;
        let mut unasked = Vec::new();
        let gives_all_back = closing || self.paused;
        loop {
            let due = self.ahead.count_ready(tick, prefetch.saturating_add(1));
            let entry = if gives_all_back {
                self.ahead.pop()
            } else if starts < wanted || due > prefetch {
                self.ahead.pop_ready(tick)
            } else {
                None
            };
            let Some(entry) = entry else { break };
            let ahead = entry.value;
            if ahead.until <= now {
                continue; // The lease has ended: the job is free for others.
            }
            if !gives_all_back && starts < wanted {
                starts += 1;
                if self.config().confirm || ahead.recalls != self.recalls {
                    items.push(Item::Start(ahead));
                } else {
                    let Ahead { mut lease, .. } = ahead;
                    // The store counts it, too, when the start reaches it.
                    lease.attempts += 1;
                    lease.started = true;
                    let start = Wish::Start(self.config().lease);
                    items.push(Item::Command(Command::new(Held::of(&lease), start, None)));
                    unasked.push(lease);
                }
            } else {
                // Due, and no call wants it: another process may.
                let held = Held::of(&ahead.lease);
                items.push(Item::Command(Command::new(held, Wish::Release, None)));
            }
        }
        self.allowed -= starts;
        let claim = if closing {
            None
        } else {
            self.claim(store_now, wanted - starts)
        };
        Plan {
            unasked,
            items,
            claim,
        }
    }

    /// The commands of this turn. An acknowledgement that nothing waits for is held back while a job
    /// is about to fall due that a call waits for: until its commit is synced, nothing is started.
    fn take_sendable(
        &mut self,
        now: Instant,
        store_now: StoreTime,
        wanted: usize,
        closing: bool,
    ) -> Vec<Command> {
        let soon = key(store_now.after(self.sync));
        let is_awaited = wanted > 0 && !closing && self.ahead.count_ready(soon, 1) > 0;
        if is_awaited && self.sync >= NOTICED && self.pending.iter().any(|it| it.can_wait) {
            let until = self.hold_until.unwrap_or_else(|| now + self.sync * HOLD);
            self.hold_until = Some(until);
            if now < until {
                let pending = mem::take(&mut self.pending).into_iter();
                let (held, sent) = pending.partition(|command| command.can_wait);
                self.pending = held;
                return sent;
            }
        }
        self.hold_until = None;
        mem::take(&mut self.pending)
    }

    /// How many jobs may lie here beyond those that are wanted: none that could not start.
    fn prefetch(&self, wanted: usize) -> usize {
        self.config().prefetch.min(self.allowed - wanted)
    }

    /// How many jobs may be claimed ahead.
    fn room(&self, wanted: usize) -> usize {
        (wanted + self.prefetch(wanted)).saturating_sub(self.ahead.len())
    }

    /// When the rate lets a job start that it does not let start now.
    fn next_token(&self, now: Instant) -> Option<Instant> {
        now.checked_add(self.rate.as_ref()?.wait(now))
    }

    /// When a claim would find something, as far as is known.
    fn next_claim(&self, wanted: usize) -> StoreTime {
        if self.paused || self.claim_at.is_some() {
            return StoreTime::NEVER;
        }
        match self.room(wanted) {
            0 => self.first,
            _ => self
                .first
                .min(self.first_free.before(self.horizon.current())),
        }
    }

    fn claim(&mut self, store_now: StoreTime, wanted: usize) -> Option<Claim> {
        let next = self.next_claim(wanted);
        if wanted == 0 || next > store_now || next == StoreTime::NEVER {
            return None;
        }
        let count = |jobs: usize| u32::try_from(jobs).unwrap_or(u32::MAX);
        let horizon = self.horizon.renew();
        let token = self.tokens.next();
        Some(Claim {
            token: if self.config().confirm {
                token
            } else {
                token.without_confirmation()
            },
            max: count(wanted.saturating_add(self.prefetch(wanted))),
            start: count(wanted),
            ahead: count(self.room(wanted)),
            horizon,
            lease: self.config().lease,
            urgent_first: self.urgent_claims < FAIR - 1,
        })
    }

    /// There is nothing to do until then.
    fn rest(&mut self, now: Instant, wanted: usize) -> (StoreTime, Option<Instant>) {
        let renewal = self.running.next_renewal();
        let Some(offset) = self.offset else {
            return (UNKNOWN, renewal);
        };
        let next = self.ahead.next_after(key(offset.store_time(now)));
        let next = next.and_then(|due| offset.local(time(due)));
        if wanted == 0 {
            return (UNKNOWN, earliest([renewal, next]));
        }
        let claim = self.next_claim(wanted);
        let threshold = match self.room(wanted) {
            0 => claim,
            _ => claim.after(self.horizon.current()),
        };
        let held = self.hold_until;
        let claimed_at = self.claimed_at.filter(|_| self.claim_at.is_none());
        let safety = claimed_at.map(|at| at + SAFETY_LOOK);
        let look = self
            .look_at
            .filter(|_| self.watch.as_ref().is_some_and(|it| it.every().is_some()));
        (
            threshold,
            earliest([renewal, next, offset.local(claim), safety, look, held]),
        )
    }

    /// One round trip; more if what the plan asks for is refused for good.
    fn turn(&mut self, plan: Plan) {
        let Plan { items, claim, .. } = plan;
        match self.send(items, claim) {
            Ok(()) => {}
            Err((items, error)) if may_be_for_good(&error) => {
                self.single_out(items, claim.is_some(), error);
            }
            Err((items, error)) => self.keep(items, error),
        }
    }

    /// One round trip. What it was to do comes back if there was no answer.
    fn send(&mut self, mut items: Vec<Item>, claim: Option<Claim>) -> Sent {
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
                self.succeed(items, turn, sent, received);
                Ok(())
            }
            Err(error) => {
                if error.carried_out() == CarriedOut::Perhaps {
                    self.lost
                        .extend(claim.map(|claim| LostClaim { claim, sent }));
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
        self.retry_at = now.checked_add(pause_after(self.failures));
        self.failures += 1;
        self.report(&error);
        self.shared.control.failed(Some(error));
    }

    fn report(&self, error: &StoreError) {
        let Shared {
            control, config, ..
        } = &*self.shared;
        Counters::count(&control.counters.errors, 1);
        if let Some(hook) = &config.on_error {
            // User code: no lock is held, and its panic ends here.
            if let Err(payload) = guarded(|| hook(error)) {
                discard(payload);
            }
        }
    }

    fn succeed(&mut self, items: Vec<Item>, turn: Turn, sent: Instant, received: Instant) {
        let Turn {
            now,
            paused,
            verdicts,
            claimed,
        } = turn;
        let had_failed = mem::take(&mut self.failures) > 0;
        let had_refused = claimed.is_some() && mem::take(&mut self.refused_claims) > 0;
        if had_failed {
            self.retry_at = None;
        }
        if (had_failed || had_refused) && self.refused_claims == 0 {
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
                    Verdict::Stale => {} // Cancelled, moved, or merged.
                },
            }
        }
        if set_back > HORIZON {
            self.give_back_ahead();
        }
        if let Some(Claimed {
            leases,
            first,
            first_free,
        }) = claimed
        {
            (self.first, self.first_free) = (first, first_free);
            let is_locked = leases.is_empty() && now <= first && first <= now.after(LOCKED_AGAIN);
            self.in_vain = if is_locked { self.in_vain + 1 } else { 0 };
            if is_locked {
                self.first = first.max(now.after(locked_pause(self.in_vain)));
                // What is locked is free, as far as leases go.
                let ahead = self.first.after(self.horizon.current());
                self.first_free = first_free.max(ahead);
            }
            self.claimed_at = Some(received);
            self.urgent_claims = (self.urgent_claims + 1) % FAIR;
            started.extend(leases);
        }
        self.paused = paused;
        self.enter(started, sent);
    }

    /// Leases that a call, sent at `sent`, has made: what is started is supplied.
    fn enter(&mut self, leases: Vec<Lease>, sent: Instant) {
        let Config {
            lease: span,
            heartbeat,
            attempt_timeout,
            ..
        } = *self.config();
        let mut supplied = Vec::new();
        for lease in leases {
            let held = Held::of(&lease);
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
            let is_spent = lease.attempts > self.shared.policy.max_attempts;
            let refused = match next {
                Some(Err(UnreadableSchedule)) => Some(Wish::Reject(UnreadableSchedule.to_string())),
                Some(Ok(Some(next))) if is_spent => Some(Wish::Again(next.into())),
                // Its holders have died with it, one after the other.
                _ if is_spent => Some(Wish::Reject(SPENT.to_owned())),
                _ => None,
            };
            if let Some(wish) = refused {
                self.pending.push(Command::new(held, wish, None));
                continue;
            }
            let lost = LostFlag::new();
            let timeout_at = attempt_timeout.and_then(|timeout| sent.checked_add(timeout));
            self.running
                .insert(held, lost.clone(), repeat, sent + span, timeout_at);
            if heartbeat {
                self.running.renew_after(held, sent, span);
            }
            supplied.push(Ready { lease, lost });
        }
        let control = &self.shared.control;
        Counters::count(&control.counters.taken, supplied.len());
        let count = supplied.len();
        let left_over = control.serve(supplied);
        if let Some(rate) = &self.rate {
            let given = u32::try_from(count - left_over.len()).unwrap_or(u32::MAX);
            rate.take(given, control.clock.now());
        }
        for job in left_over {
            self.pending
                .push(Command::new(job.held(), Wish::Release, None));
        }
    }

    /// The store's clock was set back by so much that what lies ahead may fall due after its lease. Who
    /// claims it next knows by when.
    fn give_back_ahead(&mut self) {
        while let Some(entry) = self.ahead.pop() {
            let held = Held::of(&entry.value.lease);
            self.pending.push(Command::new(held, Wish::Release, None));
        }
    }

    fn put_ahead(&mut self, ahead: Ahead) {
        let Lease { due, urgent, .. } = ahead.lease;
        // Before those that are due as well. One that is not due, as the store says, waits for its time.
        let now = || self.store_now(self.shared.control.clock.now());
        let place = match ahead.refused {
            0 if urgent && due <= now() => UNKNOWN,
            0 => due,
            refused => now().after(locked_pause(refused)),
        };
        self.ahead.push(ahead, key(place));
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

    fn is_lost(&mut self, held: Held) {
        if let Some(lost) = self.running.remove(&held) {
            lost.set();
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
                // It was taken from here before, or the queue was paused: what is still held comes again.
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
            // An extension, carried out or not, gives no lease away: another party has it.
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

/// The pause after so many failures in a row and one more.
fn pause_after(failures: u32) -> Duration {
    doubled(FIRST_PAUSE, failures, LONGEST_PAUSE)
}

/// A call of a store, which is user code. One that panics may have been carried out.
pub(crate) fn called<R>(call: impl FnOnce() -> Result<R>) -> Result<R> {
    guarded(call).unwrap_or_else(|payload| {
        discard(payload);
        Err(StoreError::lost_answer(ErrorKind::Other))
    })
}

/// Before the store is asked again about what another transaction has locked, the `times`th time in a row.
fn locked_pause(times: u32) -> Duration {
    doubled(LOCKED_AGAIN, times.saturating_sub(1), LONGEST_LOCKED_PAUSE)
}

/// Twice as long each time, up to `longest`.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    times.into_iter().flatten().min()
}

/// A time as the heap orders it: never stays never.
fn key(time: StoreTime) -> u64 {
    time.as_micros().cast_unsigned() ^ (1 << 63)
}

fn time(key: u64) -> StoreTime {
    StoreTime::from_micros((key ^ (1 << 63)).cast_signed())
}

#[cfg(all(test, not(anthill_loom)))]
mod tests;

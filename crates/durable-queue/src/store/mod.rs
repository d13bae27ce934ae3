//! Stores: they keep jobs, share them between processes, and fence off holders that have lost their lease.
//!
//! The queue, not the store, waits for due times. The trait is blocking on purpose: one or two threads per store and
//! process, which run the pumps of its queues, make the calls of the hot path, and threads and futures wait in the
//! process. A store has to pass the conformance suite of `durable_queue_testing`, which states this contract as tests.
//!
//! # States of a job
//! ```text
//!  enqueue                due                 claim               Start               Ack, Keep
//!  -------> scheduled ----------> available --------> claimed ----------> running ----------------> done
//!               ^                  ^ |   ^               |                | |   \
//!               |           called | |   |               |                | |    `--- Bury -------> dead
//!               |                  | |   +---------------+----------------+ |
//!               |                  | |         Release, or the lease ends   |
//!               |     claim, if    | v                                      |
//!               |     it is full: waiting                                   |
//!               +---------------------- Retry, Again -----------------------+
//! ```
//! A scheduled job that has failed is *retryable*. A `cancel` ends a job in any state but *running*, and a `reset` makes it scheduled.
//! `redrive` makes a dead letter available. A claim may hold a job before its due time, and may start it at once; `Extend` makes
//! the lease of a running job longer.
//!
//! # Requirements
//! By the arrow that they concern:
//!
//! **Each call**
//!
//! 1. A call takes effect completely or not at all, also if the process dies within it. After an error with
//!    [`CarriedOut::No`](crate::CarriedOut::No) it has had no effect.
//! 2. No call reads more rows than it returns or changes, plus the leases within its horizon, plus one for each
//!    kind that a claim lists, plus a constant. Jobs that are delayed, wait, or are of other kinds cost nothing else.
//!
//! **`enqueue`: to *scheduled* or *available***
//!
//! 3. After a successful [`enqueue`](Store::enqueue), a job exists until it is done, cancelled or merged. A dead
//!    letter exists until it is redriven or deleted.
//! 4. Each key has at most one *open* job, into which pushes of the key are merged. A started job is not open. When
//!    its holder returns it, it is open again, unless another job of its key is.
//! 5. If no job is open, a push with [`Merge::KeepUntilDone`](crate::Merge::KeepUntilDone) is kept by a started job
//!    of its key, and one with [`Merge::KeepDone`](crate::Merge::KeepDone) also by a done one.
//! 6. A merge replaces kind, options and group together with the payload, also by none; a started job keeps its
//!    group. It leaves the failures. A merge with an urgent push makes the job urgent.
//! 7. A push with a schedule changes the started job of its key that has one: payload, schedule, and a due time no
//!    later than requested, for a held job after its run. A merge that keeps changes nothing.
//! 8. A push with a schedule whose point in time has passed changes no job ([`NewJob::policy`]): that run may be
//!    done already.
//!
//! **`turn`: from *available* to *claimed* and *running***
//!
//! 9. By the store's clock, a job is claimed no earlier than the horizon before its due time, is started no earlier
//!    than its due time, and is taken over from a holder no earlier than the end of the lease.
//! 10. At any moment at most one token is valid for a job. Only a claim makes a token valid. A settle with another
//!     token changes nothing and returns [`Verdict::Stale`].
//! 11. A holder with an [unconfirmed token](crate::Token::is_unconfirmed) may hand out a job at its due time and send
//!     the start later. So cancels and resets treat such a job as running from its due time until its lease ends.
//! 12. An urgent job stays urgent until it is done or cancelled: through merges, retries, repetitions, releases,
//!     burials and redrives.
//!
//! **`turn`: from *available* to *waiting*, and back**
//!
//! 13. [Limits](Store::limit) hold for all processes, in the transaction of each claim. With a maximum for a kind,
//!     the number of its jobs that have a token is not raised above it, started or not.
//! 14. A claim that needs the place of an expired lease fences off its holder, those first whose leases ended
//!     first.
//! 15. A claim takes a token of a rate for the time at which the job may start: now, or its due time. Its
//!     [`first`](Claimed::first) is not later than the next token of a rate whose kind has waiting jobs.
//! 16. With a rule of [groups](crate::Groups), a claim takes a job of a group only with one of the group's seats. It
//!     gives a free one to the job that it meets; in an ordered group, to the first due job.
//! 17. A job without a place or a seat *waits*: it can be claimed at [`StoreTime::NEVER`], and keeps its due time.
//!     One claim lets at most [`PARK_LIMIT`] jobs wait.
//! 18. As many waiting jobs are *called* as there is room for: urgent ones first, then by due time, then by id.
//!     They can be claimed from their due time on; in a fair group from now on.
//! 19. Jobs of a kind are called after the settles of a turn that end a lease, at the start and the end of each
//!     claim, and when a cancel, reset, merge or change of a limit makes room.
//! 20. A job leaves its seat when its lease ends by a settle, or its kind stops it; in an ordered group only when
//!     done, dead, cancelled or repeated; in a fair group when claimed. Merges and resets end any seat.
//! 21. The next job of the group is called in the commit of the settle, before the turn's claim; after a cancel,
//!     reset or merge, which are announced, by the next claim.
//! 22. In a fair group, expired leases need no seat, and if no job waits, the first due one that no claim has met
//!     is called. A claim goes on with jobs that it calls.
//! 23. A change of the rule frees the jobs that wait for seats, at most [`PARK_LIMIT`] in each claim, whose
//!     [`first`](Claimed::first) is not in the future while there may be more. Held jobs get seats, except in fair groups.
//!
//! **`turn`: the end of a run**
//!
//! 24. A started job ends only by an acknowledgement, a burial or a cancel.
//! 25. A retry or a burial replaces the failures if it has some; a repetition clears them. Dead letters keep kind,
//!     options, group and failures, also when they are redriven. Stores do not interpret these texts.
//! 26. An [`Act::Keep`] ends a job as an acknowledgement does, and adds a [`DoneJob`] in the same commit. It exists
//!     until its time is over by the store's clock. Turns without it neither read nor write done jobs.
//!
//! **`cancel` and `reset`**
//!
//! 27. A cancel or a reset before the due time, or a merge at any time, takes the job from its holder. If that does
//!     not confirm starts, the notifiers are called with [`RECALL`], so that the holder asks first.
//! 28. A cancel of a job that a handler has, or may have, *marks* the job; by a key, all such jobs of the key. A
//!     marked job is not open, and has no schedule. The notifiers are called with [`RECALL`].
//! 29. If the holder returns a marked job, it is deleted as by an acknowledgement; a burial makes it a dead letter.
//!     A claim after its lease takes it as any other, and the lease says that it is marked.
//! 30. The mark remains until the job ends or is reset. Redriven jobs are not marked.

pub(crate) mod failures;
pub(crate) mod job;
pub(crate) mod limit;
pub(crate) mod notify;
pub(crate) mod offset;
pub(crate) mod payload;
pub(crate) mod schedule;
pub(crate) mod time;

use std::fmt;
use std::time::Duration;

pub use crate::error::Result;
use crate::error::{ErrorKind, StoreError};
use crate::store::failures::Failure;
use crate::store::job::{Cancelled, JobId, NewJob, Put, Reset, Token, Which};
use crate::store::limit::Limit;
use crate::store::notify::{ANYTHING, Notifier};
use crate::store::time::{StoreTime, When};
use crate::threads::Threads;

/// Keeps the jobs of many named queues. The [module](self) lists the requirements.
pub trait Store: Send + Sync + 'static {
    /// Inserts all jobs, or none, and returns the outcome of each, in order.
    ///
    /// Afterwards the store calls the notifiers of the queue's [`watch`](Store::watch)es with the earliest
    /// due time that it has set.
    ///
    /// # Errors
    /// The store's error.
    fn enqueue(&self, queue: &str, jobs: &[NewJob<'_>]) -> Result<Vec<Put>>;

    /// Settles jobs in order, then claims: in one round trip and one commit. Afterwards the notifiers are
    /// called if a job was retried or released.
    ///
    /// Acknowledgements, repetitions, retries and burials are durable when this returns. Claims, starts and
    /// releases need not be: a crash that undoes them at worst hands out a job again.
    ///
    /// # Errors
    /// The store's error.
    fn turn(&self, queue: &str, settle: &[Settle<'_>], claim: Option<Claim<'_>>) -> Result<Turn>;

    /// Removes a job, unless a handler has it; a running job is marked and loses its schedule instead. By a
    /// key, all running jobs of the key are marked, and all its jobs lose their schedules. A job that is
    /// claimed but not started is taken from its holder, which is recalled if it does not confirm starts.
    /// Holders learn of marks by [`cancel_requests`](Self::cancel_requests); the notifiers are called with
    /// [`RECALL`] after a job was marked.
    ///
    /// # Errors
    /// The store's error.
    fn cancel(&self, queue: &str, which: Which<'_>) -> Result<Cancelled>;

    /// Returns the marked jobs that are held, by any process, ordered by id: at most
    /// [`CANCEL_REQUEST_LIMIT`]. Jobs whose leases have expired are held until another claim takes them. If
    /// no job is marked, this costs one lookup in an empty index.
    ///
    /// # Errors
    /// The store's error.
    fn cancel_requests(&self, queue: &str) -> Result<Vec<(JobId, Token)>>;

    /// Changes a job's due time, unless a handler has it; then calls the notifiers. A job that is claimed but
    /// not started is taken from its holder. The mark of a job whose lease has expired is removed.
    ///
    /// # Errors
    /// The store's error.
    fn reset(&self, queue: &str, which: Which<'_>, when: When) -> Result<Reset>;

    /// Returns the jobs that the claim with this token, made for `lease`, still holds. Called after the
    /// response to a claim was lost.
    ///
    /// # Errors
    /// The store's error.
    fn held_by(&self, queue: &str, token: Token, lease: Duration) -> Result<Vec<Lease>>;

    /// Registers `notifier`, which is called whenever a job of the queue may have become due earlier, by any
    /// process, until the watch is dropped.
    ///
    /// # Errors
    /// The store's error.
    fn watch(&self, queue: &str, notifier: Notifier) -> Result<Box<dyn Watch>>;

    /// Pauses or resumes claims and starts of a queue, for all processes. Running jobs continue.
    ///
    /// # Errors
    /// The store's error.
    fn pause(&self, queue: &str, paused: bool) -> Result<()>;

    /// Sets a limit for all processes, or removes it; then calls the notifiers. A limit replaces the one of the
    /// same sort and kind. Held jobs count, and are not taken from their holders. The default supports none.
    ///
    /// # Errors
    /// The store's error.
    fn limit(&self, _queue: &str, _limit: &Limit, _is_set: bool) -> Result<()> {
        Err(StoreError::new(ErrorKind::Unsupported))
    }

    /// Returns the limits of a queue: the rule of groups first, then by kind, and the rate of a kind last.
    ///
    /// # Errors
    /// The store's error.
    fn limits(&self, _queue: &str) -> Result<Vec<Limit>> {
        Ok(Vec::new())
    }

    /// Returns the queue's figures without a scan: counts end at [`COUNT_LIMIT`].
    ///
    /// # Errors
    /// The store's error.
    fn stats(&self, queue: &str) -> Result<StoreStats>;

    /// Returns up to `most` unfinished jobs after the position `after`, ordered by the time from which they
    /// can be claimed, then by id: see [`ListedJob::position`]. A job that moves between two calls may be in
    /// neither result, or in both.
    ///
    /// # Errors
    /// The store's error.
    fn list(
        &self,
        queue: &str,
        after: Option<(StoreTime, JobId)>,
        most: u32,
    ) -> Result<Vec<ListedJob>>;

    /// Returns up to `most` dead letters with ids greater than `after`, ordered by id.
    ///
    /// # Errors
    /// The store's error.
    fn dead(&self, queue: &str, after: Option<JobId>, most: u32) -> Result<Vec<DeadJob>>;

    /// Makes dead letters jobs again, under their ids, due at once and without previous attempts; then calls
    /// the notifiers. Returns their number, without those that do not exist, or whose key has an open job, and
    /// without repeating ones whose key has a repeating job.
    ///
    /// # Errors
    /// The store's error.
    fn redrive(&self, queue: &str, ids: &[JobId]) -> Result<usize>;

    /// Deletes dead letters permanently. Returns the number of dead letters that existed.
    ///
    /// # Errors
    /// The store's error.
    fn delete_dead(&self, queue: &str, ids: &[JobId]) -> Result<usize>;

    /// Returns the threads for the queues of this store and of its clones. With `None`, the default, each queue has
    /// threads of its own. A store that wraps another one should return those of the inner store.
    fn threads(&self) -> Option<Threads> {
        None
    }

    /// Returns the state of a job, read at one moment.
    ///
    /// # Errors
    /// The store's error.
    fn fate(&self, queue: &str, id: JobId) -> Result<Fate>;

    /// Deletes done jobs whose time is over, the earliest first: at most `most`. Returns their number.
    ///
    /// # Errors
    /// The store's error.
    fn delete_done(&self, queue: &str, most: u32) -> Result<usize>;
}

/// Subscription to a queue's changes. Polls for changes by other processes if the store cannot announce them.
pub trait Watch: Send {
    /// Returns how often [`look`](Watch::look) has to be called, or `None` if the notifier is called without
    /// it.
    fn every(&self) -> Option<Duration>;

    /// Returns whether any job may have become due earlier since the last call.
    ///
    /// # Errors
    /// The store's error.
    fn look(&mut self) -> Result<bool>;
}

/// A change of a held job.
#[derive(Clone, Copy, Debug)]
pub struct Settle<'a> {
    /// The job's id.
    pub id: JobId,
    /// The token of the claim that holds it.
    pub token: Token,
    /// The change.
    pub act: Act<'a>,
}

/// Kind of a [`Settle`]. `Release` applies to claimed and started jobs, `Start` to claimed ones, all others to started
/// ones.
#[derive(Clone, Copy)]
pub enum Act<'a> {
    /// A handler starts the job, and the lease is extended. Counts as an attempt, once for each claim. Later
    /// cancels fail.
    Start {
        /// Duration from now.
        lease: Duration,
    },
    /// Extends the lease.
    Extend {
        /// Duration from now.
        lease: Duration,
    },
    /// Done: the job is deleted.
    Ack,
    /// Done: the job becomes a [done job](DoneJob).
    Keep(Keep<'a>),
    /// This run is done: the repeating job is pending again, under its id, as if it had never been claimed or
    /// failed. A job without a schedule is deleted, as by `Ack`.
    Again {
        /// Its next time, unless a push during the run has set an earlier one.
        when: When,
    },
    /// The attempt failed: the job is pending again.
    Retry {
        /// Its new due time.
        when: When,
        /// Replaces the job's [history](Lease::failures), unless it is `None`.
        failures: Option<&'a str>,
        /// Whether a handler had the job. Otherwise the attempt that the claim has started is not counted.
        counts: bool,
    },
    /// Given up: the job becomes a dead letter.
    Bury {
        /// The reason, as text.
        error: &'a str,
        /// Replaces the job's [history](Lease::failures), unless it is `None`.
        failures: Option<&'a str>,
        /// Whether a handler had the job. Otherwise the attempt that the claim has started is not counted.
        counts: bool,
    },
    /// Given back as if it had never been claimed: its due time is restored, and the attempt is not counted.
    Release,
}

impl<'a> Act<'a> {
    /// Returns a [`Retry`](Self::Retry) that leaves the job's history.
    pub const fn retry(when: When) -> Self {
        Self::Retry {
            when,
            failures: None,
            counts: true,
        }
    }

    /// Returns a [`Bury`](Self::Bury) that leaves the job's history.
    pub const fn bury(error: &'a str) -> Self {
        Self::Bury {
            error,
            failures: None,
            counts: true,
        }
    }

    /// Returns whether the change must be durable when the turn returns. For stores.
    pub fn is_durable(&self) -> bool {
        !matches!(
            self,
            Self::Start { .. } | Self::Extend { .. } | Self::Release
        )
    }

    /// Returns whether the change ends the lease, so that its place under a limit of its kind is free. For
    /// stores.
    pub fn ends_lease(&self) -> bool {
        !matches!(self, Self::Start { .. } | Self::Extend { .. })
    }

    /// Returns the time at which the job may be due after the change, or a past time if it is the job's own
    /// due time. For stores, which announce it.
    pub fn announced(&self, now: StoreTime) -> StoreTime {
        match self {
            Self::Retry { when, .. } | Self::Again { when } => when.resolve(now),
            Self::Release => StoreTime::from_micros(i64::MIN),
            _ => StoreTime::NEVER,
        }
    }
}

/// Returns the earliest time at which a job may be due after a turn with these settles, or
/// [`StoreTime::NEVER`]. `calls` states that a job which waited can now be claimed. For stores, which announce it.
pub fn announced(settles: &[Settle<'_>], now: StoreTime, calls: bool) -> StoreTime {
    let by_acts = settles.iter().map(|settle| settle.act.announced(now));
    let earliest = by_acts.chain(calls.then_some(ANYTHING)).min();
    earliest.unwrap_or(StoreTime::NEVER)
}

impl fmt::Debug for Act<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { lease } => write!(f, "Start({lease:?})"),
            Self::Extend { lease } => write!(f, "Extend({lease:?})"),
            Self::Ack => f.write_str("Ack"),
            // Results may be confidential.
            Self::Keep(Keep { span, took, .. }) => write!(f, "Keep({span:?}, {took:?})"),
            Self::Again { when } => write!(f, "Again({when:?})"),
            // Errors and failures may contain confidential text.
            Self::Retry { when, .. } => write!(f, "Retry({when:?})"),
            Self::Bury { .. } => f.write_str("Bury(..)"),
            Self::Release => f.write_str("Release"),
        }
    }
}

/// Contents of an [`Act::Keep`].
#[derive(Clone, Copy)]
pub struct Keep<'a> {
    /// How long the done job is kept.
    pub span: Duration,
    /// How long the attempt took.
    pub took: Duration,
    /// The result, at most [`LONGEST_RESULT`](crate::LONGEST_RESULT) bytes.
    pub result: Option<&'a [u8]>,
}

/// Omits the result.
impl fmt::Debug for Keep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keep")
            .field("span", &self.span)
            .field("took", &self.took)
            .finish_non_exhaustive()
    }
}

/// Outcome of a [`Settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was carried out.
    Done,
    /// The token is not valid for the job, or the job does not exist. Nothing was changed.
    Stale,
    /// A start failed because the job is not yet due by the store's clock, its queue is paused, or another
    /// transaction has locked the job. The holder keeps the job.
    NotDue,
}

/// A request to claim jobs, ordered by time, then by id. With `urgent_first`, due urgent jobs come before all
/// others.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Fencing token of all jobs of this claim; never used before.
    pub token: Token,
    /// The kinds of job that the caller can run. `None`: jobs of all kinds and without one. Otherwise jobs of other kinds
    /// and without one are not claimed, and a kind is listed once.
    pub kinds: Option<&'a [KindRoom<'a>]>,
    /// Maximum number of jobs to claim.
    pub max: u32,
    /// Maximum number of due jobs to claim and start at once. They come first.
    pub start: u32,
    /// Maximum number of jobs to claim ahead: due jobs, and jobs that fall due within the horizon and are not
    /// leased.
    pub ahead: u32,
    /// How long before its due time a job may be claimed.
    pub horizon: Duration,
    /// Duration of the lease from now. The lease of a job claimed ahead lasts at least until its due time.
    pub lease: Duration,
    /// Whether due urgent jobs come first.
    pub urgent_first: bool,
}

/// A kind that a [`Claim`] lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindRoom<'a> {
    /// See [`NewJob::kind`].
    pub kind: &'a str,
    /// Maximum number of its jobs to claim, at least one.
    pub room: u32,
}

/// A job that is held under a claim.
#[derive(Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job's id.
    pub id: JobId,
    /// The claim's token.
    pub token: Token,
    /// Its due time.
    pub due: StoreTime,
    /// Whether it was started.
    pub started: bool,
    /// Number of attempts, including this one if it was started.
    pub attempts: u32,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Its schedule, if it repeats.
    pub schedule: Option<String>,
    /// See [`NewJob::urgent`].
    pub urgent: bool,
    /// See [`NewJob::kind`].
    pub kind: Option<String>,
    /// See [`NewJob::options`].
    pub options: Option<String>,
    /// The history of its failed attempts, as text that only workers read.
    pub failures: Option<String>,
    /// Whether a cancel was requested while a handler had the job, or may have had it.
    pub cancelled: bool,
}

impl Lease {
    /// Returns a change of the job by this claim.
    pub fn settle<'a>(&self, act: Act<'a>) -> Settle<'a> {
        Settle {
            id: self.id,
            token: self.token,
            act,
        }
    }
}

/// Omits payloads, keys, options and failures.
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("id", &self.id)
            .field("token", &self.token)
            .field("due", &self.due)
            .field("started", &self.started)
            .field("attempts", &self.attempts)
            .field("urgent", &self.urgent)
            .field("kind", &self.kind)
            .field("cancelled", &self.cancelled)
            .finish_non_exhaustive()
    }
}

/// Result of [`Store::turn`].
#[derive(Clone, Debug)]
pub struct Turn {
    /// The store's clock, read during the call.
    pub now: StoreTime,
    /// Whether the queue is paused: nothing is claimed or started.
    pub paused: bool,
    /// Outcome of each settle, in order.
    pub verdicts: Vec<Verdict>,
    /// Result of the claim, if one was requested.
    pub claimed: Option<Claimed>,
}

/// Result of a [`Claim`].
#[derive(Clone, Debug)]
pub struct Claimed {
    /// Claimed jobs, ordered by time, then by id.
    pub leases: Vec<Lease>,
    /// The earliest time at which a job can be claimed and started, including jobs whose leases expire: in the
    /// past if one can be now, [`StoreTime::NEVER`] if there is none. If due jobs were skipped because another
    /// transaction has locked them, [`LOCKED_AGAIN`] from now. If the claim lists kinds, only those count of which
    /// it has claimed fewer jobs than there is room for.
    pub first: StoreTime,
    /// The due time of the earliest job that is not leased, of the same kinds. [`StoreTime::NEVER`] if there is none.
    pub first_free: StoreTime,
}

/// The argument of notifiers when a job was taken from a holder that does not confirm starts, or was marked by
/// a cancel. Also means that anything may have changed.
pub const RECALL: StoreTime = StoreTime::from_micros(i64::MIN);

/// Maximum of the counts of [`StoreStats`].
pub const COUNT_LIMIT: u32 = 10_000;

/// Maximum number of jobs that [`Store::cancel_requests`] returns.
pub const CANCEL_REQUEST_LIMIT: u32 = 1_024;

/// Maximum number of jobs that one claim parks, or calls, because of [limits](Store::limit). For stores.
pub const PARK_LIMIT: u32 = 1_000;

/// Delay until due jobs that were locked are looked for again. The pump doubles it each time it finds nothing
/// else. For stores.
pub const LOCKED_AGAIN: Duration = Duration::from_millis(2);

/// Returns the time limit of a pump's call, where `lease` is the shortest lease of the store's queues: a
/// quarter of it, but at least a second. A lease is renewed after a third of its duration, so there is time
/// for two retries. For stores.
///
/// ```
/// use std::time::Duration;
/// use durable_queue::store::call_limit;
///
/// assert_eq!(call_limit(Duration::from_secs(10)), Duration::from_millis(2_500));
/// assert_eq!(call_limit(Duration::from_secs(3)), Duration::from_secs(1));
/// ```
pub fn call_limit(lease: Duration) -> Duration {
    (lease / 4).max(Duration::from_secs(1))
}

/// Figures of a queue, for all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Number of unfinished jobs, at most [`COUNT_LIMIT`].
    pub jobs: u32,
    /// Number of jobs that can be claimed now, at most [`COUNT_LIMIT`].
    pub due: u32,
    /// Number of dead letters, at most [`COUNT_LIMIT`].
    pub dead: u32,
    /// Number of jobs of each kind that can be claimed now, at most [`COUNT_LIMIT`] of each, ordered by kind. A kind
    /// that stays here has no worker.
    pub due_of_kinds: Vec<(String, u32)>,
    /// Whether the queue is paused.
    pub paused: bool,
}

/// A job as returned by [`Store::list`].
#[derive(Clone, PartialEq, Eq)]
pub struct ListedJob {
    /// The job's id.
    pub id: JobId,
    /// The time from which it can be claimed: its due time, or the end of its lease, or [`StoreTime::NEVER`] while a
    /// [limit](Store::limit) of its group or its kind stops it.
    pub due: StoreTime,
    /// Its due time.
    pub at: StoreTime,
    /// Its state.
    pub state: JobState,
    /// Number of attempts started.
    pub attempts: u32,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its group.
    pub group: Option<String>,
    /// Its schedule, if it repeats.
    pub schedule: Option<String>,
    /// See [`NewJob::urgent`].
    pub urgent: bool,
    /// See [`NewJob::kind`].
    pub kind: Option<String>,
    /// See [`Lease::failures`]. [`failures()`](Self::failures) parses the text.
    pub failures: Option<String>,
    /// See [`Lease::cancelled`].
    pub cancelled: bool,
}

/// State of a [`ListedJob`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Its due time is in the future.
    Scheduled,
    /// Like `Scheduled`, after a failed attempt.
    Retryable,
    /// It can be claimed: it is due, or the lease of its last holder has expired.
    Available,
    /// A [limit](Store::limit) of its group or its kind keeps it back.
    Waiting,
    /// A process has claimed it ahead of its due time, and has not started it.
    Claimed,
    /// A handler has it.
    Running,
}

impl JobState {
    /// Returns whether a process holds the job.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Claimed | Self::Running)
    }

    /// Returns the state of a job that has a token if `is_held`, that can be claimed from `due` on, and whose due time is
    /// `at`. For stores.
    pub fn of(
        is_held: bool,
        started: bool,
        due: StoreTime,
        at: StoreTime,
        attempts: u32,
        now: StoreTime,
    ) -> Self {
        match () {
            () if due <= now => Self::Available,
            () if is_held && started => Self::Running,
            () if is_held => Self::Claimed,
            () if due != at => Self::Waiting,
            () if attempts > 0 => Self::Retryable,
            () => Self::Scheduled,
        }
    }
}

impl ListedJob {
    /// Returns the failed attempts of the job, the oldest first. Empty if the store's text is unreadable.
    pub fn failures(&self) -> Vec<Failure> {
        failures::read(self.failures.as_deref())
    }

    /// Returns the position after which the next page starts.
    pub fn position(&self) -> (StoreTime, JobId) {
        (self.due, self.id)
    }
}

/// Omits keys, groups and failures.
impl fmt::Debug for ListedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedJob")
            .field("id", &self.id)
            .field("due", &self.due)
            .field("at", &self.at)
            .field("state", &self.state)
            .field("attempts", &self.attempts)
            .field("urgent", &self.urgent)
            .field("kind", &self.kind)
            .field("cancelled", &self.cancelled)
            .finish_non_exhaustive()
    }
}

/// A dead letter.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadJob {
    /// The job's id.
    pub id: JobId,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its group, which it keeps when it is redriven.
    pub group: Option<String>,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Number of attempts started.
    pub attempts: u32,
    /// When it was buried.
    pub buried: StoreTime,
    /// The error that ended its last attempt.
    pub error: String,
    /// The schedule of a repeating job, which it keeps when it is redriven.
    pub schedule: Option<String>,
    /// See [`NewJob::urgent`]. It is kept when the job is redriven.
    pub urgent: bool,
    /// See [`NewJob::kind`]. It is kept when the job is redriven.
    pub kind: Option<String>,
    /// See [`NewJob::options`]. They are kept when the job is redriven.
    pub options: Option<String>,
    /// See [`Lease::failures`]. They are kept when the job is redriven.
    pub failures: Option<String>,
}

impl DeadJob {
    /// Returns the failed attempts of the job, the oldest first, of which the last one is usually the one that
    /// buried it. Empty if the store's text is unreadable.
    pub fn failures(&self) -> Vec<Failure> {
        failures::read(self.failures.as_deref())
    }
}

/// Omits payloads, keys, groups, errors, options and failures.
impl fmt::Debug for DeadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadJob")
            .field("id", &self.id)
            .field("attempts", &self.attempts)
            .field("buried", &self.buried)
            .field("urgent", &self.urgent)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// A job that is done and kept: see [`Builder::keep_done`](crate::Builder::keep_done).
#[derive(Clone, PartialEq, Eq)]
pub struct DoneJob {
    /// The job's id.
    pub id: JobId,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// See [`NewJob::kind`].
    pub kind: Option<String>,
    /// Number of attempts started.
    pub attempts: u32,
    /// When its last attempt was acknowledged.
    pub finished: StoreTime,
    /// How long that attempt took, by the clock of its process, in whole microseconds.
    pub took: Duration,
    /// Until when it is kept.
    pub until: StoreTime,
    /// The result that its handler has [set](crate::Claimed::set_result).
    pub result: Option<Vec<u8>>,
}

/// Omits keys and results.
impl fmt::Debug for DoneJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoneJob")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("attempts", &self.attempts)
            .field("finished", &self.finished)
            .field("took", &self.took)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// State of a job: see [`Store::fate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits, is claimed or runs.
    Open,
    /// It is done and kept.
    Done(DoneJob),
    /// It is a dead letter.
    Dead {
        /// The error that ended its last attempt.
        error: String,
    },
    /// It does not exist: it was cancelled, is done and not kept (any more), or was never pushed.
    Gone,
}

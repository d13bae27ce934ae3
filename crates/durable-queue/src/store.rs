//! What a store is: it keeps jobs, shares them between processes, and fences off holders that have
//! lost their lease. It keeps no time: the queue does.
//!
//! The trait is blocking on purpose. One thread of each queue and process, the pump, makes the
//! calls of the hot path; threads and futures wait in the process. A store passes the
//! `conformance` suite (feature `testing`), which is the contract in the form of tests.
//!
//! # What a store promises
//! 1. A call is carried out wholly or not at all, also if the process dies within it. After an
//!    error that says [`CarriedOut::No`](crate::CarriedOut::No) it was not.
//! 2. A job that [`enqueue`](Store::enqueue) answered for is there until it is acknowledged,
//!    cancelled or merged; buried, it is a dead letter.
//! 3. At any moment at most one token is valid for a job. Only a claim makes one valid; a settle
//!    with another changes nothing and is [`Verdict::Stale`].
//! 4. A job is claimed no earlier than the horizon before its time, started no earlier than its
//!    time, and claimed from a holder no earlier than the end of the lease: by the store's clock.
//! 5. A holder whose token [says so](crate::Token::is_unconfirmed) may hand out what it has claimed ahead,
//!    from the job's time on, and ask for the start later. So from that time on, until the lease ends,
//!    such a job is one that a handler has, for cancels and resets. And what takes it from the holder (a
//!    cancel or a reset before, a merge at any time) calls the notifiers with the beginning of time
//!    ([`RECALL`]), so that the holder asks first.
//! 6. No call reads more rows than it returns or changes, and those that leases hold within its
//!    horizon: delayed jobs cost nothing, nor do those that are due in front of an urgent one.
//! 7. A job that was urgent stays so until it is done or cancelled: through merges, retries, repetitions,
//!    releases, burials and redrives.
//! 8. Of each key at most one job is *open*: pushes of the key are merged into it. A start ends that. A job that is
//!    held no more is open again, unless another one of its key is; then it waits beside that one, as a job of
//!    its own. So once a job has been started, only an acknowledgement, a burial or a cancel ends it.
//! 9. Where keys are [serial](Store::serialize_keys), no claim takes a job while a lease that lives holds
//!    another one of its key, nor an open job while another one of its key, which has been started, waits. A
//!    claim that finds such a job puts it off: to the horizon after that lease ends, or after the other one
//!    is due, and no sooner than [`SHORTLY`]. What ends the lease, or cancels the other job, brings it back to its
//!    own time. A claim that takes a job fences off whoever held another one of its key under a lease
//!    that has ended.
//! 10. A push with a schedule, of a key whose job has one and has been started, changes that job: its payload
//!     and its schedule, and its next repetition comes no later than the push has said. With
//!     [`Merge::Keep`](crate::Merge::Keep) it changes nothing. Nor does a push with a schedule change any job
//!     if its point in time has passed ([`NewJob::policy`]): that time may have been worked off.

use std::fmt;
use std::time::Duration;

use crate::error::StoreError;
use crate::job::{Cancelled, JobId, NewJob, Put, Reset, Token, Which};
use crate::notify::{ANYTHING, Notifier};
use crate::time::{StoreTime, When};

/// What a store answers.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Keeps the jobs of many queues, each by its name. See the [module](self).
pub trait Store: Send + Sync + 'static {
    /// Enters jobs, all or none, and answers for each in their order.
    ///
    /// After it, the store calls the notifiers of the queue's [`watch`](Store::watch)es with the
    /// earliest time that it has set.
    ///
    /// # Errors
    /// What the store met.
    fn enqueue(&self, queue: &str, jobs: &[NewJob<'_>]) -> Result<Vec<Put>>;

    /// Settles jobs in their order, then claims: one round trip and one commit. After it, the
    /// notifiers are called if a job was retried or released.
    ///
    /// Acknowledgements, repetitions, retries and burials are durable when this returns. The rest need not be:
    /// a crash that undoes a claim at worst hands out again.
    ///
    /// # Errors
    /// What the store met.
    fn turn(&self, queue: &str, settle: &[Settle<'_>], claim: Option<Claim>) -> Result<Turn>;

    /// Takes a job out, unless a handler has it: then it loses its schedule. By a key, all jobs of the key lose theirs. One that is claimed and
    /// not started is taken from its holder, which is recalled if it does not confirm: see the module.
    ///
    /// # Errors
    /// What the store met.
    fn cancel(&self, queue: &str, which: Which<'_>) -> Result<Cancelled>;

    /// Gives a job another time, unless a handler has it; then calls the notifiers. One that is
    /// claimed and not started is taken from its holder.
    ///
    /// # Errors
    /// What the store met.
    fn reset(&self, queue: &str, which: Which<'_>, when: When) -> Result<Reset>;

    /// What the claim of this token, made for `lease`, holds now: after an answer was lost.
    ///
    /// # Errors
    /// What the store met.
    fn held_by(&self, queue: &str, token: Token, lease: Duration) -> Result<Vec<Lease>>;

    /// Has `notifier` called when a job of the queue may have become due earlier, by whatever
    /// process, until the watch is dropped.
    ///
    /// # Errors
    /// What the store met.
    fn watch(&self, queue: &str, notifier: Notifier) -> Result<Box<dyn Watch>>;

    /// Stops or resumes claims and starts of a queue, for all processes. What runs goes on.
    ///
    /// # Errors
    /// What the store met.
    fn pause(&self, queue: &str, paused: bool) -> Result<()>;

    /// Has one job of each key run at a time from now on, whoever claims it; or any number again. What
    /// runs goes on.
    ///
    /// # Errors
    /// What the store met.
    fn serialize_keys(&self, queue: &str, serial: bool) -> Result<()>;

    /// Figures. None is found by a scan: a count ends at [`COUNT_LIMIT`].
    ///
    /// # Errors
    /// What the store met.
    fn stats(&self, queue: &str) -> Result<StoreStats>;

    /// Up to `most` jobs that are not done, of those that come after `after`: by the moment at which
    /// they may be claimed, then by id, as [`ListedJob::position`] says. A job that moves between two
    /// calls may be in neither answer, or in both.
    ///
    /// # Errors
    /// What the store met.
    fn list(
        &self,
        queue: &str,
        after: Option<(StoreTime, JobId)>,
        most: u32,
    ) -> Result<Vec<ListedJob>>;

    /// Up to `most` dead letters whose ids are greater than `after`, by id.
    ///
    /// # Errors
    /// What the store met.
    fn dead(&self, queue: &str, after: Option<JobId>, most: u32) -> Result<Vec<DeadJob>>;

    /// Makes dead letters jobs again, due at once, without attempts, under their ids; then calls
    /// the notifiers. Answers how many: one that is not there, or whose key is pending, is not.
    ///
    /// # Errors
    /// What the store met.
    fn redrive(&self, queue: &str, ids: &[JobId]) -> Result<usize>;

    /// Deletes dead letters for good. Answers how many were there.
    ///
    /// # Errors
    /// What the store met.
    fn delete_dead(&self, queue: &str, ids: &[JobId]) -> Result<usize>;
}

/// A store into which jobs can be put as part of the caller's own transaction.
pub trait EnqueueIn: Store {
    /// The caller's transaction, of the client that the store is made with.
    type Transaction<'t>;

    /// As [`enqueue`](Store::enqueue), but the jobs are there when the transaction commits, and
    /// only then. No notifier is called before; a watch notices the commit.
    ///
    /// # Errors
    /// What the store met. The transaction may have to be rolled back, as its client says.
    fn enqueue_in(
        &self,
        transaction: &mut Self::Transaction<'_>,
        queue: &str,
        jobs: &[NewJob<'_>],
    ) -> Result<Vec<Put>>;
}

/// Looks for what other processes have done, for a store that cannot announce it.
pub trait Watch: Send {
    /// How often [`look`](Watch::look) is to be called; `None` if the notifier is called in any case.
    fn every(&self) -> Option<Duration>;

    /// Whether anything may have become due earlier since the last look.
    ///
    /// # Errors
    /// What the store met.
    fn look(&mut self) -> Result<bool>;
}

/// What is to become of a job that is held.
#[derive(Clone, Copy, Debug)]
pub struct Settle<'a> {
    /// The job.
    pub id: JobId,
    /// The claim that it is held by.
    pub token: Token,
    /// What is to be done.
    pub act: Act<'a>,
}

/// See [`Settle`]. All but `Start` are for jobs that were started; `Release` is for both.
#[derive(Clone, Copy)]
pub enum Act<'a> {
    /// A handler begins now, and the lease is so long from now. Counts as an attempt, once for each
    /// claim. From here on a cancel loses.
    Start {
        /// From now.
        lease: Duration,
    },
    /// The lease is so long from now.
    Extend {
        /// From now.
        lease: Duration,
    },
    /// Done: the job goes.
    Ack,
    /// Done for this time: the job, which has a schedule, is pending again, under its id and as if it
    /// had never been claimed. One that has none is done for good, as by `Ack`.
    Again {
        /// Its next time; an earlier one if a push beside its run has said it.
        when: When,
    },
    /// The attempt failed: the job is pending again.
    Retry {
        /// Its new time.
        when: When,
    },
    /// Given up: the job becomes a dead letter.
    Bury {
        /// Why, in words.
        error: &'a str,
    },
    /// Handed to no handler, and given up: as `Bury`, the attempt that its claim has begun not counted.
    Reject {
        /// Why, in words.
        error: &'a str,
    },
    /// Given back as if it had never been claimed: due as before, the attempt not counted.
    Release,
}

impl Act<'_> {
    /// Whether it is to be durable when the turn returns. For stores.
    pub fn is_durable(&self) -> bool {
        !matches!(
            self,
            Self::Start { .. } | Self::Extend { .. } | Self::Release
        )
    }

    /// Whether the job is held no more after this: another one of its key may be claimed. For stores.
    pub fn ends_lease(&self) -> bool {
        !matches!(self, Self::Start { .. } | Self::Extend { .. })
    }

    /// The time at which the job may be due after this, if it is pending again: a past one if it is
    /// the job's own. For stores, which announce it.
    pub fn announced(&self, now: StoreTime) -> StoreTime {
        match self {
            Self::Retry { when } | Self::Again { when } => when.resolve(now),
            Self::Release => StoreTime::from_micros(i64::MIN),
            _ => StoreTime::NEVER,
        }
    }
}

/// The earliest time at which a job may be due after a turn that has made these settles, or
/// [`StoreTime::NEVER`]. `frees_key`: a job has waited for a [serial](Store::serialize_keys) key that is free now.
/// For stores, which announce it.
pub fn announced(settles: &[Settle<'_>], now: StoreTime, frees_key: bool) -> StoreTime {
    let by_acts = settles.iter().map(|settle| settle.act.announced(now));
    let earliest = by_acts.chain(frees_key.then_some(ANYTHING)).min();
    earliest.unwrap_or(StoreTime::NEVER)
}

impl fmt::Debug for Act<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { lease } => write!(f, "Start({lease:?})"),
            Self::Extend { lease } => write!(f, "Extend({lease:?})"),
            Self::Ack => f.write_str("Ack"),
            Self::Again { when } => write!(f, "Again({when:?})"),
            Self::Retry { when } => write!(f, "Retry({when:?})"),
            // The words of an error may be anything.
            Self::Bury { .. } => f.write_str("Bury(..)"),
            Self::Reject { .. } => f.write_str("Reject(..)"),
            Self::Release => f.write_str("Release"),
        }
    }
}

/// What became of a [`Settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Done,
    /// The token is not valid for the job, or there is no such job. Nothing was changed.
    Stale,
    /// A start: the job's time has not come by the store's clock, or its queue is paused, or another transaction has
    /// locked the job. It is held as before.
    NotDue,
}

/// What is to be claimed, in order of time, then of id; if the urgent come first, those that are due and
/// urgent in that order, then the others.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// For all jobs of this claim; not used before.
    pub token: Token,
    /// At most so many jobs are claimed.
    pub max: u32,
    /// First those that are due, so many at most. They are started at once.
    pub start: u32,
    /// Then others that are due, or fall due within the horizon and that no lease holds, so many
    /// at most.
    pub ahead: u32,
    /// How long before its time a job may be claimed.
    pub horizon: Duration,
    /// How long the lease is from now; that of a job claimed ahead lasts until its time at least.
    pub lease: Duration,
    /// Of what is due, urgent jobs come first. Else they are as all others are.
    pub urgent_first: bool,
}

/// A job that is held.
#[derive(Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub id: JobId,
    /// The claim.
    pub token: Token,
    /// When it was to be due.
    pub due: StoreTime,
    /// Whether it was started.
    pub started: bool,
    /// How many attempts were begun, this one included if it was started.
    pub attempts: u32,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// What it is about.
    pub payload: Vec<u8>,
    /// When it comes again.
    pub schedule: Option<String>,
    /// See [`NewJob::urgent`].
    pub urgent: bool,
}

impl Lease {
    /// What is to become of the job, by this claim.
    pub fn settle<'a>(&self, act: Act<'a>) -> Settle<'a> {
        Settle {
            id: self.id,
            token: self.token,
            act,
        }
    }
}

/// Payloads and keys are not shown.
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("id", &self.id)
            .field("token", &self.token)
            .field("due", &self.due)
            .field("started", &self.started)
            .field("attempts", &self.attempts)
            .field("urgent", &self.urgent)
            .finish_non_exhaustive()
    }
}

/// The answer to [`Store::turn`].
#[derive(Clone, Debug)]
pub struct Turn {
    /// The store's clock, read while the call was carried out.
    pub now: StoreTime,
    /// The queue is paused: nothing is claimed or started.
    pub paused: bool,
    /// One for each settle, in their order.
    pub verdicts: Vec<Verdict>,
    /// If a claim was asked for.
    pub claimed: Option<Claimed>,
}

/// What a [`Claim`] came to.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// In order of time, then of id.
    pub leases: Vec<Lease>,
    /// The earliest moment at which one of the queue's jobs may be claimed to be started, leases
    /// that end included: in the past if one may be now. [`StoreTime::NEVER`] if there is none. Of what is due and
    /// locked by another transaction, so that it was passed over, [`LOCKED_AGAIN`] from now.
    pub first: StoreTime,
    /// The time of the earliest job that no lease holds. [`StoreTime::NEVER`] if there is none.
    pub first_free: StoreTime,
}

/// What notifiers are called with if a job was taken from a holder that does not ask before it hands
/// out. It says as well that anything may have changed.
pub const RECALL: StoreTime = StoreTime::from_micros(i64::MIN);

/// Where the counts of [`StoreStats`] end.
pub const COUNT_LIMIT: u32 = 10_000;

/// A job of a serial key that must wait for another one which is due now is looked at again after so long, or when
/// the other one has ended. For stores.
pub const SHORTLY: Duration = Duration::from_millis(1);

/// What was due and locked is looked at again after so long; by this crate's pump after twice as long each time
/// that nothing else was found either. For stores.
pub const LOCKED_AGAIN: Duration = Duration::from_millis(2);

/// How long a store may take for a pump's call, where the shortest lease of its queues is `lease`: a quarter of it,
/// and a second at least. A lease is renewed after a third of it, so there is time for two more tries. For stores.
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

/// Figures of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Jobs that are not done, at most [`COUNT_LIMIT`].
    pub jobs: u32,
    /// Those that could be claimed now, at most [`COUNT_LIMIT`].
    pub due: u32,
    /// Dead letters, at most [`COUNT_LIMIT`].
    pub dead: u32,
    /// Nothing is claimed or started.
    pub paused: bool,
    /// One job of each key runs at a time.
    pub serial_keys: bool,
}

/// A job as [`Store::list`] shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ListedJob {
    /// The job.
    pub id: JobId,
    /// The next moment at which it may be claimed: its own time, or the end of the lease.
    pub due: StoreTime,
    /// Its own time.
    pub at: StoreTime,
    /// How it stands.
    pub state: JobState,
    /// How many attempts were begun.
    pub attempts: u32,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// When it comes again.
    pub schedule: Option<String>,
    /// See [`NewJob::urgent`].
    pub urgent: bool,
}

/// How a [`ListedJob`] stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// No lease holds it.
    Waiting,
    /// A process has claimed it ahead of its time, and no handler has it.
    Claimed,
    /// A handler has it.
    Running,
}

impl JobState {
    /// That of a job which has a token if `is_held`, and which may be claimed from `due` on: a lease
    /// that has ended by `now` holds nothing. For stores.
    pub fn of(is_held: bool, started: bool, due: StoreTime, now: StoreTime) -> Self {
        if !is_held || due <= now {
            Self::Waiting
        } else if started {
            Self::Running
        } else {
            Self::Claimed
        }
    }
}

impl ListedJob {
    /// Where the list goes on after this one.
    pub fn position(&self) -> (StoreTime, JobId) {
        (self.due, self.id)
    }
}

/// Keys are not shown.
impl fmt::Debug for ListedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedJob")
            .field("id", &self.id)
            .field("due", &self.due)
            .field("at", &self.at)
            .field("state", &self.state)
            .field("attempts", &self.attempts)
            .field("urgent", &self.urgent)
            .finish_non_exhaustive()
    }
}

/// A dead letter.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadJob {
    /// The id of the job.
    pub id: JobId,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// What it was about.
    pub payload: Vec<u8>,
    /// How many attempts were begun.
    pub attempts: u32,
    /// When it was given up.
    pub buried: StoreTime,
    /// Why.
    pub error: String,
    /// When it was to come again; it does so if it is driven again.
    pub schedule: Option<String>,
    /// See [`NewJob::urgent`]. It is so again if it is driven again.
    pub urgent: bool,
}

/// Payloads, keys and errors are not shown.
impl fmt::Debug for DeadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadJob")
            .field("id", &self.id)
            .field("attempts", &self.attempts)
            .field("buried", &self.buried)
            .field("urgent", &self.urgent)
            .finish_non_exhaustive()
    }
}

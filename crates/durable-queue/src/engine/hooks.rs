//! Hooks around pushes and attempts, for metrics and traces.
//!
//! # Invariants
//! 1. A panic of a hook changes no result: the call and the attempt go on as without hooks.
//! 2. No lock is held while a hook is called.
//! 3. A part of an attempt runs exactly once, whether its hook calls it never, once or twice.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::Clock;
use sync_shim::foreign::{discard, drop_quietly, guarded};

use crate::error::StoreError;
use crate::store::Lease;
use crate::store::job::{JobId, NewJob, Retried};
use crate::store::time::StoreTime;
use crate::threads::clock::SharedClock;

/// Maximum length of the text of [`Hooks::context`], in bytes.
pub const LONGEST_CONTEXT: usize = 512;

/// Functions that a queue calls around its pushes and attempts, for metrics and traces. Set by
/// [`Builder::hooks`](crate::Builder::hooks). Each does nothing by default.
///
/// They are called on the thread that pushes or handles, or that makes an async call, so they should be fast and must
/// not block. A panic in one is caught and has no effect. A queue without hooks pays one branch in each place.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use durable_queue::{AttemptEnd, AttemptHook, AttemptStart, DurableQueue, Hooks, Outcome, Pushed, When};
/// use durable_queue_sqlite::SqliteStore;
///
/// #[derive(Default)]
/// struct Metrics {
///     pushed: AtomicU64,
///     failed: AtomicU64,
/// }
///
/// struct Attempt(Arc<Metrics>);
///
/// impl AttemptHook for Attempt {
///     fn ended(self: Box<Self>, end: &AttemptEnd<'_>) {
///         if end.outcome != Outcome::Done {
///             self.0.failed.fetch_add(1, Relaxed);
///         }
///     }
/// }
///
/// struct Recorder(Arc<Metrics>);
///
/// impl Hooks for Recorder {
///     fn pushed(&self, push: &Pushed<'_>) {
///         if push.error.is_none() {
///             self.0.pushed.fetch_add(push.jobs as u64, Relaxed);
///         }
///     }
///
///     fn started(&self, _: &AttemptStart<'_>) -> Option<Box<dyn AttemptHook>> {
///         Some(Box::new(Attempt(Arc::clone(&self.0))))
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let metrics = Arc::new(Metrics::default());
/// let queue = DurableQueue::builder("mails", SqliteStore::open(":memory:")?)
///     .hooks(Recorder(Arc::clone(&metrics)))
///     .build()?;
/// queue.push("a welcome".to_owned(), When::NOW)?;
/// queue.take()?.retry("no answer")?;
/// assert_eq!((metrics.pushed.load(Relaxed), metrics.failed.load(Relaxed)), (1, 1));
/// # Ok(())
/// # }
/// ```
pub trait Hooks: Send + Sync + 'static {
    /// Returns a text that travels with a job from its push to its attempts, for example the W3C `traceparent` of the
    /// caller's span. Called once for each job of a push, on the caller's thread, also for pushes in a transaction. A
    /// merge replaces the text together with the payload.
    ///
    /// The job has no text if this one is empty, contains white space or control characters, or is longer than
    /// [`LONGEST_CONTEXT`].
    fn context(&self, queue: &str) -> Option<String> {
        let _ = queue;
        None
    }

    /// A push was accepted or has failed. Not called for pushes in the caller's transaction, whose commit the queue
    /// does not see, and for values that cannot be encoded. It may not be called for futures that are dropped before they
    /// complete.
    fn pushed(&self, push: &Pushed<'_>) {
        let _ = push;
    }

    /// An attempt starts: a handler is about to be called, or a call returns the job. The returned value is told about
    /// the rest of the attempt.
    fn started(&self, attempt: &AttemptStart<'_>) -> Option<Box<dyn AttemptHook>> {
        let _ = attempt;
        None
    }
}

/// Hooks of one attempt, made by [`Hooks::started`] at its start and dropped at its end.
pub trait AttemptHook: Send + Sync + 'static {
    /// Runs a part of a worker's handler, by calling `part` once: the whole call of a blocking handler; of an async
    /// handler its call, each poll of its future, and the drop of its future. The place to enter a span.
    ///
    /// A closure instead of a pair of calls, so that guards that must not leave their thread can be held around `part`.
    /// `part` does not unwind. If this function does not call it, the queue does. A second call of it does nothing.
    fn around(&mut self, part: &mut dyn FnMut()) {
        part();
    }

    /// The attempt has ended in this process. The settle is sent to the store afterwards; its result may be stale.
    /// Not called in a forked child.
    fn ended(self: Box<Self>, end: &AttemptEnd<'_>) {
        let _ = end;
    }
}

/// A push: see [`Hooks::pushed`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Pushed<'a> {
    /// The name of the queue.
    pub queue: &'a str,
    /// The kind of all its jobs. `None` if they have none, or not all the same.
    pub kind: Option<&'a str>,
    /// Number of jobs.
    pub jobs: usize,
    /// How long the store's call took, including the wait for a call shared with other pushes.
    pub took: Duration,
    /// The error, if the push has failed.
    pub error: Option<&'a StoreError>,
}

/// Start of an attempt: see [`Hooks::started`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct AttemptStart<'a> {
    /// The name of the queue.
    pub queue: &'a str,
    /// The job's id.
    pub id: JobId,
    /// The job's kind.
    pub kind: Option<&'a str>,
    /// The job's key.
    pub key: Option<&'a [u8]>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How late it starts after the job's due time, by the known time of the store's clock.
    pub late: Duration,
    /// The text of [`Hooks::context`] at the job's push.
    pub context: Option<&'a str>,
}

/// Omits keys.
impl fmt::Debug for AttemptStart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptStart")
            .field("queue", &self.queue)
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("attempt", &self.attempt)
            .field("late", &self.late)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

/// End of an attempt: see [`AttemptHook::ended`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct AttemptEnd<'a> {
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took since its start.
    pub took: Duration,
    /// Consequence of a failed attempt.
    pub retried: Option<Retried>,
    /// The error of a failed attempt, if there is one.
    pub error: Option<&'a str>,
}

/// Omits errors, which may contain confidential text.
impl fmt::Debug for AttemptEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptEnd")
            .field("outcome", &self.outcome)
            .field("took", &self.took)
            .field("retried", &self.retried)
            .finish_non_exhaustive()
    }
}

/// How an attempt ended, as far as its process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is done.
    Done,
    /// The handler has returned an error, or the job was retried, buried or dropped.
    Failed,
    /// The handler has panicked.
    Panicked,
    /// The job was returned to the queue without counting the attempt.
    Released,
    /// This process cannot [decode](crate::Payload::decode) the payload, so no handler was called: see
    /// [`Builder::unreadable_for`](crate::Builder::unreadable_for).
    Unreadable,
    /// A [cancel](crate::Claimed::is_cancelled) of the job was requested, and the handler has returned an error, or has
    /// retried, released or dropped the job: it has ended.
    Cancelled,
    /// The lease was [lost](crate::Claimed::is_lost) before the end, whatever the handler has returned. An attempt that
    /// its [time limit](crate::JobPolicy::time_limit) has ended is one of these: its hook ends with its handler.
    Lost,
}

/// The hooks of a queue.
pub(crate) struct Observer {
    // USER CODE: each call, and the drop on the thread that drops the last handle of the queue.
    hooks: Box<dyn Hooks>,
    queue: String,
}

/// A job on its way to a handler of a queue with hooks.
pub(crate) struct HandedOut {
    observer: Arc<Observer>,
    at: Instant,
    late: Duration,
}

/// The hook of an attempt in progress.
pub(crate) struct Observed {
    // USER CODE: each call, and its drop.
    hook: Box<dyn AttemptHook>,
    started: Instant,
}

/// Calls a hook.
fn called<R>(hook: impl FnOnce() -> R) -> Option<R> {
    // USER CODE: a hook. No lock is held. A panic ends here.
    guarded(hook).map_err(discard).ok()
}

impl Observer {
    pub(crate) fn new(hooks: impl Hooks, queue: &str) -> Self {
        Self {
            hooks: Box::new(hooks),
            queue: queue.to_owned(),
        }
    }

    /// Returns the options of a job with the text that travels with it, if there is one.
    fn options(&self, options: Option<&str>) -> Option<String> {
        let context = called(|| self.hooks.context(&self.queue)).flatten()?;
        let is_word = |text: &str| !text.contains(|c: char| c.is_whitespace() || c.is_control());
        let is_short = (1..=LONGEST_CONTEXT).contains(&context.len());
        (is_short && is_word(&context)).then(|| match options {
            Some(options) => format!("{options} {CONTEXT}{context}"),
            None => format!("{CONTEXT}{context}"),
        })
    }

    /// Reports a push that has begun at `begun`.
    pub(crate) fn pushed<R>(
        &self,
        kind: Option<&str>,
        jobs: usize,
        took: Duration,
        answer: &Result<R, StoreError>,
    ) {
        let push = Pushed {
            queue: &self.queue,
            kind,
            jobs,
            took,
            error: answer.as_ref().err(),
        };
        called(|| self.hooks.pushed(&push));
    }

    /// Notes when a job with this due time is handed out.
    pub(crate) fn hand_out(
        self: &Arc<Self>,
        due: StoreTime,
        store_now: StoreTime,
        at: Instant,
    ) -> HandedOut {
        HandedOut {
            observer: Arc::clone(self),
            at,
            late: store_now.since(due),
        }
    }
}

impl HandedOut {
    pub(crate) fn start(self, lease: &Lease, clock: &SharedClock) -> Option<Box<Observed>> {
        let Self { observer, at, late } = self;
        let started = clock.now();
        let start = AttemptStart {
            queue: &observer.queue,
            id: lease.id,
            kind: lease.kind.as_deref(),
            key: lease.key.as_deref(),
            attempt: lease.attempts,
            late: late.saturating_add(started.saturating_duration_since(at)),
            context: lease.options.as_deref().and_then(context_of),
        };
        let hook = called(|| observer.hooks.started(&start)).flatten()?;
        Some(Box::new(Observed { hook, started }))
    }
}

impl fmt::Debug for HandedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedOut").finish_non_exhaustive()
    }
}

impl Observed {
    /// Runs a part of the handler, which does not unwind, within the hook.
    fn around(&mut self, part: &mut dyn FnMut()) {
        called(|| self.hook.around(part));
    }

    pub(crate) fn end(
        self,
        outcome: Outcome,
        retried: Option<Retried>,
        error: Option<&str>,
        clock: &SharedClock,
    ) {
        let end = AttemptEnd {
            outcome,
            took: clock.now().saturating_duration_since(self.started),
            retried,
            error,
        };
        let hook = self.hook;
        called(|| hook.ended(&end));
    }

    /// Drops the hook without a call.
    pub(crate) fn forget(self) {
        drop_quietly(self.hook);
    }
}

/// Runs a part of a handler, which must not unwind, within the hook of its attempt if there is one.
pub(crate) fn around<R>(observed: &mut Option<Box<Observed>>, part: impl FnOnce() -> R) -> R {
    let Some(observed) = observed else {
        return part();
    };
    let (mut part, mut result) = (Some(part), None);
    let mut once = || {
        if let Some(part) = part.take() {
            result = Some(part());
        }
    };
    observed.around(&mut once);
    once(); // If the hook has not.
    result.expect("the part was run, and does not unwind")
}

/// Reports a push, if there are hooks.
pub(crate) fn around_push<R>(
    observer: Option<&Arc<Observer>>,
    clock: &SharedClock,
    jobs: &[NewJob<'_>],
    push: impl FnOnce() -> Result<R, StoreError>,
) -> Result<R, StoreError> {
    let Some(observer) = observer else {
        return push();
    };
    let begun = clock.now();
    let answer = push();
    let took = clock.now().saturating_duration_since(begun);
    observer.pushed(kind_of(jobs), jobs.len(), took, &answer);
    answer
}

/// Returns the kind of all the jobs.
pub(crate) fn kind_of<'a>(jobs: &[NewJob<'a>]) -> Option<&'a str> {
    let kind = jobs.first()?.kind?;
    jobs.iter()
        .all(|job| job.kind == Some(kind))
        .then_some(kind)
}

/// Returns the options of a job, with the text of the hooks that travels with it.
pub(crate) fn options<'a>(
    observer: Option<&Arc<Observer>>,
    options: Option<&'a str>,
) -> Option<Cow<'a, str>> {
    let with_context = observer.and_then(|observer| observer.options(options));
    with_context.map(Cow::Owned).or(options.map(Cow::Borrowed))
}

/// Starts the word of the options that has the text of the hooks. Readers of other words skip it.
const CONTEXT: &str = "context=";

fn context_of(options: &str) -> Option<&str> {
    options
        .split(' ')
        .find_map(|word| word.strip_prefix(CONTEXT))
}

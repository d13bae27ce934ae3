//! The queue's handle: construction, the calls that never wait, and closing.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};
use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::{Clock, Parker, Process};

use crate::builder::{Builder, Config, DefaultClock, default_clock};
use crate::epoch::Epoch;
use crate::error::PushError;
use crate::expired::{Due, Expired, Leftover, Stats, Upcoming};
use crate::lock::Lock;
use crate::state::{Effects, State};
use crate::wait::{Driver, Effects as _, Waiters};
use crate::{DelayHeap, Entry, EntryId, ReserveError, TakeError};

/// A queue whose entries can be taken when they are due, and not before.
///
/// Any number of threads and futures can push and take. Handles are cheap to clone and refer to the
/// same queue. Dropping the handles does not close the queue; [`close`](DelayQueue::close) does.
///
/// Times are kept in nanoseconds. Times before the creation of the queue (a deadline restored after
/// a restart) keep their order and their value for up to 146 years, if the system's `Instant`
/// reaches that far back. A delay of more than 438 years means "never", and so does a time that an
/// `Instant` cannot express.
///
/// # Blocking
/// Every operation takes a lock for the duration of the heap operation (`O(log n)`). Methods that
/// wait say so. No user code (wakers, drops of values) runs under the lock. Wakers run one after
/// another, on the thread whose call made an entry ready, freed a place or closed the queue. A
/// waker that blocks delays that call and the wakers after it.
///
/// # `Send`
/// Values must be `Send + 'static` where a queue is created ([`new`](DelayQueue::new),
/// [`with_clock`](DelayQueue::with_clock), [`Builder::build`](crate::Builder::build)), because the
/// clock's alarm may access the queue from another thread at any time, and where a thread is
/// started for them (`channel`). The type and all other methods have no such bound, so code that
/// contains or uses a queue need not repeat it:
///
/// ```
/// use std::time::Duration;
/// use delay_queue::{DelayQueue, PushError, TakeFuture};
///
/// struct Retries<T> {
///     queue: DelayQueue<T>,
///     next: Option<TakeFuture<T>>,
/// }
///
/// impl<T> Retries<T> {
///     fn retry(&mut self, job: T) -> Result<(), PushError<T>> {
///         self.queue.push(job, Duration::from_secs(1))?;
///         self.next.get_or_insert_with(|| self.queue.take_async());
///         Ok(())
///     }
/// }
///
/// let mut retries = Retries { queue: DelayQueue::new(), next: None };
/// assert!(retries.retry("fetch").is_ok());
/// ```
///
/// Other values are rejected where the queue is created:
///
/// ```compile_fail,E0277
/// use std::rc::Rc;
/// use delay_queue::DelayQueue;
///
/// let queue = DelayQueue::<Rc<u8>>::new();
/// ```
#[doc(alias = "timer")]
#[doc(alias = "timeout")]
#[doc(alias = "ttl")]
#[doc(alias = "expire")]
#[doc(alias = "schedule")]
#[doc(alias = "HashWheel")]
pub struct DelayQueue<T, C = DefaultClock>(pub(crate) Arc<Shared<T, C>>);

// A panic of user code leaves the queue consistent: none runs under its lock.
impl<T, C> core::panic::UnwindSafe for DelayQueue<T, C> {}
impl<T, C> core::panic::RefUnwindSafe for DelayQueue<T, C> {}

pub(crate) struct Shared<T, C> {
    state: Lock<State<T>>,
    pub(crate) config: Config<C>,
    pub(crate) epoch: Epoch,
    /// The process that created the queue.
    process: Process,
    /// The earliest due time, for a leader that spins until then. Written under the lock, and only
    /// if leaders spin.
    pub(crate) earliest: AtomicU64,
    /// Settles this queue when its alarm fires.
    alarm_waker: Waker,
}

/// Does not keep the queue alive: the alarm may be set for a distant time.
struct AlarmWaker<T, C>(Weak<Shared<T, C>>);

impl<T: Send + 'static, C: Clock> Wake for AlarmWaker<T, C> {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.0.upgrade() {
            shared.alarm_fired();
        }
    }
}

impl<T> DelayQueue<T> {
    /// Creates an unbounded queue with the system's monotonic clock.
    pub fn new() -> Self
    where
        T: Send + 'static,
    {
        Self::with_clock(default_clock())
    }

    /// Returns a builder. The type of the values can be left to inference.
    pub fn builder() -> Builder<T> {
        Builder::new()
    }
}

impl<T: Send + 'static> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + 'static, C: Clock> DelayQueue<T, C> {
    /// Creates an unbounded queue with the given clock.
    pub fn with_clock(clock: C) -> Self {
        Self::from_config(Config::new(clock))
    }

    pub(crate) fn from_config(config: Config<C>) -> Self {
        Self(Arc::new_cyclic(|shared| Shared {
            state: Lock::new(State::new(config.bound, config.capacity)),
            epoch: Epoch::new(config.clock.now()),
            earliest: AtomicU64::new(crate::NEVER),
            process: Process::current(),
            alarm_waker: Waker::from(Arc::new(AlarmWaker(Weak::clone(shared)))),
            config,
        }))
    }
}

impl<T, C: Clock> DelayQueue<T, C> {
    /// Adds `value`, due `delay` from now, if there is room. Never blocks.
    ///
    /// The due time is fixed when the method is called.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::builder().bound(1).build()?;
    /// queue.try_push("first", Duration::ZERO)?;
    /// let refused = queue.try_push("second", Duration::ZERO).unwrap_err();
    /// assert_eq!(refused.into_value(), "second");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PushError::Full`] and [`PushError::Closed`], with the value.
    #[doc(alias = "offer")]
    pub fn try_push(&self, value: T, delay: Duration) -> Result<EntryId, PushError<T>> {
        let (due, now) = self.0.due_after(delay);
        self.0.try_push(value, due, now)
    }

    /// Adds `value`, due at `due`, if there is room. Never blocks. A time in the past is due at
    /// once.
    ///
    /// # Errors
    /// [`PushError::Full`] and [`PushError::Closed`], with the value.
    pub fn try_push_at(&self, value: T, due: Instant) -> Result<EntryId, PushError<T>> {
        self.0.try_push(value, self.0.epoch.nanos(due), 0)
    }

    /// Takes the earliest entry if it is due. Never blocks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::{DelayQueue, TakeError};
    ///
    /// let queue = DelayQueue::new();
    /// queue.push("later", Duration::from_secs(60))?;
    /// assert!(matches!(queue.try_take(), Err(TakeError::NotDue)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TakeError::Empty`], [`TakeError::NotDue`] and [`TakeError::Closed`].
    #[doc(alias = "poll")]
    #[doc(alias = "try_recv")]
    pub fn try_take(&self) -> Result<Expired<T>, TakeError> {
        let shared = &*self.0;
        let taken = shared.section(|state, effects| {
            shared.advance(state);
            state.take(effects)
        });
        Ok(shared.expired(taken?))
    }

    /// Takes up to `max` due entries, in order. Never blocks.
    ///
    /// The returned vector grows under the lock. [`try_take_many`](DelayQueue::try_take_many) is
    /// better for batches of known size.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// queue.push("due", Duration::ZERO)?;
    /// queue.push("later", Duration::from_secs(60))?;
    /// let drained = queue.drain_ready(100);
    /// assert_eq!(drained.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_ready(&self, max: usize) -> Vec<Expired<T>> {
        let mut drained = Vec::new();
        // The vector is empty if no entry is due; the reason does not matter here.
        let _ = self.0.look_for_many(&mut drained, max);
        drained
    }

    /// Removes an entry, due or not. Returns `None` if the queue does not contain it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// let timeout = queue.push("no answer", Duration::from_secs(5))?;
    /// // The answer has arrived:
    /// assert_eq!(queue.cancel(timeout), Some("no answer"));
    /// assert_eq!(queue.cancel(timeout), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    #[doc(alias = "remove")]
    #[doc(alias = "timeout")]
    pub fn cancel(&self, id: EntryId) -> Option<T> {
        self.0.section(|state, effects| state.cancel(id, effects))
    }

    /// Changes an entry's time to `delay` from now. The entry keeps its id, and its place is behind
    /// all other entries with the same time. Returns `false` if the queue does not contain it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let sessions = DelayQueue::new();
    /// let id = sessions.push("alice", Duration::from_secs(60))?;
    /// // Alice is back:
    /// assert!(sessions.reset(id, Duration::from_secs(1_800)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    #[doc(alias = "ttl")]
    #[doc(alias = "reschedule")]
    pub fn reset(&self, id: EntryId, delay: Duration) -> bool {
        let (due, now) = self.0.due_after(delay);
        self.0.section(|state, effects| {
            state.learn(now);
            state.reset(id, due, effects)
        })
    }

    /// Like [`reset`](DelayQueue::reset), to a point in time.
    pub fn reset_at(&self, id: EntryId, due: Instant) -> bool {
        let due = self.0.epoch.nanos(due);
        self.0
            .section(|state, effects| state.reset(id, due, effects))
    }

    /// Returns the time of the earliest entry, or `None` if the queue is empty.
    pub fn peek_due(&self) -> Option<Due> {
        let due = self.0.state.lock().peek_due()?;
        Some(self.0.due(due))
    }

    /// Returns the id and the due time of the next entry, due or not, or `None` if the queue is
    /// empty.
    ///
    /// By the time the caller reads the answer, the entry may have left, or an earlier one may have
    /// been added. The value is not accessible: reading it would be user code under the lock.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use delay_queue::{DelayQueue, Due};
    ///
    /// let queue = DelayQueue::new();
    /// let noon = Instant::now() + Duration::from_secs(3_600);
    /// let lunch = queue.push_at("lunch", noon)?;
    /// queue.push_at("tea", noon + Duration::from_secs(14_400))?;
    ///
    /// let next = queue.peek().expect("the queue has two entries");
    /// assert_eq!((next.id, next.due), (lunch, Due::At(noon)));
    /// assert_eq!(queue.due(lunch), Some(Due::At(noon)));
    /// assert!(queue.contains(lunch));
    ///
    /// queue.cancel(next.id);
    /// assert_eq!(queue.due(lunch), None);
    /// assert!(!queue.contains(lunch));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self) -> Option<Upcoming> {
        let (id, due) = self.0.state.lock().peek()?;
        let due = self.0.due(due);
        Some(Upcoming { id, due })
    }

    /// Returns the due time of an entry, or `None` if the queue does not contain it. An entry that
    /// a channel's feeder is offering is not in the queue, but may come back.
    #[doc(alias = "deadline")]
    pub fn due(&self, id: EntryId) -> Option<Due> {
        let due = self.0.state.lock().due(id)?;
        Some(self.0.due(due))
    }

    /// Returns whether the queue contains an entry. As with [`due`](DelayQueue::due), the answer
    /// may be outdated when the caller reads it. To remove the entry, call
    /// [`cancel`](DelayQueue::cancel) and check its result.
    pub fn contains(&self, id: EntryId) -> bool {
        self.due(id).is_some()
    }

    /// Returns the number of entries, including due ones.
    pub fn len(&self) -> usize {
        self.0.state.lock().len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries for which memory is allocated.
    pub fn capacity(&self) -> usize {
        self.0.state.lock().capacity()
    }

    /// Allocates memory for `additional` more entries, or for as many as the bound allows. Holds
    /// the lock meanwhile: existing entries may have to be moved, O(n).
    ///
    /// A push that finds no memory left allocates under the lock too. Call `reserve` if you know
    /// how many entries will come, at a moment when a pause does no harm. Any push may use the
    /// memory.
    ///
    /// # Panics
    /// If the memory cannot be allocated. The queue is unchanged and the lock is released.
    /// [`try_reserve`](DelayQueue::try_reserve) returns an error instead.
    pub fn reserve(&self, additional: usize) {
        let reserved = self.try_reserve(additional);
        reserved.expect("the allocator has memory for the entries");
    }

    /// Like [`reserve`](DelayQueue::reserve), but returns an error if the memory cannot be
    /// allocated.
    ///
    /// ```
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::<u64>::new();
    /// queue.try_reserve(10_000)?;
    /// assert!(queue.capacity() >= 10_000);
    /// # Ok::<(), delay_queue::ReserveError>(())
    /// ```
    ///
    /// # Errors
    /// [`ReserveError::NoMemory`] if the allocation fails. The queue is unchanged.
    pub fn try_reserve(&self, additional: usize) -> Result<(), ReserveError> {
        self.0.state.lock().try_reserve(additional)
    }

    /// Frees memory beyond that for `capacity` entries, or for the current entries if they are
    /// more.
    ///
    /// An empty queue frees the memory of a burst by itself, except for some thousand entries and for
    /// the capacity that was [reserved](DelayQueue::reserve). A queue that is never empty keeps the
    /// memory of its peak: call this method after it.
    pub fn shrink_to(&self, capacity: usize) {
        self.0.state.lock().shrink_to(capacity);
    }

    /// Removes all entries, drops them, and frees their memory. Holds the lock no longer than for
    /// one entry.
    ///
    /// # Panics
    /// If the destructor of a value panics, after all values have been dropped.
    pub fn clear(&self) {
        let heap = self.0.section(State::take_all);
        // USER CODE: the drops of values. All are dropped, then the first panic goes on.
        drop_all(heap);
    }

    /// Closes the queue: rejects all further pushes, including those that wait.
    ///
    /// Entries in the queue can still be cancelled, reset, and taken when they are due. Consumers
    /// get [`TakeError::Closed`] once no remaining entry can fall due. Returns `false` if the queue
    /// was already closed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// queue.push("last", Duration::from_millis(1))?;
    /// queue.close();
    /// assert!(queue.push("too late", Duration::ZERO).is_err());
    /// while let Ok(expired) = queue.take() {
    ///     println!("{}", expired.value); // last
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "shut_down")]
    pub fn close(&self) -> bool {
        self.0.section(|state, effects| {
            let was_open = state.is_open();
            state.close(effects);
            was_open
        })
    }

    /// Closes the queue, even if it is closed already, and removes all remaining entries, in order
    /// of due time.
    ///
    /// Waits for the feeder of a channel, which returns the entry that it is offering at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// queue.push("unsent", Duration::from_secs(60))?;
    /// for leftover in queue.close_now() {
    ///     println!("{} was due at {:?}", leftover.value, leftover.due);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close_now(&self) -> Vec<Leftover<T>> {
        let heap = self.0.close_now();
        let epoch = self.0.epoch;
        let leftovers = heap.into_iter().map(|entry| Leftover {
            value: entry.value,
            id: entry.id,
            due: epoch.instant(entry.due),
        });
        leftovers.collect()
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        !self.0.state.lock().is_open()
    }

    /// Returns a snapshot of the statistics.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// queue.push("tick", Duration::ZERO)?;
    /// queue.take()?;
    /// let stats = queue.stats();
    /// assert_eq!((stats.pushed, stats.taken, stats.len), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        let state = self.0.state.lock();
        let wakes = state.waiters.counts();
        Stats {
            len: state.len(),
            waiting_takers: state.waiters.waiting(),
            waiting_pushers: state.pushers.len(),
            pushed: state.counts.pushed,
            taken: state.counts.taken,
            cancelled: state.counts.cancelled,
            wakes: wakes.wakes,
            rearms: wakes.rearms,
        }
    }

    /// Returns the clock.
    pub fn clock(&self) -> &C {
        &self.0.config.clock
    }
}

impl<T, C> Clone for DelayQueue<T, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, C> fmt::Debug for DelayQueue<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("DelayQueue")
            .field("len", &state.len())
            .field("closed", &!state.is_open())
            .finish_non_exhaustive()
    }
}

/// Drops every value, even if the destructor of one panics.
fn drop_all<T>(heap: DelayHeap<T>) {
    let mut panicked = None;
    for entry in heap {
        if let Err(payload) = guarded(|| drop(entry)) {
            match panicked {
                None => panicked = Some(payload),
                Some(_) => discard(payload),
            }
        }
    }
    if let Some(payload) = panicked {
        resume_unwind(payload);
    }
}

impl<T, C: Clock> Driver for Shared<T, C> {
    type State = State<T>;
    type Effects = Effects;
    type Clock = C;

    fn clock(&self) -> &C {
        &self.config.clock
    }

    fn process(&self) -> Process {
        self.process
    }

    #[inline]
    fn now(&self) -> u64 {
        // USER CODE: `Clock::now`, under the lock in some sections: it must be quick and not call back. A panic comes out before anything
        // has changed.
        self.epoch.nanos(self.config.clock.now())
    }

    fn alarm_waker(&self) -> &Waker {
        &self.alarm_waker
    }

    /// Later than the due time, if entries are to be coalesced.
    fn alarm_time(&self, due: u64) -> Option<Instant> {
        let Config { spin, coalesce, .. } = &self.config;
        let at = self.epoch.instant(due)?;
        if spin.is_zero() {
            return Some(at.checked_add(*coalesce).unwrap_or(at));
        }
        Some(at)
    }

    /// Earlier than the alarm, if the leader is to spin.
    fn leader_time(&self, due: u64) -> Option<Instant> {
        let spin = self.config.spin;
        if spin.is_zero() {
            return self.alarm_time(due);
        }
        let at = self.epoch.instant(due)?;
        // If the window begins before the epoch, it begins at the epoch.
        let begins = at.checked_sub(spin).or(self.epoch.instant(0));
        Some(begins.unwrap_or(at))
    }

    /// Spins until the entry is due or is no longer the earliest.
    fn spin(&self, due: u64, parker: &Parker, deadline: Option<Instant>) -> bool {
        self.config.spin.is_zero() || self.spin_until(due, parker, deadline)
    }

    #[inline]
    fn locked<R>(
        &self,
        effects: &mut Effects,
        change: impl FnOnce(&mut State<T>, &mut Effects) -> R,
    ) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state, effects);
        if !self.config.spin.is_zero() {
            // Relaxed: the value only ends a spin; entries are read under the lock.
            self.earliest.store(state.earliest(), Relaxed);
        }
        result
    }

    #[inline]
    fn advance(&self, state: &mut State<T>) {
        state.advance(|| self.now());
    }

    fn learn(state: &mut State<T>, now: u64) {
        state.learn(now);
    }

    fn waiters(state: &mut State<T>) -> &mut Waiters {
        &mut state.waiters
    }

    fn next_due(state: &mut State<T>) -> u64 {
        state.earliest()
    }

    fn settle(state: &mut State<T>, effects: &mut Effects) {
        state.settle(effects);
    }

    fn run_user_code(&self, effects: &mut Effects) {
        // USER CODE: wakers, on the thread of any operation. Threads are woken and alarms are set before; a panic ends here.
        effects.wakes().wake_all();
    }
}

impl<T, C: Clock> Shared<T, C> {
    /// For tests of internal state.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn peek<R>(&self, look: impl FnOnce(&State<T>) -> R) -> R {
        look(&self.state.lock())
    }

    fn close_now(&self) -> DelayHeap<T> {
        let parker = self.process().is_current().then(Parker::of_thread);
        loop {
            let closed = |state: &mut State<T>, effects: &mut Effects| {
                state.close_now(parker.as_deref(), effects)
            };
            let (heap, cleared) = self.section(closed);
            for out in cleared {
                // USER CODE: the drop of a value that was cleared while it was lent.
                drop_quietly(out);
            }
            if let Some(heap) = heap {
                return heap;
            }
            if let Some(parker) = &parker {
                parker.park();
            }
        }
    }

    /// Returns the time `delay` from now, and the current time.
    #[inline]
    pub(crate) fn due_after(&self, delay: Duration) -> (u64, u64) {
        let now = self.now();
        (self.epoch.later(now, delay), now)
    }

    #[inline]
    pub(crate) fn try_push(&self, value: T, due: u64, now: u64) -> Result<EntryId, PushError<T>> {
        self.section(|state, effects| {
            state.learn(now);
            if !state.is_open() {
                Err(PushError::Closed(value))
            } else if state.has_room() {
                Ok(state.push(value, due, effects))
            } else {
                Err(PushError::Full(value))
            }
        })
    }

    fn due(&self, due: u64) -> Due {
        self.epoch.instant(due).map_or(Due::Never, Due::At)
    }

    /// Runs no user code, so it may be called under the lock.
    #[inline]
    pub(crate) fn expired(&self, entry: Entry<T>) -> Expired<T> {
        Expired {
            value: entry.value,
            id: entry.id,
            due: self.epoch.reached(entry.due),
        }
    }
}

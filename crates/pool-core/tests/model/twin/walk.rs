//! Runs a program on a real pool and on the model.
//!
//! After each step it waits (yielding, never for a duration) until the pool is in the model's
//! state: statistics, tasks at their gates, and every answer that is due. If the pool never reaches
//! that state, the walk fails and prints both.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;
use std::{array, io, mem};

use pool_core::{
    CancelToken, Capacity, Clock, Closures, DropPolicy, Func, JoinError, ManualClock, OnFull,
    Priority, QueueDepth, TuneError, WaitError, WorkerPool,
};
use pool_util::TaskGroup;
use testkit::CountingWaker;

use super::figures::{End, Patience};
use super::given::{CANCELLED, Given};
use super::job::{Board, Deliberate, Fate, Id, Job, Out, Verdict};
use super::model::Model;
use super::patience::{Call, lock};
use super::permits::Permits;
use super::program::{Op, Policy, Settings};
use super::subject::{Answer, Handle, How, Options, Submission, Unstarted};
use super::twinned::Twinned;

/// Longer than any keep-alive or timeout of a program.
const AGE: Duration = Duration::from_secs(3600);

/// Runs the whole program, then releases the pool and checks that nothing is left.
pub(crate) fn walk(settings: Settings, ops: &[Op]) {
    if settings.typed {
        Walk::<Func<Job, Out>>::new(settings).run(ops);
    } else {
        Walk::<Closures>::new(settings).run(ops);
    }
}

pub(super) struct Walk<K: Twinned> {
    pub(super) settings: Settings,
    pub(super) pool: WorkerPool<K>,
    pub(super) model: Model,
    pub(super) clock: ManualClock,
    pub(super) board: Board,
    pub(super) threads_refused: Arc<AtomicBool>,
    tokens: [CancelToken; CANCELLED + 1],
    pub(super) answers: Arc<Mutex<BTreeMap<Id, Answer>>>,
    pub(super) joins: Arc<Mutex<BTreeMap<Id, End>>>,
    pub(super) handles: BTreeMap<Id, Handle>,
    pub(super) futures: BTreeMap<Id, (Submission, CountingWaker)>,
    /// Tasks for which room is wanted or reserved.
    pub(super) planned: BTreeMap<Id, Job>,
    pub(super) permits: Permits<K>,
    pub(super) group: Option<TaskGroup<Out>>,
    /// Threads that wait until the pool is idle.
    pub(super) idlers: Vec<Call<Result<(), WaitError>>>,
    /// Threads that submit tasks.
    pub(super) callers: Vec<Call<()>>,
    /// Whether each submitted task was accepted; the index is its id.
    pub(super) accepted: Vec<Option<bool>>,
}

impl<K: Twinned> Walk<K> {
    fn new(settings: Settings) -> Self {
        let clock = ManualClock::new();
        let threads_refused = Arc::new(AtomicBool::new(false));
        let refused = Arc::clone(&threads_refused);
        let tokens: [CancelToken; CANCELLED + 1] = array::from_fn(|_| CancelToken::new());
        tokens[CANCELLED].cancel();
        let on_full = match settings.on_full {
            Policy::Wait => OnFull::Wait(None),
            Policy::Refuse => OnFull::Refuse,
            Policy::RunInCaller => OnFull::RunInCaller,
            Policy::DiscardOldest => OnFull::DiscardOldest,
            Policy::DiscardNewest => OnFull::DiscardNewest,
        };
        let mut builder = K::builder()
            .keep_alive(settings.keep_alive)
            .on_full(on_full)
            .discard_hook(|_| ())
            .min_workers(settings.min_workers)
            .prestart(settings.prestart)
            .preallocate(settings.preallocate)
            .priorities(settings.priorities)
            .within_worker(settings.within_worker)
            .nesting_limit(settings.nesting_limit)
            .drop_policy(DropPolicy::Drain)
            .clock(clock.clone())
            .thread_gate(move || {
                if refused.load(Relaxed) {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    Ok(())
                }
            });
        builder = match settings.capacity {
            Some(capacity) => builder.capacity(capacity),
            None => builder.unlimited(),
        };
        builder = match settings.depth {
            Some(depth) => builder.queue_depth(depth),
            None => builder.queue_depth(QueueDepth::Unlimited),
        };
        if let Some(most) = settings.max_waiting {
            builder = builder.max_waiting(most);
        }
        Self {
            settings,
            pool: builder.build().expect("the settings are valid"),
            model: Model::new(settings),
            clock,
            board: Board::default(),
            threads_refused,
            tokens,
            answers: Arc::default(),
            joins: Arc::default(),
            handles: BTreeMap::new(),
            futures: BTreeMap::new(),
            planned: BTreeMap::new(),
            permits: Permits::default(),
            group: None,
            idlers: Vec::new(),
            callers: Vec::new(),
            accepted: Vec::new(),
        }
    }

    fn run(&mut self, ops: &[Op]) {
        self.settle(&"the building", false);
        for op in ops {
            self.step(*op);
            self.settle(op, matches!(op, Op::Advance { .. }));
        }
        self.finale();
    }

    pub(super) fn step(&mut self, op: Op) {
        match op {
            Op::Hand { how, spawn, given } => self.hand(how, spawn, given),
            Op::HandAsync { spawn, given } => self.hand_async(spawn, given),
            Op::HandWithin {
                task,
                how,
                spawn,
                given,
            } => {
                if let Some(outer) = pick(self.model.at_gates(), task) {
                    self.hand_within(outer, how, spawn, given);
                }
            }
            Op::JoinWithin { task, handle } => {
                if let Some(outer) = pick(self.model.at_gates(), task)
                    && let Some(id) = self.pick_handle(handle)
                    && self.model.may_join_within(outer, id)
                {
                    self.join_within(outer, id);
                }
            }
            Op::Finish { task, panics } => {
                if let Some(id) = pick(self.model.at_gates(), task)
                    && self.model.may_finish()
                {
                    self.finish(id, panics);
                }
            }
            Op::Cancel { handle } => {
                if let Some(id) = self.pick_handle(handle)
                    && !self.model.leaves_a_tombstone(id)
                {
                    assert_eq!(self.handles[&id].cancel(), self.model.cancel(id));
                }
            }
            Op::Join { handle } => {
                if let Some(id) = self.pick_handle(handle) {
                    self.join(id);
                }
            }
            Op::Detach { handle } => {
                if let Some(id) = self.pick_handle(handle) {
                    self.handles.remove(&id);
                }
            }
            Op::Poll { future } => {
                if let Some(id) = self.pick_future(future) {
                    self.poll_again(id);
                }
            }
            Op::DropFuture { future } => {
                if let Some(id) = self.pick_future(future) {
                    self.model.withdraw(id);
                    self.accepted[id as usize] = Some(false);
                    self.futures.remove(&id);
                    self.planned.remove(&id);
                }
            }
            Op::HandBatch { tasks, waits } => self.hand_batch(tasks, waits),
            Op::Permit(step) => self.permit_step(step),
            Op::Group(step) => self.group_step(step),
            Op::CancelToken { .. } if !self.model.may_spoil() => {}
            Op::CancelToken { token } => self.cancel_token(token),
            Op::Tune { .. } | Op::Pause if self.model.is_spoilt_after(Duration::ZERO) => {}
            Op::Tune { capacity } => self.tune(capacity),
            Op::Advance { by } => {
                let by = if self.model.is_coarse() { AGE } else { by };
                if self.model.is_spoilt_after(by) && !self.model.may_spoil() {
                    return;
                }
                self.model.advance(by);
                self.clock.advance(by);
            }
            Op::Pause if !self.model.may_pause() => {}
            Op::Pause => assert_eq!(self.pool.pause(), self.model.pause()),
            Op::Resume => assert_eq!(self.pool.resume(), self.model.resume()),
            Op::Release => {
                if self.model.is_race_which_are_let_go() {
                    self.resume();
                }
                assert_eq!(self.pool.release(), self.model.release());
            }
            Op::ReleaseNow => {
                self.resume();
                self.release_now();
            }
            Op::Reboot => assert_eq!(self.pool.reboot(), self.model.reboot()),
            Op::WaitIdle => {
                let pool = self.pool.clone();
                self.idlers.push(Call::new(move || pool.wait_idle()));
            }
            Op::WaitReleased => self.wait_released(),
            Op::Threads { refused } => {
                self.model.threads_refused = refused;
                self.threads_refused.store(refused, Relaxed); // Ordered by the pool's lock.
            }
        }
    }

    fn hand(&mut self, how: How, spawn: bool, given: Given) {
        let job = self.job();
        let patience = self.patience(how);
        self.model.hand(self.last(), given, patience, spawn, None);
        let call = self.call(job, how, spawn, given);
        match how {
            How::Try => call(),
            // The call may block. Only the model knows whether it will.
            How::Wait | How::Timeout(_) => self.callers.push(Call::new(call)),
        }
    }

    fn hand_within(&mut self, outer: Id, how: How, spawn: bool, given: Given) {
        let job = self.job();
        let patience = self.patience(how);
        self.model
            .hand(self.last(), given, patience, spawn, Some(outer));
        let call = self.call(job, how, spawn, given);
        self.board.tell(outer, Verdict::Call(Box::new(call)));
    }

    fn join_within(&mut self, outer: Id, id: Id) {
        self.model.join_within(outer, id);
        let handle = self.handles.remove(&id).expect("just picked");
        let joins = Arc::clone(&self.joins);
        let call = move || {
            let end = end_of(id, handle.join());
            lock(&joins).insert(id, end);
        };
        self.board.tell(outer, Verdict::Call(Box::new(call)));
    }

    fn hand_async(&mut self, spawn: bool, given: Given) {
        let job = self.job();
        let id = self.last();
        self.model.hand(id, given, Patience::Future, spawn, None);
        let options = self.options(given);
        let future = if spawn {
            K::spawn_async(&self.pool, job, options)
        } else {
            K::submit_async(&self.pool, job, options)
        };
        self.poll_first(id, future);
    }

    pub(super) fn poll_first(&mut self, id: Id, mut future: Submission) {
        let bell = CountingWaker::new();
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(&bell.waker()));
        match polled {
            Poll::Ready(answer) => _ = lock(&self.answers).insert(id, answer),
            Poll::Pending => _ = self.futures.insert(id, (future, bell)),
        }
    }

    fn poll_again(&mut self, id: Id) {
        let (future, bell) = self.futures.get_mut(&id).expect("just picked");
        let stale = mem::replace(bell, CountingWaker::new());
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(&bell.waker()));
        assert!(polled.is_pending(), "{id} waits");
        assert_eq!((stale.wakes(), stale.wakers()), (0, 0), "the other waker");
    }

    fn cancel_token(&mut self, token: usize) {
        mem::take(&mut self.tokens[token]).cancel();
        for id in self.model.cancel_token(token) {
            // A waiting future leaves the wait queue when it is polled.
            if let Some((mut future, bell)) = self.futures.remove(&id) {
                assert_eq!(bell.wakes(), 1, "{id} is woken");
                let polled = future
                    .as_mut()
                    .poll(&mut Context::from_waker(&bell.waker()));
                let Poll::Ready(answer) = polled else {
                    panic!("{id} still waits, although its token is cancelled");
                };
                lock(&self.answers).insert(id, answer);
            }
        }
    }

    pub(super) fn finish(&mut self, id: Id, panics: bool) {
        self.model.finish(id, panics);
        let verdict = if panics {
            Verdict::Panic
        } else {
            Verdict::Return
        };
        self.board.tell(id, verdict);
    }

    pub(super) fn join(&mut self, id: Id) {
        let handle = self.handles.remove(&id).expect("just picked");
        if let Some(expected) = self.model.end_of(id) {
            let joined = Call::new(|| handle.join()).soon("a join of an ended task");
            assert_eq!(end_of(id, joined), expected, "of {id}");
        } else {
            let handle = handle.try_join().expect_err("it has not ended");
            self.handles.insert(id, handle);
        }
    }

    fn tune(&mut self, capacity: Option<usize>) {
        let tuned = match capacity {
            Some(capacity) => self.pool.tune(capacity),
            None => self.pool.tune(Capacity::Unlimited),
        };
        if self.model.tune(capacity) {
            assert_eq!(tuned, Ok(()));
        } else {
            let refused = match capacity {
                Some(_) => TuneError::ZeroCapacity,
                None => TuneError::PreallocateUnlimited,
            };
            assert_eq!(tuned, Err(refused));
        }
    }

    /// Resumes a paused pool before a release: which workers the release would notify, and which it
    /// would retire, is a race.
    fn resume(&mut self) {
        if self.model.paused {
            self.step(Op::Resume);
            self.settle(&"the resume before a release", false);
        }
    }

    fn release_now(&mut self) {
        let back = self.model.release_now();
        match K::release_now(&self.pool) {
            Unstarted::Number(number) => assert_eq!(number, back.len()),
            Unstarted::Jobs(jobs) => assert_eq!(jobs, back),
        }
        for id in back {
            assert_eq!(self.board.fate(id), Fate { runs: 0, drops: 1 }, "of {id}");
        }
    }

    pub(super) fn wait_released(&mut self) {
        if self.model.has_ended() {
            let pool = self.pool.clone();
            let waited = Call::new(move || pool.wait_released());
            assert_eq!(waited.soon("the end"), Ok(()));
        } else {
            let waited = self.pool.wait_released_timeout(Duration::ZERO);
            assert_eq!(waited, Err(WaitError::TimedOut));
        }
    }
}

/// Smaller steps.
impl<K: Twinned> Walk<K> {
    pub(super) fn job(&mut self) -> Job {
        let id = self.last_id();
        self.accepted.push(None);
        self.board.job(id)
    }

    pub(super) fn last_id(&self) -> Id {
        Id::try_from(self.accepted.len()).expect("programs are short")
    }

    /// The newest task.
    pub(super) fn last(&self) -> Id {
        self.last_id() - 1
    }

    fn patience(&self, how: How) -> Patience {
        match how {
            How::Try => Patience::None,
            How::Wait => match self.settings.on_full {
                Policy::Wait => Patience::Thread(None),
                Policy::Refuse => Patience::None,
                Policy::RunInCaller => Patience::RunInCaller,
                Policy::DiscardOldest => Patience::DiscardOldest,
                Policy::DiscardNewest => Patience::DiscardNewest,
            },
            How::Timeout(timeout) => Patience::Thread(Some(timeout)),
        }
    }

    fn options(&self, given: Given) -> Option<Options> {
        (!given.is_nothing()).then(|| Options {
            priority: if self.settings.priorities {
                given.priority
            } else {
                Priority::Normal // A pool without priorities refuses others.
            },
            token: given.token.map(|token| self.tokens[token].clone()),
            start_before: given.within.map(|within| self.clock.now() + within),
        })
    }

    fn call(
        &self,
        job: Job,
        how: How,
        spawn: bool,
        given: Given,
    ) -> impl FnOnce() + Send + 'static {
        let options = self.options(given);
        let (pool, answers, id) = (self.pool.clone(), Arc::clone(&self.answers), self.last());
        move || {
            let answer = if spawn {
                K::spawn(&pool, job, how, options)
            } else {
                K::submit(&pool, job, how, options)
            };
            lock(&answers).insert(id, answer);
        }
    }

    fn pick_handle(&self, index: usize) -> Option<Id> {
        pick(self.handles.keys().copied(), index)
    }

    fn pick_future(&self, index: usize) -> Option<Id> {
        let waits = |id: &Id| self.model.is_waiting(*id);
        pick(self.futures.keys().copied().filter(waits), index)
    }
}

impl<K: Twinned> Drop for Walk<K> {
    fn drop(&mut self) {
        if thread::panicking() {
            // Releases the threads of a failed walk. Its further results are ignored.
            _ = catch_unwind(AssertUnwindSafe(|| {
                self.threads_refused.store(false, Relaxed);
                self.board.end_all();
                self.pool.release();
                self.clock.advance(AGE);
            }));
        }
    }
}

pub(super) fn end_of(id: Id, joined: Result<Id, JoinError>) -> End {
    match joined {
        Ok(value) => {
            assert_eq!(value, id, "the value of another task");
            End::Value
        }
        Err(JoinError::Panicked(mut panicked)) => {
            let payload = panicked.payload_mut().downcast_ref::<Deliberate>();
            assert_eq!(payload.map(|deliberate| deliberate.0), Some(id));
            End::Panicked
        }
        Err(JoinError::Cancelled) => End::Cancelled,
        Err(JoinError::Released) => End::Released,
        Err(JoinError::Discarded) => End::Discarded,
        Err(JoinError::Expired) => End::Expired,
        Err(JoinError::WouldDeadlock) => End::Refused,
        Err(other) => panic!("no program leads to {other:?}"),
    }
}

/// The task that a step selects.
pub(super) fn pick(among: impl IntoIterator<Item = Id>, index: usize) -> Option<Id> {
    let ids: Vec<Id> = among.into_iter().collect();
    ids.get(index.checked_rem(ids.len())?).copied()
}

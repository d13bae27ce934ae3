//! Runs a program: each step on the timer and on the model, then compares the two.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pool_core::{JoinError, ManualClock};
use scheduled_pool::OnPanic;
use scheduled_pool::internals::{Config, Core, Joinable, Joined, Kept, Many, Plan, Waiter};
use testkit::{CountingWaker, DropCounter, waker_fn};

use super::model::{End, Model};
use super::pool::Pool;
use super::program::{Deed, Op, Settings};

type Handle = Arc<dyn Joinable<()>>;

/// State shared with the tasks.
struct Shared {
    core: Arc<Core<Pool>>,
    /// In the order of scheduling; `None` once dropped.
    handles: Mutex<Vec<Option<Handle>>>,
    drops: DropCounter,
}

struct Walk {
    shared: Arc<Shared>,
    pool: Pool,
    clock: ManualClock,
    model: Model,
    /// Whether the outcome of each schedule was taken.
    taken: Vec<bool>,
    wakers: CountingWaker,
    kept: Arc<Mutex<usize>>,
}

impl Shared {
    fn deed(self: &Arc<Self>, deed: Deed) {
        match deed {
            Deed::Nothing => {}
            Deed::Panic => panic!("the program asks for it"),
            Deed::Cancel(pick) => {
                if let Some(handle) = self.pick(pick) {
                    handle.cancel();
                }
            }
            Deed::Schedule => self.once(0, Deed::Nothing),
            Deed::Release => _ = self.core.release(true),
        }
    }

    fn pick(&self, pick: usize) -> Option<Handle> {
        let handles = self.handles.lock().unwrap();
        handles.get(pick % handles.len().max(1))?.clone()
    }

    fn due(&self, delay: u64) -> u64 {
        self.core
            .after(Duration::from_nanos(delay))
            .max(if delay == u64::MAX { delay } else { 0 })
    }

    /// A closure that performs the action at each call, and is counted while it is alive.
    fn task(self: &Arc<Self>, deed: Deed) -> impl FnMut() + Send + 'static {
        let (shared, token) = (Arc::downgrade(self), self.drops.token());
        move || {
            let _ = &token;
            if let Some(shared) = shared.upgrade() {
                shared.deed(deed);
            }
        }
    }

    fn once(self: &Arc<Self>, delay: u64, deed: Deed) {
        let scheduled = self.core.once(self.due(delay), self.task(deed));
        self.note(scheduled.ok());
    }

    fn note(&self, scheduled: Option<Handle>) {
        if let Some(handle) = scheduled {
            self.handles.lock().unwrap().push(Some(handle));
        }
    }
}

impl Walk {
    fn new(settings: Settings) -> Self {
        let (pool, clock) = (Pool::new(settings.room), ManualClock::new());
        let kept = Arc::new(Mutex::new(0));
        let let_go = Arc::clone(&kept);
        let keep = Box::new(move |_| {
            *let_go.lock().unwrap() += 1;
            Box::new(()) as Kept
        });
        let mut config = Config::default();
        config.release_policy.continue_series = settings.continue_series;
        config.release_policy.run_pending = settings.run_pending;
        let core = Core::new(pool.clone(), Arc::new(clock.clone()), config, keep);
        let shared = Arc::new(Shared {
            core,
            handles: Mutex::default(),
            drops: DropCounter::new(),
        });
        Self {
            shared,
            pool,
            clock,
            model: Model::new(settings),
            taken: Vec::new(),
            wakers: CountingWaker::new(),
            kept,
        }
    }

    fn model_deed(&mut self, deed: Deed) {
        match deed {
            Deed::Nothing | Deed::Panic => {}
            Deed::Cancel(pick) => {
                if let Some(id) = self.id(pick) {
                    self.model.cancel(id);
                }
            }
            Deed::Schedule => _ = self.model.schedule(0, None, Deed::Nothing),
            Deed::Release => self.model.release(),
        }
    }

    /// The schedule that a number selects, if its handle exists.
    fn id(&self, pick: usize) -> Option<usize> {
        let handles = self.shared.handles.lock().unwrap();
        let id = pick % handles.len().max(1);
        handles.get(id)?.as_ref().map(|_| id)
    }

    fn step(&mut self, op: Op) {
        let (shared, core) = (Arc::clone(&self.shared), Arc::clone(&self.shared.core));
        match op {
            Op::Once { delay, deed } => {
                self.model.schedule(delay, None, deed);
                shared.once(delay, deed);
            }
            Op::Series {
                delay,
                rest,
                runs,
                deed,
            } => {
                self.model.schedule(delay, Some((rest, runs)), deed);
                let body = Many {
                    task: shared.task(deed),
                    left: runs,
                    on_panic: OnPanic::Stop,
                };
                let plan = Plan::FixedDelay { delay: rest };
                let scheduled = core.series(shared.due(delay), plan, body);
                shared.note(scheduled.ok());
            }
            Op::Cancel { handle } => {
                if let (Some(id), Some(handle)) = (self.id(handle), shared.pick(handle)) {
                    assert_eq!(handle.cancel(), self.model.cancel(id));
                }
            }
            Op::Reset { handle, delay } => {
                if let (Some(id), Some(handle)) = (self.id(handle), shared.pick(handle)) {
                    let reset = handle.reset(shared.due(delay));
                    assert_eq!(reset, self.model.reset(id, delay));
                }
            }
            Op::Poll { handle, panics } => self.poll(handle, panics),
            Op::TryJoin { handle } => {
                if let (Some(id), Some(handle)) = (self.id(handle), shared.pick(handle)) {
                    self.check_outcome(id, handle.take_or_wait(None));
                }
            }
            Op::Drop { handle } => {
                if let Some(id) = self.id(handle) {
                    let handle = shared.handles.lock().unwrap()[id].take();
                    handle.unwrap().detach();
                }
            }
            Op::Advance { by } => {
                self.model.now += by;
                self.clock.advance(Duration::from_nanos(by));
            }
            Op::Run => {
                let run = self.model.begin();
                if let Some((id, deed)) = run {
                    self.model_deed(deed);
                    // A schedule made by the run is due, and is offered before or after the run
                    // ends.
                    self.model.settle();
                    self.model.finish(id, deed == Deed::Panic);
                }
                self.pool.run();
            }
            Op::Release => {
                assert_eq!(core.release(true), self.model.open);
                self.model.release();
            }
            Op::ReleaseNow => {
                core.release_now();
                self.model.release_now();
            }
            // Only if no offer is being made: see `settle`.
            Op::ReleaseElsewhere if self.model.open => {
                self.pool.release(&core);
                self.model.release_elsewhere();
            }
            Op::ReleaseElsewhere => {}
        }
    }

    fn poll(&mut self, pick: usize, panics: bool) {
        let (Some(id), Some(handle)) = (self.id(pick), self.shared.pick(pick)) else {
            return;
        };
        let (inner, shared) = (self.wakers.waker(), Arc::downgrade(&self.shared));
        let waker = waker_fn(move || {
            inner.wake_by_ref();
            if let Some(shared) = shared.upgrade() {
                assert!(shared.core.stats().unended < usize::MAX, "it calls back");
            }
            assert!(!panics, "a waker's own affair");
        });
        self.check_outcome(id, handle.take_or_wait(Some(Waiter::Task(waker))));
    }

    fn check_outcome(&mut self, id: usize, joined: Option<Joined<()>>) {
        self.taken.resize(self.taken.len().max(id + 1), false);
        let expected = self.model.ended(id);
        let taken = expected.is_some() && std::mem::replace(&mut self.taken[id], true);
        match (joined, expected) {
            (None, None) => {}
            (Some(Err(JoinError::Taken)), Some(_)) if taken => {}
            (Some(joined), Some(end)) if !taken => {
                let is_so = match end {
                    End::Done => joined.is_ok(),
                    End::Panicked => matches!(joined, Err(JoinError::Panicked(_))),
                    End::Cancelled => matches!(joined, Err(JoinError::Cancelled)),
                    End::Released => matches!(joined, Err(JoinError::Released)),
                };
                assert!(is_so, "{end:?}, but {joined:?}");
            }
            (joined, expected) => panic!("{expected:?}, but {joined:?}"),
        }
    }

    /// Waits until the timer has offered all due schedules and recorded their places, and equals
    /// the model.
    fn settle(&mut self) {
        self.model.settle();
        let core = &self.shared.core;
        let place = |core: &Core<Pool>| {
            let stats = core.stats();
            ((stats.pending, stats.unended), self.pool.lengths())
        };
        let expected = (
            (self.model.pending(), self.model.unended()),
            self.model.lengths(),
        );
        let mut looks = 0_u64;
        while place(core) != expected {
            looks += 1;
            assert!(looks < 200_000, "{:?}, not {expected:?}", place(core));
            thread::yield_now();
        }
        if self.model.open {
            // The timer records each offer before it makes the next one, which is this marker.
            self.pool.mark();
            let marker = core.once(core.after(Duration::ZERO), || ());
            let Ok(marker) = marker else {
                panic!("it is open")
            };
            while !self.pool.is_marked() {
                thread::yield_now();
            }
            assert!(marker.cancel());
        }
        let handles = self.shared.handles.lock().unwrap();
        for (id, handle) in handles.iter().enumerate() {
            let Some(handle) = handle else { continue };
            assert_eq!(handle.is_ended(), self.model.ended(id).is_some(), "{id}");
            assert_eq!(handle.runs(), self.model.runs(id), "{id}");
        }
    }

    fn finish(mut self) {
        self.step(Op::ReleaseNow);
        self.settle();
        while self.pool.run() {}
        assert!(self.shared.core.wait_released(None));
        assert_eq!(self.shared.core.stats().unended, 0);
        assert_eq!(*self.kept.lock().unwrap(), 1);
        let drops = self.shared.drops.clone();
        self.shared.handles.lock().unwrap().clear();
        assert_eq!((drops.alive(), self.wakers.wakers()), (0, 0));
    }
}

/// Runs a whole program.
pub(crate) fn walk(settings: Settings, ops: &[Op]) {
    let mut walk = Walk::new(settings);
    for &op in ops {
        walk.step(op);
        walk.settle();
    }
    walk.finish();
}

//! Getters and drains as futures, with wakers that call the queue, panic, or drop other futures.
//!
//! The model is an executor, which polls the woken futures, and not the queue. It checks after
//! each step:
//!
//! 1. As many futures wait as the queue counts. None of them waits while a key is ready for it,
//!    while the queue has ended, or while a due time approaches without an alarm.
//! 2. A key has one worker at a time, and only owed keys are delivered.
//! 3. In the end, every owed key was delivered, cancelled or left over.
//!
//! Shared with the fuzz target `dedup_queue_takers`.

pub(crate) mod program;

use std::future::Future;
use std::hash::RandomState;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use dedup_queue::{
    Added, Clock, DedupRetryQueue, DrainFuture, FastSlow, GetError, GetFuture, Held, Leftovers,
    ManualClock, Retried, Retrying,
};

use program::{Act, DRAINS, GETTERS, KEYS, Op, Settings};

type Queue = DedupRetryQueue<u8, RandomState, ManualClock>;
type Getter = GetFuture<u8, RandomState, ManualClock, Retrying>;
type Drain = DrainFuture<u8, RandomState, ManualClock, Retrying>;
type Key = Held<'static, u8, Retrying>;

/// The depth to which wakers may act within wakers.
const DEEPEST: usize = 6;

pub(crate) fn walk(settings: Settings, ops: &[Op]) {
    quiet_panics();
    let world = World::new(settings);
    for op in ops {
        world.step(*op);
        world.check();
    }
    world.finish();
}

/// The panics of acts are expected, those of the checks are not.
fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<Expected>().is_none() {
                before(info);
            }
        }));
    });
}

/// The payload of an act's panic.
struct Expected;

fn panic_as_expected() {
    if !std::thread::panicking() {
        std::panic::panic_any(Expected);
    }
}

/// Runs an act whose panic is expected.
fn catch<R>(run: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Expected>() => None,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// A slot for a future: present, or taken out to be polled.
struct Place<F> {
    future: Option<F>,
    /// It has been polled and is pending.
    pending: bool,
    woken: bool,
    /// The number of futures that this slot has had: a waker of an earlier one wakes no later one.
    generation: u64,
}

impl<F> Place<F> {
    fn new() -> Self {
        Self {
            future: None,
            pending: false,
            woken: false,
            generation: 0,
        }
    }

    /// Whether its future waits and was not woken.
    fn waits(&self) -> bool {
        self.pending && !self.woken
    }
}

struct World {
    me: Weak<Self>,
    queue: Queue,
    clock: ManualClock,
    getters: [Mutex<Place<Getter>>; GETTERS],
    drains: [Mutex<Place<Drain>>; DRAINS],
    books: Mutex<Books>,
}

/// The holder of each key, and the keys that are owed a delivery.
#[derive(Default)]
struct Books {
    held: Vec<Key>,
    owed: [bool; KEYS as usize],
    /// The keys that are owed a delivery for their failures alone.
    only_failed: [bool; KEYS as usize],
    /// The step or act at which each key became owed.
    since: [u64; KEYS as usize],
    now: u64,
    depth: usize,
    is_shut: bool,
}

#[derive(Clone, Copy)]
enum Whose {
    Getter(usize),
    Drain(usize),
}

/// A future's waker.
struct Acts {
    world: Weak<World>,
    whose: Whose,
    generation: u64,
    act: Act,
}

impl Wake for Acts {
    fn wake(self: Arc<Self>) {
        if let Some(world) = self.world.upgrade() {
            world.woken(self.whose, self.generation);
            world.act(self.whose, self.act);
        }
    }
}

impl Drop for Acts {
    fn drop(&mut self) {
        if self.act == Act::PanicOnDrop {
            panic_as_expected();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl World {
    fn new(settings: Settings) -> Arc<Self> {
        let clock = ManualClock::new();
        let delay = millis(settings.delay);
        let mut builder = DedupRetryQueue::<u8>::builder()
            .clock(clock.clone())
            .limiter(FastSlow::new(delay, 4 * delay, 2))
            .failure_expiry(settings.expiry.map(millis));
        if let Some(most) = settings.max_attempts {
            builder = builder.max_attempts(most);
        }
        let queue = builder.build();
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            queue,
            clock,
            getters: std::array::from_fn(|_| Mutex::new(Place::new())),
            drains: std::array::from_fn(|_| Mutex::new(Place::new())),
            books: Mutex::new(Books::default()),
        })
    }

    fn step(&self, op: Op) {
        match op {
            Op::Add(key) => self.add(key),
            Op::AddAfter(key, span) => {
                self.owes(key, || {
                    self.queue.add_after(key, millis(span)).map(drop).is_ok()
                });
            }
            Op::AddRateLimited(key) => {
                self.fails(key, || self.queue.add_rate_limited(key).ok());
            }
            Op::Remove(key) => {
                if self.queue.remove(&key).is_some() {
                    lock(&self.books).owed[usize::from(key)] = false;
                }
            }
            Op::TryGet => self.try_get(),
            Op::Done(which) => self.let_go(which, Held::done),
            Op::Succeed(which) => self.let_go(which, Held::succeed),
            Op::Retry(which) => {
                if let Some(held) = self.pick(which) {
                    self.fails(*held, || Some(held.retry()));
                }
            }
            Op::RetryAfter(which, span) => {
                if let Some(held) = self.pick(which) {
                    let key = *held;
                    self.owes(key, || {
                        held.retry_after(millis(span));
                        true
                    });
                }
            }
            Op::Get(place, act) => self.poll_getter(place, act),
            Op::Drain(place, act) => self.poll_drain(place, act),
            Op::DropGetter(place) => self.drop_getter(place),
            Op::DropDrain(place) => self.drop_drain(place),
            Op::RunWoken(act) => self.run_woken(act),
            Op::DrainNow => {
                let now = self.clock.now();
                lock(&self.books).is_shut = true;
                let drained = self.queue.drain_timeout(now);
                self.claim(drained.leftovers);
            }
            Op::ShutDown => self.shut_down(),
            Op::Advance(span) => self.clock.advance(millis(span)),
        }
    }

    fn woken(&self, whose: Whose, generation: u64) {
        let wake = |woken: &mut bool, current: u64| *woken |= current == generation;
        match whose {
            Whose::Getter(place) => {
                let mut place = lock(&self.getters[place]);
                let current = place.generation;
                wake(&mut place.woken, current);
            }
            Whose::Drain(place) => {
                let mut place = lock(&self.drains[place]);
                let current = place.generation;
                wake(&mut place.woken, current);
            }
        }
    }

    fn act(&self, whose: Whose, act: Act) {
        {
            let mut books = lock(&self.books);
            if books.depth == DEEPEST {
                return;
            }
            books.depth += 1;
        }
        match (act, whose) {
            (Act::Poll, Whose::Getter(place)) => self.poll_getter(place, Act::Nothing),
            (Act::Poll, Whose::Drain(place)) => self.poll_drain(place, Act::Nothing),
            (Act::Take, _) => self.try_get(),
            (Act::Work, _) => {
                self.try_get();
                self.let_go(u8::MAX, Held::done);
            }
            (Act::Add(key), _) => self.add(key),
            (Act::DropGetter(place), _) => self.drop_getter(place),
            (Act::DropDrain(place), _) => self.drop_drain(place),
            (Act::ShutDown, _) => self.shut_down(),
            (Act::Nothing | Act::Panic | Act::PanicOnDrop, _) => {}
        }
        lock(&self.books).depth -= 1;
        if act == Act::Panic {
            panic_as_expected();
        }
    }

    fn shut_down(&self) {
        lock(&self.books).is_shut = true;
        self.queue.shut_down();
    }

    fn add(&self, key: u8) {
        self.owes(key, || match self.queue.add(key) {
            Ok(Added::New | Added::Moved | Added::Merged) => true,
            Ok(_) => unreachable!("there is nothing else"),
            Err(_) => false,
        });
    }

    /// The key is owed as soon as it is added, for a waker may take it before the call returns.
    fn owes(&self, key: u8, add: impl FnOnce() -> bool) {
        let key = usize::from(key);
        let before = {
            let mut books = lock(&self.books);
            books.now += 1;
            let before = (books.owed[key], books.since[key], books.only_failed[key]);
            (books.owed[key], books.since[key]) = (true, books.now);
            books.only_failed[key] = false;
            before
        };
        if !add() {
            let mut books = lock(&self.books);
            (books.owed[key], books.since[key], books.only_failed[key]) = before;
        }
    }

    /// A failure, after which the key is owed a try or given up: then it is owed its other deliveries.
    fn fails(&self, key: u8, fail: impl FnOnce() -> Option<Retried>) {
        let place = usize::from(key);
        let (was_owed, only_failed) = {
            let books = lock(&self.books);
            (books.owed[place], books.only_failed[place])
        };
        let only_failed = !was_owed || only_failed;
        let mut mine = 0;
        self.owes(key, || {
            let failed = {
                let mut books = lock(&self.books);
                books.only_failed[place] = only_failed;
                mine = books.since[place];
                drop(books);
                fail()
            };
            let mut books = lock(&self.books);
            if failed == Some(Retried::GivenUp) && only_failed && books.since[place] == mine {
                books.owed[place] = false;
            }
            failed.is_some() // A given-up key is no refusal: a waker may have taken it since.
        });
    }

    /// A take, during which wakers may add the key again.
    fn takes<R>(&self, take: impl FnOnce() -> R, key: impl FnOnce(R) -> Option<Key>) {
        let begin = {
            let mut books = lock(&self.books);
            books.now += 1;
            books.now
        };
        let Some(held) = key(take()) else { return };
        let mut books = lock(&self.books);
        let key = usize::from(*held);
        assert!(
            books.held.iter().all(|other| **other != *held),
            "two workers hold {key}"
        );
        if books.since[key] < begin {
            assert!(books.owed[key], "{key} was not owed");
            books.owed[key] = false;
        }
        books.held.push(held);
    }

    fn try_get(&self) {
        self.takes(
            || self.queue.try_get().map(Held::into_owned),
            |got| match got {
                Ok(held) => Some(held),
                Err(GetError::Empty | GetError::Closed) => None,
                Err(other) => panic!("{other}"),
            },
        );
    }

    fn pick(&self, which: u8) -> Option<Key> {
        let mut books = lock(&self.books);
        let place = usize::from(which).checked_rem(books.held.len())?;
        Some(books.held.swap_remove(place))
    }

    fn let_go(&self, which: u8, how: impl FnOnce(Key)) {
        if let Some(held) = self.pick(which) {
            how(held);
        }
    }

    fn waker(&self, whose: Whose, generation: u64, act: Act) -> Waker {
        Waker::from(Arc::new(Acts {
            world: self.me.clone(),
            whose,
            generation,
            act,
        }))
    }

    fn poll_getter(&self, place: usize, act: Act) {
        let (mut future, generation) = {
            let mut slot = lock(&self.getters[place]);
            if slot.future.is_none() {
                if slot.pending {
                    return; // It is being polled further up the stack.
                }
                slot.generation += 1;
                slot.future = Some(self.queue.get_async());
            }
            (slot.pending, slot.woken) = (true, false);
            let Some(future) = slot.future.take() else {
                return;
            };
            (future, slot.generation)
        };
        let waker = self.waker(Whose::Getter(place), generation, act);
        let mut is_over = false;
        self.takes(
            || Pin::new(&mut future).poll(&mut Context::from_waker(&waker)),
            |polled| match polled {
                Poll::Pending => None,
                Poll::Ready(got) => {
                    is_over = true;
                    match got {
                        Ok(held) => Some(held),
                        Err(GetError::Closed) => None,
                        Err(other) => panic!("{other}"),
                    }
                }
            },
        );
        {
            let mut slot = lock(&self.getters[place]);
            if is_over {
                slot.pending = false;
            } else {
                slot.future = Some(future);
            }
        }
        _ = catch(|| drop(waker));
    }

    fn poll_drain(&self, place: usize, act: Act) {
        let (mut future, generation) = {
            let mut slot = lock(&self.drains[place]);
            if slot.future.is_none() {
                if slot.pending {
                    return; // As above.
                }
                slot.generation += 1;
                slot.future = Some(self.queue.drain_async());
            }
            (slot.pending, slot.woken) = (true, false);
            let Some(future) = slot.future.take() else {
                return;
            };
            (future, slot.generation)
        };
        lock(&self.books).is_shut = true;
        let waker = self.waker(Whose::Drain(place), generation, act);
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
        let ended = match polled {
            Poll::Pending => None,
            Poll::Ready(drained) => Some(drained.leftovers),
        };
        {
            let mut slot = lock(&self.drains[place]);
            if ended.is_some() {
                slot.pending = false;
            } else {
                slot.future = Some(future);
            }
        }
        self.claim(ended.flatten());
        _ = catch(|| drop(waker));
    }

    fn claim(&self, left: Option<Leftovers<u8>>) {
        let Some(left) = left else { return };
        let mut books = lock(&self.books);
        let pending = left.held.iter().filter(|held| held.pending.is_some());
        let keys = left
            .ready
            .iter()
            .chain(left.delayed.iter().map(|left| &left.key));
        for key in keys.chain(pending.map(|held| &held.key)) {
            books.owed[usize::from(*key)] = false;
        }
    }

    fn drop_getter(&self, place: usize) {
        let mut slot = lock(&self.getters[place]);
        if let Some(future) = slot.future.take() {
            slot.pending = false;
            drop(slot);
            drop(future); // The panics of wakers are caught, this one is passed on.
        }
    }

    fn drop_drain(&self, place: usize) {
        let mut slot = lock(&self.drains[place]);
        if let Some(future) = slot.future.take() {
            slot.pending = false;
            drop(slot);
            drop(future); // As above.
        }
    }

    fn run_woken(&self, act: Act) {
        for place in 0..GETTERS {
            let is_woken = {
                let slot = lock(&self.getters[place]);
                slot.pending && slot.woken
            };
            if is_woken {
                self.poll_getter(place, act);
            }
        }
        for place in 0..DRAINS {
            let is_woken = {
                let slot = lock(&self.drains[place]);
                slot.pending && slot.woken
            };
            if is_woken {
                self.poll_drain(place, act);
            }
        }
    }

    /// The invariants.
    fn check(&self) {
        let waiting = |place: &Mutex<Place<_>>| lock(place).waits();
        let getters = self.getters.iter().filter(|place| waiting(place)).count();
        let draining = |place: &Mutex<Place<_>>| lock(place).waits();
        let drains = self.drains.iter().filter(|place| draining(place)).count();
        let woken = self.getters.iter().any(|place| {
            let place = lock(place);
            place.pending && place.woken
        });
        let stats = self.queue.stats();
        // The lookup itself may have let a key fall due.
        let getters_now = self.getters.iter().filter(|place| waiting(place)).count();
        assert_eq!(stats.draining, drains, "drains that were not answered");
        assert!(
            stats.waiting <= getters && getters_now <= stats.waiting,
            "{stats:?}"
        );
        assert!(
            getters_now == 0 || stats.ready == 0 || woken || getters_now < getters,
            "a key is ready, and no getter was woken for it: {stats:?}"
        );
        assert!(
            drains == 0 || stats.ready + stats.held > 0,
            "a drain should have ended"
        );
        let is_closed = lock(&self.books).is_shut && stats.ready + stats.dirty == 0;
        assert!(
            getters_now == 0 || !is_closed,
            "getters were not woken at the end"
        );
        if getters_now > 0 && stats.delayed > 0 && !lock(&self.books).is_shut {
            assert!(
                self.clock.sleepers() > 0 || woken,
                "no leader and no alarm: {stats:?}"
            );
        }
        assert_eq!(stats.held, lock(&self.books).held.len());
    }

    /// All keys are released, dropped and drained: no owed key is missing.
    fn finish(&self) {
        for place in 0..GETTERS {
            self.drop_getter(place);
        }
        for place in 0..DRAINS {
            self.drop_drain(place);
        }
        self.check();
        while let Some(held) = self.pick(0) {
            held.done();
        }
        let drained = self.queue.drain_timeout(self.clock.now());
        self.claim(drained.leftovers);
        let books = lock(&self.books);
        assert_eq!(books.owed, [false; KEYS as usize], "keys were lost");
        let stats = self.queue.stats();
        assert_eq!((stats.waiting, stats.draining, stats.held), (0, 0, 0));
    }
}

//! User code that waits, called in the effects of a critical section. Its thread does not count as
//! waiting, and no other thread is blocked.

use std::future::Future;
use std::hash::{Hash, Hasher};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use loom::future::block_on;
use loom::thread::{self, ThreadId};
use sync_shim::model::spawn;
use sync_shim::{Alarm, Condvar, ManualClock, Mutex, Parker};

use dedup_queue::{Clock, Delaying, FastSlow, GetError, Held, KeyQueue, Outcome, Retrying};

use super::{Fixed, Queue, SECOND, beside, is_at_rest, plain};

/// Opens once.
#[derive(Clone)]
struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let mut open = self.0.0.lock();
        while !*open {
            self.0.1.wait(&mut open);
        }
    }
}

/// Waits once, on one thread: on another queue, then at a latch.
struct Waits {
    on: ThreadId,
    told: Latch,
    latch: Latch,
    other: Queue,
    /// Not modelled: it is set while there is one thread.
    begin: AtomicBool,
}

/// A key whose drop waits if it contains a `Waits`.
#[derive(Clone)]
struct Key(u32, Option<Arc<Waits>>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl Eq for Key {}
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl Drop for Key {
    fn drop(&mut self) {
        let Some(waits) = &self.1 else { return };
        if !waits.begin.load(Relaxed) {
            return;
        }
        waits.told.open();
        if thread::current().id() == waits.on && waits.begin.swap(false, Relaxed) {
            assert_eq!(*waits.other.get().unwrap(), 7);
            waits.latch.wait();
        }
    }
}

type Keys = KeyQueue<Key, Fixed, ManualClock, Retrying>;

/// A queue that remembers one key, which expires in a second. Its drop then waits.
fn about_to_expire() -> (Keys, ManualClock, Arc<Waits>) {
    let clock = ManualClock::new();
    let queue: Keys = KeyQueue::<Key, _, _, Retrying>::builder()
        .hasher(Fixed::default())
        .clock(clock.clone())
        .limiter(FastSlow::new(Duration::ZERO, Duration::ZERO, 1))
        .failure_expiry(SECOND)
        .build();
    let waits = Arc::new(Waits {
        on: thread::current().id(),
        told: Latch::new(),
        latch: Latch::new(),
        other: plain(),
        begin: AtomicBool::new(false),
    });
    let key = Key(9, Some(Arc::clone(&waits)));
    queue.add(key).map_err(drop).unwrap();
    queue.get().unwrap().retry();
    queue.get().unwrap().done(); // The key rests.
    waits.other.add(7).unwrap();
    waits.begin.store(true, Relaxed);
    (queue, clock, waits)
}

/// A getter without a key drops an expired one, and that drop waits for another worker: the worker,
/// already asleep, gets a key that is added meanwhile.
#[testkit::model(preemptions = 2)]
fn a_getter_in_user_code_is_not_notified_of_a_key() {
    let (queue, clock, waits) = about_to_expire();
    let worker = {
        let (queue, waits) = (queue.clone(), Arc::clone(&waits));
        spawn(move || work(&queue, &waits.latch))
    };
    while queue.stats().waiting == 0 {
        thread::yield_now();
    }
    let adder = {
        let (queue, waits) = (queue.clone(), Arc::clone(&waits));
        spawn(move || {
            clock.advance(SECOND);
            queue.stats(); // Expires the key unless the getter has done so.
            waits.told.wait();
            queue.add(Key(1, None)).map_err(drop).unwrap();
        })
    };
    work(&queue, &waits.latch);
    worker.join().unwrap();
    adder.join().unwrap();
    let stats = queue.stats();
    assert_eq!((stats.ready, stats.held, stats.waiting), (0, 0, 0));
}

/// The first key opens the latch and adds another one.
fn work(queue: &Keys, latch: &Latch) {
    work_on(queue, &queue.get().unwrap(), latch);
}

fn work_on(queue: &Keys, held: &Held<'_, Key, Retrying>, latch: &Latch) {
    if held.0 == 1 {
        latch.open();
        queue.add(Key(2, None)).map_err(drop).unwrap();
    }
}

/// The same for futures, of which the first to wait is the first to be notified: a future whose
/// poll runs user code does not count as waiting.
#[testkit::model(preemptions = 2)]
fn a_future_in_user_code_is_not_notified_of_a_key() {
    let (queue, clock, waits) = about_to_expire();
    let worker = {
        let (queue, waits) = (queue.clone(), Arc::clone(&waits));
        spawn(move || {
            waits.told.wait();
            work_on(&queue, &block_on(queue.get_async()).unwrap(), &waits.latch);
        })
    };
    let adder = {
        let (queue, waits) = (queue.clone(), Arc::clone(&waits));
        spawn(move || {
            clock.advance(SECOND);
            queue.stats(); // Expires the key unless the getter has done so.
            waits.told.wait();
            queue.add(Key(1, None)).map_err(drop).unwrap();
        })
    };
    work_on(&queue, &block_on(queue.get_async()).unwrap(), &waits.latch);
    worker.join().unwrap();
    adder.join().unwrap();
    let stats = queue.stats();
    assert_eq!((stats.ready, stats.held, stats.waiting), (0, 0, 0));
}

/// A clock that knows which threads are setting an alarm. It jumps to the alarm's time and rings
/// before the alarm is set.
#[derive(Clone, Debug)]
struct Jumping(ManualClock, Setting);

/// Not modelled: loom runs one thread at a time.
type Setting = Arc<std::sync::Mutex<Vec<ThreadId>>>;

impl Clock for Jumping {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        let this = thread::current().id();
        self.1.lock().unwrap().push(this);
        self.0.advance(when.saturating_duration_since(self.0.now()));
        let alarm = self.0.wake_at(when, waker);
        self.1.lock().unwrap().retain(|&other| other != this);
        alarm
    }
}

/// Records whether it was woken while an alarm was being set.
struct NotWithin(Setting, Arc<AtomicBool>);

impl Wake for NotWithin {
    fn wake(self: Arc<Self>) {
        let this = thread::current().id();
        if self.0.lock().unwrap().contains(&this) {
            self.1.store(true, Relaxed);
        }
    }
}

/// Alarms ring while another thread's add sets them: every key is announced, and no waker runs
/// inside the call that sets an alarm.
#[testkit::model(preemptions = 2)]
fn an_alarm_that_rings_while_it_is_set_wakes_after_that() {
    let setting = Setting::default();
    let within = Arc::new(AtomicBool::new(false));
    let queue: KeyQueue<u32, Fixed, Jumping, Delaying> = KeyQueue::<u32, _, _, Delaying>::builder()
        .hasher(Fixed::default())
        .clock(Jumping(ManualClock::new(), Arc::clone(&setting)))
        .build();
    let waker = Waker::from(Arc::new(NotWithin(setting, Arc::clone(&within))));
    let mut futures = [queue.get_async(), queue.get_async(), queue.get_async()];
    for future in &mut futures {
        let polled = Pin::new(future).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    let adder = beside(&queue, |queue| _ = queue.add_after(1, SECOND).unwrap());
    queue.add_after(2, 2 * SECOND).unwrap();
    queue.add_after(3, 3 * SECOND).unwrap();
    adder.join().unwrap();
    let mut keys = 0;
    for future in &mut futures {
        match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(held) => keys += *held.unwrap(),
            Poll::Pending => panic!("there is a key for each"),
        }
    }
    assert_eq!(keys, 6);
    assert!(
        !within.load(Relaxed),
        "a waker ran while its thread set an alarm"
    );
}

/// A waker that waits until the drain has returned.
struct WaitsForDrain(Latch);

impl Wake for WaitsForDrain {
    fn wake(self: Arc<Self>) {
        self.0.wait();
    }
}

/// A removal ends a drain and closes the queue for a future, whose waker waits for that drain: the
/// drain must be notified first.
#[testkit::model(preemptions = 3)]
fn a_drain_is_notified_before_wakers_run() {
    let queue = plain();
    let drained = Latch::new();
    let waker = Waker::from(Arc::new(WaitsForDrain(drained.clone())));
    let mut called = queue.get_async();
    let first = Pin::new(&mut called).poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending());
    let mut future = queue.get_async();
    let first = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
    assert!(first.is_pending());
    queue.add(1).unwrap();
    let drain = beside(&queue, move |queue| {
        let outcome = queue.drain().outcome;
        drained.open();
        outcome
    });
    while queue.stats().draining == 0 {
        thread::yield_now();
    }
    queue.remove(&1);
    assert_eq!(drain.join().unwrap(), Outcome::Finished);
    let last = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
    assert!(matches!(last, Poll::Ready(Err(GetError::Closed))));
    is_at_rest(&queue);
}

//! Models of the primitives: each one names two racing parties and the harm they must not do.

#![cfg(anthill_loom)]

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use sync_shim::alarms::{Alarms, KEEP_ALIVE, Key, State, Time};
use sync_shim::atomic::{AtomicU32, Ordering::Relaxed};
use sync_shim::cell::UnsafeCell;
use sync_shim::model::{JoinHandle, check, set_fair_wakes, spawn};
use sync_shim::{Clock, Condvar, Futex, ManualClock, Mutex, MutexGuard, Parker, PerProcess};

const SECOND: Duration = Duration::from_secs(1);

/// Plain data: a model fails if two threads access it without synchronization.
struct Plain(UnsafeCell<u32>);

// SAFETY: deliberately unsound: loom reports every unordered access.
unsafe impl Sync for Plain {}

impl Plain {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn add(&self, count: u32) {
        // SAFETY: loom checks that no other thread reaches the value.
        self.0.with_mut(|value| unsafe { *value += count });
    }

    fn get(&self) -> u32 {
        // SAFETY: loom checks that no thread writes the value.
        self.0.with(|value| unsafe { *value })
    }
}

#[testkit::model]
fn a_nested_wait_strands_neither_wait() {
    let outer = Parker::of_thread();
    let giver = {
        let outer = (*outer).clone();
        spawn(move || outer.unpark())
    };
    // After enrolment and before parking, user code runs, which may wait itself.
    let inner = Parker::of_thread();
    let inner_giver = {
        let inner = (*inner).clone();
        spawn(move || inner.unpark())
    };
    inner.park();
    drop(inner);
    outer.park();
    giver.join().expect("the giver ends well");
    inner_giver.join().expect("the giver ends well");
}

#[testkit::model]
fn a_token_given_before_or_during_a_park_publishes_earlier_writes() {
    let (parker, data) = (Parker::new(), Plain::new());
    let giver = {
        let (parker, data) = (parker.clone(), Arc::clone(&data));
        spawn(move || {
            data.add(1);
            parker.unpark();
        })
    };
    parker.park();
    assert_eq!(data.get(), 1);
    giver.join().expect("the giver ends well");
    assert!(!parker.take_token(), "one token was given");
}

#[testkit::model]
fn a_token_taken_without_parking_publishes_earlier_writes() {
    let (parker, data) = (Parker::new(), Plain::new());
    let giver = {
        let (parker, data) = (parker.clone(), Arc::clone(&data));
        spawn(move || {
            data.add(1);
            parker.unpark();
        })
    };
    if parker.take_token() {
        assert_eq!(data.get(), 1);
    } else {
        parker.park();
    }
    giver.join().expect("the giver ends well");
    assert!(!parker.take_token());
}

#[testkit::model]
fn two_racing_unparks_wake_the_owner_once_or_twice() {
    let parker = Parker::new();
    let givers = [(); 2].map(|()| {
        let parker = parker.clone();
        spawn(move || parker.unpark())
    });
    parker.park();
    for giver in givers {
        giver.join().expect("a giver ends well");
    }
    let left = parker.take_token(); // Both tokens may have merged into one.
    assert!(!(left && parker.take_token()), "two tokens were given");
}

#[testkit::model(preemptions = 3)]
fn a_deadline_racing_a_token_neither_loses_it_nor_oversleeps() {
    let (parker, clock) = (Parker::new(), ManualClock::new());
    let when = clock.now() + SECOND;
    let giver = {
        let parker = parker.clone();
        spawn(move || parker.unpark())
    };
    let time = {
        let clock = clock.clone();
        spawn(move || clock.advance(SECOND))
    };
    let woken = clock.park_until(&parker, when);
    assert!(woken || clock.now() >= when, "it woke too early");
    giver.join().expect("the giver ends well");
    time.join().expect("the clock ends well");
    assert_ne!(
        woken,
        parker.take_token(),
        "the token ended the wait or is still there"
    );
    assert_eq!(clock.sleepers(), 0);
}

#[testkit::model]
fn a_token_that_ends_a_timed_sleep_leaves_no_sleeper_behind() {
    let (parker, clock) = (Parker::new(), ManualClock::new());
    let giver = {
        let parker = parker.clone();
        spawn(move || parker.unpark())
    };
    assert!(clock.park_until(&parker, clock.now() + SECOND));
    assert_eq!(clock.sleepers(), 0);
    giver.join().expect("the giver ends well");
}

#[testkit::model]
fn an_advance_racing_a_thread_that_goes_to_sleep_wakes_it() {
    let (parker, clock) = (Parker::new(), ManualClock::new());
    let when = clock.now() + SECOND;
    let time = {
        let clock = clock.clone();
        spawn(move || {
            clock.advance(SECOND / 2);
            clock.advance(SECOND / 2);
        })
    };
    assert!(!clock.park_until(&parker, when));
    assert!(clock.now() >= when);
    time.join().expect("the clock ends well");
}

#[testkit::model(preemptions = 3)]
fn a_late_wake_up_of_a_timed_wait_does_not_end_the_next_timed_wait() {
    let (parker, clock) = (Parker::new(), ManualClock::new());
    let begin = clock.now();
    let time = {
        let clock = clock.clone();
        spawn(move || {
            clock.advance(SECOND);
            clock.wait_for_sleepers(1);
            clock.advance(SECOND);
        })
    };
    // The first wait may see the new time by itself while its wake-up is still on the way.
    assert!(!clock.park_until(&parker, begin + SECOND));
    assert!(!clock.park_until(&parker, begin + 2 * SECOND));
    assert!(clock.now() >= begin + 2 * SECOND, "it woke too early");
    time.join().expect("the clock ends well");
}

#[testkit::model(preemptions = 3)]
fn a_late_wake_up_of_a_timed_wait_does_not_end_the_next_park() {
    let (parker, clock) = (Parker::new(), ManualClock::new());
    let when = clock.now() + SECOND;
    let given = Arc::new(AtomicU32::new(0));
    let time = {
        let (parker, clock, given) = (parker.clone(), clock.clone(), Arc::clone(&given));
        spawn(move || {
            clock.advance(SECOND);
            given.store(1, Relaxed); // Ordered by the token.
            parker.unpark();
        })
    };
    // The wait may end by the time, with its wake-up still on the way, or by the token.
    if !clock.park_until(&parker, when) {
        parker.park();
    }
    assert_eq!(given.load(Relaxed), 1, "no token was given");
    time.join().expect("the clock ends well");
}

#[testkit::model(preemptions = 3)]
fn two_threads_that_wait_for_a_sleeper_both_see_it() {
    let clock = ManualClock::new();
    let watchers = [(); 2].map(|()| {
        let clock = clock.clone();
        spawn(move || clock.wait_for_sleepers(1))
    });
    let alarm = clock.wake_at(clock.now() + SECOND, Waker::noop().clone());
    for watcher in watchers {
        watcher.join().expect("a watcher ends well");
    }
    drop(alarm);
}

/// Explores a model without and with fair wakes.
fn both_ways(name: &str, bound: Option<usize>, body: fn(bool)) {
    for fair in [false, true] {
        check(&format!("{name} (fair: {fair})"), bound, move || {
            set_fair_wakes(fair);
            body(fair);
        });
    }
}

#[testkit::model(check = both_ways)]
fn a_store_and_a_wake_racing_a_wait_end_it(fair: bool) {
    let word = Arc::new(Futex::new(0));
    let waker = {
        let word = Arc::clone(&word);
        spawn(move || {
            word.store(1, Relaxed);
            word.wake_one_fairly(1, 2);
        })
    };
    while word.load(Relaxed) == 0 {
        word.wait(0, None);
    }
    waker.join().expect("the waker ends well");
    assert!(fair || word.load(Relaxed) == 1, "nothing was reserved");
}

#[testkit::model]
fn a_condition_changed_under_the_lock_wakes_its_waiter() {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let notifier = {
        let shared = Arc::clone(&shared);
        spawn(move || {
            *shared.0.lock() += 1;
            shared.1.notify_one();
        })
    };
    let mut value = shared.0.lock();
    while *value == 0 {
        shared.1.wait(&mut value);
    }
    drop(value);
    notifier.join().expect("the notifier ends well");
}

#[testkit::model]
fn an_alarm_racing_the_clock_fires_once_or_is_cancelled() {
    let clock = ManualClock::new();
    let when = clock.now() + SECOND;
    let fired = Arc::new(AtomicU32::new(0));
    let time = {
        let clock = clock.clone();
        spawn(move || clock.advance(SECOND))
    };
    let alarm = {
        let fired = Arc::clone(&fired);
        clock.wake_at(
            when,
            testkit::waker_fn(move || {
                fired.fetch_add(1, Relaxed);
            }),
        )
    };
    time.join().expect("the clock ends well");
    assert_eq!(
        fired.load(Relaxed),
        1,
        "the alarm is due whether it was set before or after the advance"
    );
    drop(alarm);
    assert_eq!(clock.sleepers(), 0);
}

#[testkit::model(preemptions = 3)]
fn a_wait_for_two_sleepers_sees_both() {
    let clock = ManualClock::new();
    let watcher = {
        let clock = clock.clone();
        spawn(move || {
            clock.wait_for_sleepers(2);
            assert_eq!(clock.sleepers(), 2);
        })
    };
    let when = clock.now() + SECOND;
    let alarms = [(); 2].map(|()| clock.wake_at(when, Waker::noop().clone()));
    watcher.join().expect("the watcher ends well");
    drop(alarms);
}

/// The time of a model, and the condition variable that its alarm thread sleeps on. Advances under the alarms'
/// lock.
struct Twin {
    begin: Instant,
    moved: Mutex<Moved>,
    changed: Condvar,
    /// Delays the next notification. No step of the model, so other models stay as small as they are.
    stall: std::sync::Mutex<Option<Stall>>,
}

/// A thread that is stopped between its decision to notify and the notification.
#[derive(Clone)]
struct Stall {
    began: Parker,
    ended: Parker,
}

#[derive(Clone, Copy)]
struct Moved {
    now: Instant,
    /// The time until which the alarm thread sleeps.
    until: Option<Instant>,
}

impl Time for Twin {
    fn now(&self) -> Instant {
        self.moved.lock().now
    }

    fn wait_until(&self, state: &mut MutexGuard<'_, State>, when: Instant) {
        {
            let mut moved = self.moved.lock();
            if moved.now >= when {
                return;
            }
            moved.until = Some(when);
        }
        self.changed.wait(state);
        self.moved.lock().until = None;
    }

    fn notify(&self) {
        if let Some(stall) = self.take_stall() {
            stall.began.unpark();
            stall.ended.park();
        }
        self.changed.notify_one();
    }
}

impl Twin {
    fn take_stall(&self) -> Option<Stall> {
        self.stall.lock().expect("no panic poisons it").take()
    }
}

/// Alarms on a modelled clock, and the alarm threads started for them.
#[derive(Clone)]
struct Rig {
    alarms: Arc<Alarms<Twin>>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
    begin: Instant,
}

/// Later than any model advances its clock.
const LATE: Duration = Duration::from_secs(3600);

impl Rig {
    fn new() -> Self {
        let begin = Instant::now();
        let moved = Mutex::new(Moved {
            now: begin,
            until: None,
        });
        let changed = Condvar::new();
        let alarms = Alarms::new(Twin {
            begin,
            moved,
            changed,
            stall: std::sync::Mutex::default(),
        });
        Self {
            alarms: Arc::new(alarms),
            threads: Arc::new(Mutex::new(Vec::new())),
            begin,
        }
    }

    /// Sets an alarm that rings at `since_begin`.
    fn set(&self, since_begin: Duration, waker: Waker) -> Key {
        let start = || {
            let alarms = Arc::clone(&self.alarms);
            self.threads.lock().push(spawn(move || alarms.serve()));
            Ok(())
        };
        let key = self.alarms.set(self.begin + since_begin, waker, start);
        key.expect("an alarm thread runs or can be started")
    }

    /// As `set`; the alarm gives a parker its token.
    fn set_parker(&self, since_begin: Duration) -> Parker {
        let parker = Parker::new();
        let inner = parker.clone();
        self.set(since_begin, testkit::waker_fn(move || inner.unpark()));
        parker
    }

    /// As `set`, by a thread that stops before it notifies the alarm thread. Returns once it has stopped, or
    /// has found that no notification is needed.
    fn set_by_one_held_up(&self, since_begin: Duration) -> (JoinHandle<Key>, Stall) {
        let (began, ended) = (Parker::new(), Parker::new());
        let stall = Stall { began, ended };
        let of_twin = Some(stall.clone());
        self.alarms
            .with_lock(|twin| *twin.stall.lock().expect("no panic poisons it") = of_twin);
        let (rig, began) = (self.clone(), stall.began.clone());
        let setter = spawn(move || {
            let key = rig.set(since_begin, Waker::noop().clone());
            rig.alarms.with_lock(Twin::take_stall);
            began.unpark();
            key
        });
        stall.began.park();
        (setter, stall)
    }

    /// Advances time and wakes the alarm thread if its time has come, but not otherwise: an advance must not
    /// replace a missing notification.
    fn advance_to(&self, since_begin: Duration) {
        self.alarms.with_lock(|twin| {
            let mut moved = twin.moved.lock();
            moved.now = moved.now.max(twin.begin + since_begin);
            if moved.until.is_some_and(|until| until <= moved.now) {
                twin.changed.notify_one();
            }
        });
    }

    /// Ends the alarm threads: all alarms are rung or taken back, and the keep-alive passes.
    fn end(&self, last: Duration) {
        self.advance_to(last + KEEP_ALIVE);
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            thread.join().expect("an alarm thread ends well");
        }
    }
}

#[testkit::model(preemptions = 3)]
fn an_alarm_set_racing_the_alarm_threads_end_is_rung() {
    let rig = Rig::new();
    rig.set_parker(Duration::ZERO).park();
    let time = {
        let rig = rig.clone();
        spawn(move || rig.advance_to(KEEP_ALIVE))
    };
    // Before, while or after the thread ends: it serves this alarm, or another thread is started.
    rig.set_parker(Duration::ZERO).park();
    time.join().expect("the clock ends well");
    rig.end(KEEP_ALIVE);
}

#[testkit::model]
fn an_earlier_alarm_racing_the_alarm_threads_sleep_is_rung_in_time() {
    let rig = Rig::new();
    let late = rig.set(LATE, Waker::noop().clone());
    rig.set_parker(Duration::ZERO).park();
    rig.alarms.take_back(late);
    rig.end(Duration::ZERO);
}

#[testkit::model(preemptions = 3)]
fn two_first_alarms_at_once_start_one_thread_that_rings_both() {
    let rig = Rig::new();
    let other = {
        let rig = rig.clone();
        spawn(move || rig.set_parker(Duration::ZERO).park())
    };
    rig.set_parker(Duration::ZERO).park();
    other.join().expect("the other ends well");
    assert_eq!(
        rig.threads.lock().len(),
        1,
        "no time passes, so no thread ends"
    );
    rig.end(Duration::ZERO);
}

#[testkit::model(preemptions = 3)]
fn a_refused_start_racing_another_alarm_leaves_it_a_thread() {
    let rig = Rig::new();
    let other = {
        let rig = rig.clone();
        spawn(move || {
            let refuse = || Err(std::io::ErrorKind::WouldBlock.into());
            let set = rig
                .alarms
                .set(rig.begin + LATE, Waker::noop().clone(), refuse);
            // Without an error a thread runs already.
            set.ok()
                .into_iter()
                .for_each(|key| rig.alarms.take_back(key));
        })
    };
    rig.set_parker(Duration::ZERO).park();
    other.join().expect("the other ends well");
    rig.end(Duration::ZERO);
}

#[testkit::model(preemptions = 3)]
fn two_first_uses_of_a_processes_value_get_one_with_its_writes() {
    let cell = Arc::new(PerProcess::new());
    let use_it = |cell: &PerProcess<Arc<Plain>>| {
        let make = |_: Option<&Arc<Plain>>| {
            let made = Plain::new();
            made.add(7);
            made
        };
        let own = cell.get_or_init(make);
        assert_eq!(own.get(), 7);
        Arc::as_ptr(own).addr()
    };
    let other = {
        let cell = Arc::clone(&cell);
        spawn(move || use_it(&cell))
    };
    let own = use_it(&cell);
    assert_eq!(other.join().expect("the other ends well"), own);
}

#[testkit::model(preemptions = 3)]
fn two_alarms_racing_the_alarm_threads_sleep_are_both_rung() {
    let rig = Rig::new();
    let late = rig.set(LATE, Waker::noop().clone());
    let other = {
        let rig = rig.clone();
        spawn(move || rig.set_parker(SECOND).park())
    };
    // Already due, and therefore earlier, whichever alarm is set first.
    rig.set_parker(Duration::ZERO).park();
    rig.advance_to(SECOND);
    other.join().expect("the other ends well");
    rig.alarms.take_back(late);
    rig.end(SECOND);
}

#[testkit::model(preemptions = 3)]
fn an_earlier_alarm_does_not_wait_for_a_notification_under_way() {
    let rig = Rig::new();
    let late = rig.set(LATE, Waker::noop().clone());
    let (setter, stall) = rig.set_by_one_held_up(SECOND);
    rig.set_parker(Duration::ZERO).park();
    stall.ended.unpark();
    let other = setter.join().expect("the other ends well");
    rig.alarms.take_back(late);
    rig.alarms.take_back(other);
    rig.end(Duration::ZERO);
}

#[testkit::model]
fn a_cancelled_alarm_racing_the_alarm_threads_sleep_lets_the_thread_end() {
    let rig = Rig::new();
    let late = rig.set(LATE, Waker::noop().clone());
    rig.alarms.take_back(late);
    rig.end(Duration::ZERO); // After its keep-alive, not an hour later.
}

#[testkit::model(preemptions = 3)]
fn an_alarm_set_after_a_cancelled_one_fires_at_its_time() {
    let rig = Rig::new();
    let late = rig.set(LATE, Waker::noop().clone());
    rig.alarms.take_back(late);
    let time = {
        let rig = rig.clone();
        spawn(move || rig.advance_to(SECOND))
    };
    rig.set_parker(SECOND).park();
    time.join().expect("the clock ends well");
    rig.end(SECOND);
}

#[testkit::model]
fn a_cancelled_alarm_racing_its_ring_fires_or_is_dropped() {
    let rig = Rig::new();
    let rung = Arc::new(AtomicU32::new(0));
    let inner = Arc::clone(&rung);
    let key = rig.set(
        Duration::ZERO,
        testkit::waker_fn(move || {
            inner.fetch_add(1, Relaxed);
        }),
    );
    rig.alarms.take_back(key);
    rig.end(Duration::ZERO);
    assert!(rung.load(Relaxed) <= 1);
    assert_eq!(Arc::strong_count(&rung), 1, "the alarm keeps its waker");
}

#[testkit::model(preemptions = 3)]
fn a_last_alarm_pending_keeps_the_alarm_thread() {
    let rig = Rig::new();
    let first = rig.set(SECOND, Waker::noop().clone());
    let last = rig.set_parker(LATE);
    rig.alarms.take_back(first);
    let time = {
        let rig = rig.clone();
        spawn(move || {
            rig.advance_to(SECOND + KEEP_ALIVE);
            rig.advance_to(LATE);
        })
    };
    last.park();
    time.join().expect("the clock ends well");
    rig.end(LATE);
}

#[testkit::model(preemptions = 3)]
fn a_token_left_by_a_timed_wait_ends_the_next_wait_early_and_no_other() {
    let (clock, told) = (ManualClock::new(), Arc::new(Mutex::new([false; 2])));
    let when = clock.now() + SECOND;
    let tell = |number: usize, parker: Parker| {
        let told = Arc::clone(&told);
        spawn(move || {
            told.lock()[number] = true;
            parker.unpark();
        })
    };
    let first = Parker::of_thread();
    let late = tell(0, (*first).clone());
    clock.advance(SECOND);
    // The time is up, so the wait times out unless its token is there already; a later token stays.
    let _whether_told = clock.park_until(&first, when);
    drop(first);
    let second = Parker::of_thread(); // The same parker, perhaps with the late token.
    let giver = tell(1, (*second).clone());
    while !told.lock()[1] {
        second.park();
    }
    drop(second);
    late.join().expect("the late one ends well");
    giver.join().expect("the giver ends well");
}

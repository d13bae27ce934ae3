//! Models of what waits here: each has two racing parties, and names the harm they must not do.

#![cfg(anthill_loom)]

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use sync_shim::atomic::{AtomicU32, Ordering::Relaxed};
use sync_shim::cell::UnsafeCell;
use sync_shim::model::{check, set_fair_wakes, spawn};
use sync_shim::{Clock, Condvar, Futex, ManualClock, Mutex, Parker};

const SECOND: Duration = Duration::from_secs(1);

/// Plain data: a model fails if two threads reach it unordered.
struct Plain(UnsafeCell<u32>);

// SAFETY: not sound at all, and that is its use: loom reports every unordered access.
unsafe impl Sync for Plain {}

impl Plain {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn add(&self, count: u32) {
        // SAFETY: loom checks that nobody else reaches the value.
        self.0.with_mut(|value| unsafe { *value += count });
    }

    fn get(&self) -> u32 {
        // SAFETY: loom checks that nobody writes the value.
        self.0.with(|value| unsafe { *value })
    }
}

#[test]
fn a_wait_inside_a_wait_strands_neither_of_them() {
    check("a_wait_inside_a_wait_strands_neither_of_them", None, || {
        let outer = Parker::of_thread();
        let giver = {
            let outer = (*outer).clone();
            spawn(move || outer.unpark())
        };
        // Enrolled, not yet parked: here user code runs, and may wait itself.
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
    });
}

#[test]
fn a_token_given_before_or_while_parking_is_found_with_what_came_before_it() {
    check(
        "a_token_given_before_or_while_parking_is_found_with_what_came_before_it",
        None,
        || {
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
        },
    );
}

#[test]
fn a_token_taken_without_parking_carries_what_came_before_it() {
    check(
        "a_token_taken_without_parking_carries_what_came_before_it",
        None,
        || {
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
        },
    );
}

#[test]
fn two_givers_wake_the_owner_once_or_twice_but_never_not_at_all() {
    check(
        "two_givers_wake_the_owner_once_or_twice_but_never_not_at_all",
        None,
        || {
            let parker = Parker::new();
            let givers = [(); 2].map(|()| {
                let parker = parker.clone();
                spawn(move || parker.unpark())
            });
            parker.park();
            for giver in givers {
                giver.join().expect("a giver ends well");
            }
            let left = parker.take_token(); // Two tokens may have been one.
            assert!(!(left && parker.take_token()), "two tokens, not three");
        },
    );
}

#[test]
fn a_deadline_racing_a_token_loses_no_token_and_does_not_sleep_past() {
    check(
        "a_deadline_racing_a_token_loses_no_token_and_does_not_sleep_past",
        Some(3),
        || {
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
            assert_ne!(woken, parker.take_token(), "one token, here or there");
            assert_eq!(clock.sleepers(), 0);
        },
    );
}

#[test]
fn a_token_that_ends_a_timed_sleep_leaves_no_sleeper_behind() {
    check(
        "a_token_that_ends_a_timed_sleep_leaves_no_sleeper_behind",
        None,
        || {
            let (parker, clock) = (Parker::new(), ManualClock::new());
            let giver = {
                let parker = parker.clone();
                spawn(move || parker.unpark())
            };
            assert!(clock.park_until(&parker, clock.now() + SECOND));
            assert_eq!(clock.sleepers(), 0);
            giver.join().expect("the giver ends well");
        },
    );
}

#[test]
fn a_clock_moved_while_a_thread_goes_to_sleep_still_wakes_it() {
    check(
        "a_clock_moved_while_a_thread_goes_to_sleep_still_wakes_it",
        None,
        || {
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
        },
    );
}

#[test]
fn a_late_poke_of_an_earlier_wait_ends_no_later_one() {
    check(
        "a_late_poke_of_an_earlier_wait_ends_no_later_one",
        Some(3),
        || {
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
            // The first wait may see the time by itself, its poke still under way.
            assert!(!clock.park_until(&parker, begin + SECOND));
            assert!(!clock.park_until(&parker, begin + 2 * SECOND));
            assert!(clock.now() >= begin + 2 * SECOND, "it woke too early");
            time.join().expect("the clock ends well");
        },
    );
}

#[test]
fn a_park_is_not_ended_by_the_poke_of_a_wait_before_it() {
    check(
        "a_park_is_not_ended_by_the_poke_of_a_wait_before_it",
        Some(3),
        || {
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
            // The wait may see the time by itself, its poke still under way; or the token.
            if !clock.park_until(&parker, when) {
                parker.park();
            }
            assert_eq!(given.load(Relaxed), 1, "no token was given");
            time.join().expect("the clock ends well");
        },
    );
}

#[test]
fn everybody_who_waits_for_sleepers_learns_of_them() {
    check(
        "everybody_who_waits_for_sleepers_learns_of_them",
        Some(3),
        || {
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
        },
    );
}

#[test]
fn a_changed_word_is_seen_before_or_during_the_sleep_on_it() {
    for fair in [false, true] {
        let name = "a_changed_word_is_seen_before_or_during_the_sleep_on_it";
        check(&format!("{name} (fair: {fair})"), None, move || {
            set_fair_wakes(fair);
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
        });
    }
}

#[test]
fn a_condition_changed_under_the_lock_wakes_its_waiter() {
    check(
        "a_condition_changed_under_the_lock_wakes_its_waiter",
        None,
        || {
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
        },
    );
}

#[test]
fn an_alarm_racing_the_clock_fires_once_or_is_taken_back() {
    check(
        "an_alarm_racing_the_clock_fires_once_or_is_taken_back",
        None,
        || {
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
            assert_eq!(fired.load(Relaxed), 1, "set before or after, it is due");
            drop(alarm);
            assert_eq!(clock.sleepers(), 0);
        },
    );
}

#[test]
fn whoever_waits_for_two_sleepers_sees_both() {
    check("whoever_waits_for_two_sleepers_sees_both", Some(3), || {
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
    });
}

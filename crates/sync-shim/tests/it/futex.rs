use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use sync_shim::Futex;

const OPEN: u32 = 0;
const RESERVED: u32 = 1;
const OVER: u32 = 2;

#[testkit::test]
fn a_wait_returns_at_once_if_the_word_has_changed() {
    assert!(Futex::new(OVER).wait(OPEN, None));
}

#[testkit::test]
fn a_wait_returns_at_once_if_its_deadline_has_passed() {
    assert!(!Futex::new(OPEN).wait(OPEN, Some(Instant::now())));
}

#[test]
fn a_fair_wake_reserves_nothing_without_a_sleeper() {
    let word = Futex::new(OPEN);
    word.wake_one_fairly(OPEN, RESERVED);
    word.wake_one();
    assert_eq!(word.load(Relaxed), OPEN);
}

#[testkit::test]
fn one_of_many_fair_wakes_reserves_the_word_for_its_sleeper() {
    let word = Futex::new(OPEN);
    thread::scope(|scope| {
        scope.spawn(|| {
            while word
                .compare_exchange(RESERVED, OVER, Relaxed, Relaxed)
                .is_err()
            {
                word.wait(OPEN, None);
            }
        });
        while word.load(Relaxed) != OVER {
            word.wake_one_fairly(OPEN, RESERVED);
        }
    });
}

#[testkit::test]
fn a_fair_wake_reserves_no_word_that_is_no_longer_open() {
    let word = Futex::new(OPEN);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| word.wait(OPEN, None));
        word.store(OVER, Relaxed);
        while !sleeper.is_finished() {
            word.wake_one_fairly(OPEN, RESERVED);
        }
    });
    assert_eq!(word.load(Relaxed), OVER);
}

#[testkit::test]
fn a_thread_that_falls_asleep_while_the_word_is_reserved_for_no_one_is_woken() {
    let word = Futex::new(OPEN);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            for _ in 0..1_000 {
                word.wait(RESERVED, None); // As a thread of a lock does that may not take the turn.
                let _ours = word.compare_exchange(RESERVED, OPEN, Relaxed, Relaxed);
            }
        });
        while !sleeper.is_finished() {
            word.wake_one_fairly(OPEN, RESERVED);
        }
    });
    assert_eq!(word.load(Relaxed), OPEN);
}

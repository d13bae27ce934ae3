use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use sync_shim::Futex;

const OPEN: u32 = 0;
const RESERVED: u32 = 1;
const OVER: u32 = 2;

#[testkit::test]
fn nobody_sleeps_on_a_word_that_has_changed() {
    assert!(Futex::new(OVER).wait(OPEN, None));
}

#[testkit::test]
fn a_deadline_that_is_over_ends_a_sleep_at_once() {
    assert!(!Futex::new(OPEN).wait(OPEN, Some(Instant::now())));
}

#[test]
fn without_a_sleeper_nothing_is_reserved() {
    let word = Futex::new(OPEN);
    word.wake_one_fairly(OPEN, RESERVED);
    word.wake_one();
    assert_eq!(word.load(Relaxed), OPEN);
}

#[testkit::test]
fn among_many_wakes_one_reserves_the_word_for_its_sleeper() {
    let word = Futex::new(OPEN);
    thread::scope(|scope| {
        scope.spawn(|| {
            while word.load(Relaxed) == OPEN {
                word.wait(OPEN, None);
            }
        });
        while word.load(Relaxed) == OPEN {
            word.wake_one_fairly(OPEN, RESERVED);
        }
    });
    assert_eq!(word.load(Relaxed), RESERVED);
}

#[testkit::test]
fn a_word_that_is_not_open_any_more_is_not_reserved() {
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

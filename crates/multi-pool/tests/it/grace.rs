//! A release of all pools with grace.

use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use multi_pool::{MultiFuncPool, MultiPool};
use pool_core::{
    FuncPool, GraceEnd, JoinError, JoinHandle, ManualClock, Pool, WaitError, Workers, current,
};
use testkit::{Gate, block_on};

use crate::support::{end, hold_all, poll, until};

const GRACE: Duration = Duration::from_secs(5);

/// Two pools of one worker on a clock that is moved by hand, and room behind it.
fn timed() -> (MultiPool, ManualClock) {
    let clock = ManualClock::new();
    let each = Pool::builder().capacity(1).queue_depth(9);
    let each = each.keep_alive(None).clock(clock.clone());
    let pools = MultiPool::builder(each).pools(2).build().unwrap();
    (pools, clock)
}

#[testkit::test]
fn pools_that_end_within_the_grace_have_run_all_of_it() {
    let (pools, clock) = timed();
    let gates = hold_all(&pools, 2);
    let asked = pools.spawn(|| current().is_cancelled()).unwrap();
    let releases = {
        let pools = pools.clone();
        thread::spawn(move || pools.release_with_grace(GRACE))
    };
    clock.wait_for_sleepers(1);
    assert!(pools.is_released());
    gates.iter().for_each(Gate::open);
    assert_eq!(releases.join().unwrap(), Ok(GraceEnd::Ended));
    assert!(!asked.join().unwrap());
}

#[testkit::test]
fn one_pool_that_is_late_is_cut_short_and_the_ends_of_the_others_count_for_nothing() {
    let (pools, clock) = timed();
    let gates = hold_all(&pools, 2);
    let queued: Vec<_> = (0..4).map(|_| pools.spawn(|| ()).unwrap()).collect();
    let releases = {
        let pools = pools.clone();
        thread::spawn(move || pools.release_with_grace(GRACE))
    };
    clock.wait_for_sleepers(1);
    gates[1].open();
    until(|| pools.running_of(1) == Ok(0));
    clock.advance(GRACE);
    assert_eq!(releases.join().unwrap(), Ok(GraceEnd::CutShort(2)));
    let ends = queued.into_iter().map(JoinHandle::join);
    let cut = ends.filter(|end| matches!(end, Err(JoinError::Released)));
    assert_eq!(cut.count(), 2);
    gates[0].open();
    pools.wait_released().unwrap();
}

#[testkit::test]
fn pools_of_a_function_give_the_arguments_of_all_back() {
    let gate = Gate::new();
    let held = gate.clone();
    let each = FuncPool::builder(move |_: u8| held.wait());
    let pools = MultiFuncPool::builder(each.capacity(1).queue_depth(1)).pools(2);
    let pools = pools.build().unwrap();
    (0..2).for_each(|n| pools.submit(n).unwrap());
    gate.wait_for_arrivals(2);
    (2..4).for_each(|n| pools.submit(n).unwrap());
    let cut = pools.release_with_grace(Duration::ZERO).unwrap();
    let back = cut.map(|mut arguments| {
        arguments.sort_unstable();
        arguments
    });
    assert_eq!(back, GraceEnd::CutShort(vec![2, 3]));
    let any: &dyn Workers = &pools;
    let again = any.release_with_grace(Duration::ZERO);
    assert_eq!(again, Ok(GraceEnd::CutShort(0)), "they run on");
    gate.open();
    let ended = block_on(pools.release_with_grace_async(GRACE));
    assert_eq!(ended, Ok(GraceEnd::Ended));
}

#[testkit::test]
fn a_reboot_within_the_grace_saves_what_all_pools_have_accepted() {
    let (pools, clock) = timed();
    let gates = hold_all(&pools, 2);
    let queued: Vec<_> = (0..2).map(|n| pools.spawn(move || n).unwrap()).collect();
    let releases = {
        let pools = pools.clone();
        thread::spawn(move || pools.release_with_grace(GRACE))
    };
    clock.wait_for_sleepers(1);
    pools.reboot();
    let refused = releases.join().unwrap().unwrap_err();
    assert_eq!(WaitError::from(refused), WaitError::Rebooted);
    gates.iter().for_each(Gate::open);
    for (n, handle) in queued.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), n);
    }
    end(&pools);
}

#[testkit::test]
fn as_a_future_it_cuts_all_pools_short_when_the_clock_says_so() {
    let (pools, clock) = timed();
    let gates = hold_all(&pools, 2);
    let queued: Vec<_> = (0..2).map(|_| pools.spawn(|| ()).unwrap()).collect();
    let mut future = pin!(pools.release_with_grace_async(GRACE));
    assert!(!pools.is_released());
    assert!(poll(&mut future).is_pending());
    assert_eq!((pools.is_released(), pools.queued()), (true, 2));
    clock.advance(GRACE);
    assert_eq!(poll(&mut future), Poll::Ready(Ok(GraceEnd::CutShort(2))));
    for handle in queued {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    gates.iter().for_each(Gate::open);
    pools.wait_released().unwrap();
}

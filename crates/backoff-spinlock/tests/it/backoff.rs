use backoff_spinlock::{Backoff, SPIN_ROUNDS, YIELD_ROUNDS};

/// Rounds of `snooze` until it is time to block.
fn rounds(mut backoff: Backoff) -> u32 {
    let mut rounds = 0;
    while !backoff.is_completed() {
        backoff.snooze();
        rounds += 1;
    }
    rounds
}

#[test]
fn it_is_time_to_block_after_the_spins_and_the_yields() {
    assert_eq!(rounds(Backoff::new()), SPIN_ROUNDS + YIELD_ROUNDS);
    assert_eq!(rounds(Backoff::with_yield_rounds(3)), SPIN_ROUNDS + 3);
    assert_eq!(rounds(Backoff::with_yield_rounds(0)), SPIN_ROUNDS);
}

#[test]
fn a_reset_begins_anew() {
    let mut backoff = Backoff::default();
    (0..SPIN_ROUNDS + YIELD_ROUNDS).for_each(|_| backoff.snooze());
    assert!(backoff.is_completed());
    backoff.reset();
    assert_eq!(rounds(backoff), SPIN_ROUNDS + YIELD_ROUNDS);
}

#[test]
fn waiting_on_after_the_end_goes_on_in_the_longest_rounds() {
    let mut backoff = Backoff::with_yield_rounds(u32::MAX);
    (0..200).for_each(|_| backoff.spin());
    (0..200).for_each(|_| backoff.snooze());
    assert!(!backoff.is_completed());
}

#[test]
fn spinning_rounds_count_as_rounds() {
    let mut backoff = Backoff::new();
    (0..SPIN_ROUNDS + YIELD_ROUNDS).for_each(|_| backoff.spin());
    assert!(backoff.is_completed());
}

use backoff_spinlock::{Backoff, SPIN_ROUNDS, YIELD_ROUNDS};

/// Counts the rounds of `snooze` until it advises blocking.
fn rounds(mut backoff: Backoff) -> u32 {
    let mut rounds = 0;
    while !backoff.is_completed() {
        backoff.snooze();
        rounds += 1;
    }
    rounds
}

#[test]
fn backoff_advises_blocking_after_the_spins_and_the_yields() {
    assert_eq!(rounds(Backoff::new()), SPIN_ROUNDS + YIELD_ROUNDS);
    assert_eq!(rounds(Backoff::with_yield_rounds(3)), SPIN_ROUNDS + 3);
    assert_eq!(rounds(Backoff::with_yield_rounds(0)), SPIN_ROUNDS);
}

#[test]
fn a_reset_starts_with_the_first_spins_again() {
    let mut backoff = Backoff::default();
    (0..SPIN_ROUNDS + YIELD_ROUNDS).for_each(|_| backoff.snooze());
    assert!(backoff.is_completed());
    backoff.reset();
    assert_eq!(rounds(backoff), SPIN_ROUNDS + YIELD_ROUNDS);
}

#[test]
fn snoozing_after_the_last_round_repeats_the_longest_round() {
    let mut backoff = Backoff::with_yield_rounds(u32::MAX);
    (0..200).for_each(|_| backoff.spin());
    (0..200).for_each(|_| backoff.snooze());
    assert!(!backoff.is_completed());
}

#[test]
fn spin_rounds_count_towards_blocking() {
    let mut backoff = Backoff::new();
    (0..SPIN_ROUNDS + YIELD_ROUNDS).for_each(|_| backoff.spin());
    assert!(backoff.is_completed());
}

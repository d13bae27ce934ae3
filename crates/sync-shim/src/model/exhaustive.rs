//! Every interleaving up to a bound, counted: loom.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

std::thread_local! {
    /// loom runs all threads of a model on the one thread that called it, so this is the
    /// model's own.
    static FAIR_WAKES: Cell<bool> = const { Cell::new(false) };
    static TWO_LOCKS: Cell<bool> = const { Cell::new(false) };
}

/// Says whether [`Futex::wake_one_fairly`](crate::Futex::wake_one_fairly) reserves, for the
/// futexes this execution makes from here on: always or (at first) never. On the machine a clock
/// decides, so a model of what rests on it is run both ways.
pub fn set_fair_wakes(fair: bool) {
    FAIR_WAKES.set(fair);
}

/// Says whether a pool that this execution makes from here on has its two locks, as on the machine, or
/// (at first) one in the place of both.
pub fn set_two_locks(two: bool) {
    TWO_LOCKS.set(two);
}

/// See [`set_two_locks`].
pub fn two_locks() -> bool {
    TWO_LOCKS.get()
}

pub(crate) fn fair_wakes() -> bool {
    FAIR_WAKES.get()
}

/// Explores `body`, and prints how many executions that took.
///
/// `bound` is the number of pre-emptions per execution; `None` explores all of them. The
/// environment variable `ANTHILL_LOOM_BOUND` (a number, or `none`) overrides it.
///
/// The line printed is what the models' gate compares with the committed count, so that a model
/// which silently explores less is noticed.
///
/// # Panics
/// If an execution panics, deadlocks or races; loom prints the execution.
pub fn check(name: &str, bound: Option<usize>, body: impl Fn() + Send + Sync + 'static) {
    let bound = match std::env::var("ANTHILL_LOOM_BOUND").as_deref() {
        Err(_) => bound,
        Ok("none") => None,
        Ok(number) => Some(
            number
                .parse()
                .expect("ANTHILL_LOOM_BOUND is a number or `none`"),
        ),
    };
    let executions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.max_branches = 100_000;
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        set_fair_wakes(false);
        set_two_locks(false);
        body();
    });
    let bound = bound.map_or_else(|| "none".to_owned(), |bound| bound.to_string());
    println!(
        "\nmodel {name}: completed in {} iterations (bound {bound})",
        executions.load(Relaxed)
    );
}

//! Exhaustive exploration with loom: every interleaving up to a bound, counted.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

std::thread_local! {
    // loom runs all threads of a model on the thread that called it, so these belong to one model.
    static FAIR_WAKES: Cell<bool> = const { Cell::new(false) };
    static TWO_LOCKS: Cell<bool> = const { Cell::new(false) };
    static LINGERS: Cell<bool> = const { Cell::new(false) };
    static LANES: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether [`Futex::wake_one_fairly`](crate::Futex::wake_one_fairly) reserves, always or never
/// (the default), for the futexes that this execution creates afterwards. On the machine a clock
/// decides, so models of code that depends on it run both ways.
pub fn set_fair_wakes(fair: bool) {
    FAIR_WAKES.set(fair);
}

/// Sets whether a pool that this execution creates afterwards has two locks, as on the machine, or
/// one that serves as both (the default).
pub fn set_two_locks(two: bool) {
    TWO_LOCKS.set(two);
}

/// See [`set_two_locks`].
pub fn two_locks() -> bool {
    TWO_LOCKS.get()
}

/// Sets whether workers of this execution poll on once before they park. The default is no.
pub fn set_lingers(lingers: bool) {
    LINGERS.set(lingers);
}

/// See [`set_lingers`].
pub fn lingers() -> bool {
    LINGERS.get()
}

/// Sets whether a pool of this execution has several lanes. The default is no.
pub fn set_lanes(lanes: bool) {
    LANES.set(lanes);
}

/// See [`set_lanes`].
pub fn lanes() -> bool {
    LANES.get()
}

pub(crate) fn fair_wakes() -> bool {
    FAIR_WAKES.get()
}

/// Explores `body`, and prints the number of executions.
///
/// `bound` is the number of pre-emptions per execution; `None` explores all of them. The
/// environment variable `ANTHILL_LOOM_BOUND` (a number, or `none`) overrides it.
///
/// The models' gate compares the printed line with the committed count, so that a model that
/// silently explores less is noticed.
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
        set_lingers(false);
        set_lanes(false);
        body();
    });
    let bound = bound.map_or_else(|| "none".to_owned(), |bound| bound.to_string());
    println!(
        "\nmodel {name}: completed in {} iterations (bound {bound})",
        executions.load(Relaxed)
    );
}

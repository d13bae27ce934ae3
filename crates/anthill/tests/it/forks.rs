//! The default pool in a forked child: no call waits there for workers of the parent.
#![expect(
    clippy::needless_pass_by_value,
    reason = "each result is checked at its call"
)]

use std::time::Duration;

use anthill::{MapError, Pool, SubmitError, WaitError};
use testkit::{ForkCase, Gate, check_in_forks, fork_cases, in_child, ready};

const SECOND: Duration = Duration::from_secs(1);
const STAYED: Result<(), WaitError> = Err(WaitError::Forked);

fn refused<V, T>(answer: Result<V, SubmitError<T>>) -> bool {
    matches!(answer, Err(SubmitError::Forked(_)))
}

fn map_refused<V, E>(answer: Result<V, MapError<E>>) -> bool {
    matches!(answer, Err(MapError::Refused(SubmitError::Forked(()))))
}

const CASES: &[ForkCase<()>] = fork_cases! { _it: ();
    "submit" => refused(anthill::submit(|| ()));
    "submit_timeout" => refused(anthill::submit_timeout(|| (), SECOND));
    "submit_async" => refused(ready(anthill::submit_async(|| ())));
    "try_submit" => refused(anthill::try_submit(|| ()));
    "spawn" => refused(anthill::spawn(|| ()));
    "spawn_async" => refused(ready(anthill::spawn_async(|| ())));
    "try_spawn" => refused(anthill::try_spawn(|| ()));
    "map" => map_refused(anthill::map(0..3, |n| n).next().expect("an item"));
    "map_unordered" => map_refused(anthill::map_unordered(0..3, |n| n).next().expect("an item"));
    "try_map" => map_refused(anthill::try_map(0..3, Err::<(), u8>).next().expect("an item"));
    "for_each" => map_refused(anthill::for_each(0..3, drop));
    "try_for_each" => map_refused(anthill::try_for_each(0..3, Err::<(), u8>));
    // The task runs on its owner.
    "scope" => anthill::scope(|scope| scope.spawn(|| 3).join()).is_ok_and(|three| three == 3);
    "wait_idle" => anthill::wait_idle() == STAYED;
    "wait_released" => anthill::wait_released() == STAYED;
    // Nothing is left to release.
    "release" => !anthill::release();
    "release_timeout" => anthill::release_timeout(SECOND) == STAYED;
};

#[test]
fn no_call_on_the_default_pool_waits_in_a_forked_child() {
    let ended = in_child(
        "forks::no_call_on_the_default_pool_waits_in_a_forked_child",
        || {
            let full = Pool::builder().capacity(1).queue_depth(1);
            anthill::configure(full).expect("it is the first use");
            let gate = Gate::new();
            let held = gate.clone();
            let handle = anthill::spawn(move || held.wait()).expect("there is room");
            gate.wait_for_arrivals(1);
            anthill::submit(|| ()).expect("there is room");
            check_in_forks(&mut (), CASES);
            gate.open();
            handle.join().expect("the parent's goes on");
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

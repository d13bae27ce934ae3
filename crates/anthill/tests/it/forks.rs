//! The default pool in a forked child: it has one of its own.

use std::time::{Duration, Instant};

use anthill::{ConfigureError, MapError, Pool, SubmitError, WaitError};
use testkit::{ForkCase, Gate, check_in_forks, fork_cases, in_child, in_fork, ready};

const SECOND: Duration = Duration::from_secs(1);

/// Whether all items had the value of their turn.
fn in_order(mut items: impl Iterator<Item = Result<u32, MapError>>) -> bool {
    (0..3).all(|n| matches!(items.next(), Some(Ok(it)) if it == n)) && items.next().is_none()
}

fn has_ended<E>(task: Result<anthill::JoinHandle<u32>, E>) -> bool {
    task.is_ok_and(|handle| handle.join().is_ok_and(|value| value == 7))
}

const CASES: &[ForkCase<()>] = fork_cases! { _it: ();
    "submit" => anthill::submit(|| ()).is_ok() && anthill::wait_idle().is_ok();
    "submit_timeout" => anthill::submit_timeout(|| (), SECOND).is_ok() && anthill::wait_idle().is_ok();
    "submit_async" => ready(anthill::submit_async(|| ())).is_ok() && anthill::wait_idle().is_ok();
    "try_submit" => anthill::try_submit(|| ()).is_ok() && anthill::wait_idle().is_ok();
    "spawn" => has_ended(anthill::spawn(|| 7));
    "spawn_async" => has_ended(ready(anthill::spawn_async(|| 7)));
    "try_spawn" => has_ended(anthill::try_spawn(|| 7));
    "map" => in_order(anthill::map(0..3, |n| n));
    "map_unordered" => anthill::map_unordered(0..3, |n| n).flatten().count() == 3;
    "try_map" => {
        let failed = anthill::try_map(0..3, Err::<(), u8>).next();
        matches!(failed, Some(Err(MapError::Failed(0))))
    };
    "for_each" => anthill::for_each(0..3, drop).is_ok();
    "try_for_each" => matches!(anthill::try_for_each(0..3, Err::<(), u8>), Err(MapError::Failed(_)));
    "scope" => anthill::scope(|scope| scope.spawn(|| 3).join()).is_ok_and(|three| three == 3);
    "wait_idle" => anthill::wait_idle().is_ok();
    "wait_released" => anthill::release() && anthill::wait_released().is_ok();
    "release" => anthill::release() && matches!(anthill::submit(|| ()), Err(SubmitError::Released(_)));
    "release_timeout" => anthill::submit(|| ()).is_ok() && anthill::release_timeout(3600 * SECOND).is_ok();
};

fn alone(test: &str, body: impl FnOnce()) {
    let ended = in_child(&format!("forks::{test}"), body);
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn every_call_on_the_default_pool_works_in_a_forked_child() {
    alone(
        "every_call_on_the_default_pool_works_in_a_forked_child",
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
}

#[test]
fn a_childs_default_pool_has_the_settings_of_its_parents_and_none_of_its_state() {
    alone(
        "a_childs_default_pool_has_the_settings_of_its_parents_and_none_of_its_state",
        || {
            let builder = Pool::builder().name("mine").capacity(3).prestart(2);
            let parents = anthill::configure(builder).expect("it is the first use");
            anthill::tune(1).expect("1 is a capacity");
            anthill::release();
            let check = || {
                let own = anthill::default_pool();
                assert!(!std::ptr::eq(own, parents));
                assert_eq!((own.name(), own.capacity().limit()), ("mine", Some(3)));
                assert_eq!((own.running(), own.is_released()), (0, false));
                // The parent's pool stays the parent's.
                assert!(matches!(parents.submit(|| ()), Err(SubmitError::Forked(_))));
                assert_eq!(parents.wait_idle(), Err(WaitError::Forked));
                assert_eq!(
                    anthill::spawn(|| 7).expect("there is room").join().ok(),
                    Some(7)
                );
            };
            assert_eq!(in_fork(check), Ok(()));
            assert_eq!(
                in_fork(|| in_fork(check).expect("the grandchild ends well")),
                Ok(())
            );
            assert!(anthill::default_pool().is_released());
        },
    );
}

#[test]
fn a_child_can_configure_its_default_pool_until_it_uses_it() {
    alone(
        "a_child_can_configure_its_default_pool_until_it_uses_it",
        || {
            anthill::spawn(|| ())
                .expect("there is room")
                .join()
                .expect("it ends well");
            let configures = || {
                let pool = anthill::configure(Pool::builder().name("own").capacity(2).prestart(1));
                let pool = pool.expect("the child has not used its pool");
                assert_eq!((pool.name(), pool.running()), ("own", 1));
                assert_eq!(anthill::default_pool().name(), "own");
            };
            let is_late = || {
                anthill::submit(|| ()).expect("there is room");
                let late = anthill::configure(Pool::builder().capacity(1));
                assert!(matches!(late, Err(ConfigureError::AlreadyMade(_))));
                assert_eq!(anthill::default_pool().name(), "anthill");
            };
            assert_eq!(in_fork(configures), Ok(()));
            assert_eq!(in_fork(is_late), Ok(()));
        },
    );
}

/// Everything that a server's worker does with objects that it makes after the fork.
#[cfg(all(feature = "delay-queue", feature = "async-pool"))]
fn serves() {
    use anthill::prelude::*;
    use anthill::{DelayQueue, JoinError, current};

    const DELAY: Duration = Duration::from_millis(5);
    let block_on = testkit::block_on::<std::pin::Pin<Box<dyn Future<Output = bool>>>>;
    let since = Instant::now();
    let queue = DelayQueue::new();
    queue.push(1, DELAY).expect("there is room");
    assert!(block_on(Box::pin(async move {
        queue.take_async().await.is_ok()
    })));

    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(9)
        .build()
        .expect("the settings are sound");
    let gate = Gate::new();
    for _ in 0..5 {
        let held = gate.clone();
        pool.submit(move || held.wait()).expect("there is room");
    }
    let (waits, other) = (pool.clone(), pool.clone());
    assert!(block_on(Box::pin(async move {
        waits.release_timeout_async(DELAY).await == Err(WaitError::TimedOut)
    })));
    assert!(since.elapsed() >= 2 * DELAY);
    gate.open();
    assert!(block_on(Box::pin(async move {
        other.release_timeout_async(3600 * SECOND).await.is_ok()
    })));
    assert_eq!(pool.stats().completed, 5);

    let pool = Pool::builder()
        .capacity(1)
        .build()
        .expect("the settings are sound");
    let group = pool.group().cancel_at(Instant::now() + DELAY);
    let spawned = group.spawn(|| current().token().wait());
    let next = testkit::block_on(group.next_async());
    match spawned {
        // The deadline may pass before the task starts,
        Ok(()) => assert!(matches!(next, Some(Ok(true) | Err(JoinError::Cancelled)))),
        // or before it is submitted.
        Err(refused) => assert!(matches!(refused, SubmitError::Cancelled(_)) && next.is_none()),
    }

    let (sleep, begin) = (anthill::async_pool::sleep(DELAY), Instant::now());
    let ((), polls) = testkit::block_on_counted(sleep);
    assert!(polls <= 2 && begin.elapsed() >= DELAY);

    assert_eq!(
        anthill::spawn(|| 7).expect("there is room").join().ok(),
        Some(7)
    );
}

#[cfg(all(feature = "delay-queue", feature = "async-pool"))]
#[test]
fn a_server_that_forks_after_it_has_used_timers_and_pools_serves_in_its_children() {
    alone(
        "a_server_that_forks_after_it_has_used_timers_and_pools_serves_in_its_children",
        || {
            assert_eq!(in_fork(serves), Ok(()), "before the first use");
            serves();
            assert_eq!(in_fork(serves), Ok(()));
            assert_eq!(
                in_fork(|| in_fork(serves).expect("the grandchild serves")),
                Ok(())
            );
            serves();
        },
    );
}

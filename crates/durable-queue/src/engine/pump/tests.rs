//! The cost of a pass, and the first one.

use sync_shim::ManualClock;

use super::*;
use crate::api::queue::DurableQueue;
use crate::engine::running::steps;
use crate::engine::signals::Signals;
use crate::engine::stub::Stub;
use crate::store::job::{JobId, Token};

const HOUR: Duration = Duration::from_secs(3_600);

/// A queue, and a pump of it that was created now.
fn queue(clock: &ManualClock) -> (DurableQueue<String, Stub>, Pump<Stub>) {
    let builder = DurableQueue::builder("queue", Stub);
    let queue = builder.clock(clock.clone()).build();
    let queue = queue.expect("it can be built");
    let pump = Pump::new(Arc::clone(queue.shared()));
    (queue, pump)
}

/// Returns the number of jobs looked at for renewal, and of turns, for two passes with `held` held jobs, of
/// which one is renewed before the others.
fn passes(held: u64) -> [(u64, u64); 2] {
    let clock = ManualClock::new();
    let (_queue, mut pump) = queue(&clock);
    pump.look_at = None; // As of a watch that announces.
    for number in 1..=held {
        let job = Held {
            id: JobId::from_u64(number),
            token: Token::random(),
        };
        let span = if number == 1 { HOUR } else { HOUR * 2 };
        pump.running
            .insert(job, Signals::new(), None, clock.now() + HOUR, None);
        pump.running
            .renew_after(job, clock.now(), span * RENEW_AFTER);
    }
    [Duration::ZERO, HOUR].map(|passes| {
        clock.advance(passes);
        steps::take();
        let before = pump.shared.control.counters.stats().turns;
        pump.act(pump.shared.control.collect(clock.now()), clock.now());
        let turns = pump.shared.control.counters.stats().turns - before;
        (steps::take(), turns)
    })
}

#[test]
fn the_cost_of_a_pass_does_not_depend_on_the_number_of_held_jobs() {
    let few = passes(2);
    assert_eq!(few.map(|(_, turns)| turns), [0, 1]);
    for held in [100, 10_000] {
        assert_eq!(passes(held), few);
    }
}

#[test]
fn the_first_pass_watches_the_store_before_it_claims_even_if_it_began_before_the_pump_was_created()
{
    let clock = ManualClock::new();
    let began = clock.now();
    clock.advance(HOUR);
    let (_queue, mut pump) = queue(&clock);
    for (now, plan) in [(began, false), (clock.now(), true)] {
        let mut orders = pump.shared.control.collect(now);
        orders.demand.jobs = 1;
        let made = pump.act(orders, now);
        assert_eq!(matches!(made, Plan::Turn(_)), plan, "{made:?}");
        assert!(pump.watch.is_some());
    }
}

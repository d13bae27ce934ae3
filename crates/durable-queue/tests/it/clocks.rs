//! The store's clock differs from the local one: it is set, and runs faster or slower. No job is early or
//! lost, and a waiting pump finds out by its next look. In the simulation and on `SQLite`.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durable_queue::internals::SAFETY_LOOK;
use durable_queue::store::JobState;
use durable_queue::{Claimed, DurableQueue, HORIZON, LEASE, Store, StoreClock, StoreTime, When};
use durable_queue_sqlite::SqliteStore;
use durable_queue_testing::SimStore;
use sync_shim::{Clock as _, ManualClock};

use crate::support::{Folder, SECOND, Time, job, on_thread, steal};

const HOUR: Duration = Duration::from_secs(3_600);
const MILLI: Duration = Duration::from_millis(1);

/// Shows another time than the local clock, and advances with it at another speed, in microseconds per
/// million.
#[derive(Clone, Debug)]
struct OwnClock {
    clock: ManualClock,
    epoch: Instant,
    speed: u64,
    shift: Arc<Mutex<i64>>,
}

impl OwnClock {
    /// Years behind the local clock.
    const START: i64 = 1_000_000_000_000;

    fn shift(&self, micros: i64) {
        *self.shift.lock().unwrap() += micros;
    }

    fn set_forward(&self) {
        self.shift(HOUR.as_micros().try_into().unwrap());
    }

    fn set_back(&self) {
        self.shift(-i64::try_from(HOUR.as_micros()).unwrap());
    }
}

impl StoreClock for OwnClock {
    fn now(&self) -> StoreTime {
        let passed = (self.clock.now() - self.epoch).as_micros() * u128::from(self.speed);
        let passed = i64::try_from(passed / 1_000_000).unwrap();
        StoreTime::from_micros(Self::START + passed + *self.shift.lock().unwrap())
    }
}

/// A store with a clock that the test sets.
trait Kept: Store + Clone {
    fn keep(folder: &Folder, clock: OwnClock) -> Self;
}

impl Kept for SimStore {
    fn keep(_: &Folder, clock: OwnClock) -> Self {
        Self::new(clock)
    }
}

/// Its clock is the machine's, which an administrator may set.
impl Kept for SqliteStore {
    fn keep(folder: &Folder, clock: OwnClock) -> Self {
        let options = Self::options().clock(clock).watch_every(None);
        options.open(folder.file("jobs")).unwrap()
    }
}

struct World<S: Store> {
    time: Time,
    clock: OwnClock,
    queue: DurableQueue<String, S>,
    _folder: Folder,
}

impl<S: Kept> World<S> {
    fn new(confirm: bool) -> Self {
        Self::of_speed(confirm, 1_000_000)
    }

    fn of_speed(confirm: bool, speed: u64) -> Self {
        let time = Time::new();
        let clock = OwnClock {
            clock: time.clock.clone(),
            epoch: time.clock.now(),
            speed,
            shift: Arc::default(),
        };
        let folder = Folder::new();
        let store = S::keep(&folder, clock.clone());
        let queue = time.builder(store).confirm(confirm).build().unwrap();
        Self {
            time,
            clock,
            queue,
            _folder: folder,
        }
    }

    /// Takes a job on another thread, and returns it with the store's time at that moment.
    fn taker(&self) -> JoinHandle<(Claimed<String>, StoreTime)> {
        let clock = self.clock.clone();
        on_thread(&self.queue, move |queue| {
            let taken = queue.take().unwrap();
            let now = clock.now();
            assert!(taken.due() <= now, "it is early");
            (taken, now)
        })
    }

    /// Waits until the pump sleeps and has nothing left to do.
    fn wait_for_sleep(&self) {
        self.time.clock.wait_for_sleepers(1);
    }

    /// Waits until the pump sleeps and holds the job.
    fn wait_for_claim(&self) {
        while self.queue.list(None, 1).unwrap()[0].state != JobState::Claimed {
            thread::yield_now();
        }
        self.wait_for_sleep();
    }

    fn wait_for_sleep_or(&self, is_over: impl Fn() -> bool) {
        while self.time.clock.sleepers() == 0 && !is_over() {
            thread::yield_now();
        }
    }

    /// Repeatedly moves time to the pump's next look, until `passed` after the start.
    fn run_until(&self, passed: Duration) {
        let end = self.clock.epoch + passed;
        loop {
            self.wait_for_sleep();
            let now = self.time.clock.now();
            if now == end {
                return;
            }
            let next = self.time.clock.next_due().map_or(end, |next| next.min(end));
            self.time.clock.advance(next - now);
        }
    }

    /// Like `run_until`, until a job is handed out.
    fn run_until_taken(&self) {
        loop {
            self.wait_for_sleep();
            if self.queue.stats().taken > 0 {
                return;
            }
            if let Some(next) = self.time.clock.next_due() {
                self.time.clock.advance(next - self.time.clock.now());
            }
        }
    }

    fn turns(&self) -> u64 {
        self.queue.stats().turns
    }
}

fn a_store_whose_clock_is_years_away_from_ours_hands_out_on_the_tick<S: Kept>() {
    for confirm in [true, false] {
        let world = World::<S>::new(confirm);
        let id = world.queue.push(job("job"), SECOND).unwrap();
        let taker = world.taker();
        world.time.advance(SECOND / 2);
        world.wait_for_claim();
        world.time.advance(SECOND / 2);
        let (taken, now) = taker.join().unwrap();
        assert_eq!((taken.id(), taken.due()), (id, now));
        taken.ack().unwrap();
    }
}

/// It asks again, but not endlessly.
fn with_a_slower_or_faster_clock_no_job_is_early_and_few_turns_are_made<S: Kept>() {
    const MOST_TURNS: u64 = 60;
    for (confirm, speed) in [
        (true, 999_000),
        (true, 500_000),
        (true, 1_001_000),
        (true, 2_000_000),
        (false, 1_001_000),
    ] {
        let world = World::<S>::of_speed(confirm, speed);
        world.queue.push(job("job"), SECOND * 10).unwrap();
        let taker = world.taker();
        let due = world.clock.now().after(SECOND * 10);
        world.run_until_taken();
        let (taken, now) = taker.join().unwrap();
        // With a faster clock the job is late, because the pump waits by the local one.
        let drift = SECOND / 100_000 * u32::try_from(speed.saturating_sub(1_000_000)).unwrap();
        let late = now.since(due);
        assert!(late <= drift + MILLI, "{speed}: {late:?}");
        assert!(world.turns() <= MOST_TURNS, "{speed}: {}", world.turns());
        taken.ack().unwrap();
    }
}

fn a_clock_set_forward_while_the_pump_waits_makes_a_job_due_at_its_next_look<S: Kept>() {
    for confirm in [true, false] {
        let world = World::<S>::new(confirm);
        world.queue.push(job("job"), HOUR / 2).unwrap();
        let taker = world.taker();
        world.wait_for_sleep();
        world.clock.set_forward();
        world.time.advance(SAFETY_LOOK);
        let (taken, _) = taker.join().unwrap();
        taken.ack().unwrap();
    }
}

/// Such a job is announced with a later time than that for which the pump waits.
fn a_job_pushed_after_the_clock_was_set_forward_is_found_by_the_next_look<S: Kept>() {
    let world = World::<S>::new(true);
    world.queue.push(job("later"), HOUR * 2).unwrap();
    let taker = world.taker();
    world.wait_for_sleep();
    world.clock.set_forward();
    let id = world.queue.push(job("job"), When::NOW).unwrap();
    world.time.advance(SAFETY_LOOK);
    assert_eq!(taker.join().unwrap().0.id(), id);
}

fn a_clock_set_back_while_the_pump_waits_makes_a_job_wait_for_the_clock_without_a_spin<S: Kept>() {
    for confirm in [true, false] {
        let world = World::<S>::new(confirm);
        world.queue.push(job("job"), SECOND * 10).unwrap();
        let taker = world.taker();
        world.wait_for_sleep();
        world.clock.set_back();
        let turns = world.turns();
        world.run_until(HOUR + SECOND * 10 - MILLI);
        assert!(!taker.is_finished());
        let looks = HOUR.as_secs() / SAFETY_LOOK.as_secs();
        let made = world.turns() - turns;
        assert!(made <= looks + 3, "{made} turns");
        world.time.advance(MILLI);
        let (taken, now) = taker.join().unwrap();
        assert_eq!(taken.due(), now);
        taken.ack().unwrap();
    }
}

fn a_job_pushed_after_the_clock_was_set_back_is_handed_out_at_once<S: Kept>() {
    let world = World::<S>::new(true);
    world.queue.push(job("later"), SECOND * 10).unwrap();
    let taker = world.taker();
    world.wait_for_sleep();
    world.clock.set_back();
    let id = world.queue.push(job("job"), When::NOW).unwrap();
    assert_eq!(taker.join().unwrap().0.id(), id);
}

/// By the local clock the job is not due sooner. By the store's, its lease has expired, so another process
/// may have it.
fn a_clock_set_forward_over_a_job_ahead_leaves_it_to_one_holder<S: Kept>() {
    for confirm in [true, false] {
        for is_stolen in [false, true] {
            let world = World::<S>::new(confirm);
            world.queue.push(job("job"), HORIZON).unwrap();
            let taker = world.taker();
            world.wait_for_claim();
            world.clock.set_forward();
            if is_stolen {
                assert_eq!(steal(world.queue.store()).len(), 1);
                world.queue.push(job("other"), When::NOW).unwrap();
            }
            world.time.advance(HORIZON);
            if confirm && is_stolen {
                // The other job is found by a regular look at the latest.
                world.run_until_taken();
            }
            let (taken, _) = taker.join().unwrap();
            let is_handed_out = taken.as_str() == "job";
            assert_eq!(is_handed_out, !(confirm && is_stolen));
            let acked = taken.ack();
            assert_eq!(acked.is_ok(), !is_handed_out || !is_stolen);
        }
    }
}

/// It is handed out when the store's clock shows its time again, not when a lease has expired later.
fn a_clock_set_back_over_a_job_ahead_delays_it_until_the_clock_shows_its_time<S: Kept>() {
    for is_noticed in [false, true] {
        let world = World::<S>::new(true);
        world.queue.push(job("job"), HORIZON).unwrap();
        let taker = world.taker();
        world.wait_for_claim();
        world.clock.set_back();
        if is_noticed {
            // Another turn, before the due time.
            let turns = world.turns();
            world.queue.announce();
            while world.turns() == turns {
                thread::yield_now();
            }
        }
        world.run_until(HOUR + HORIZON - MILLI);
        assert!(!taker.is_finished());
        world.time.advance(MILLI);
        let (taken, now) = taker.join().unwrap();
        assert_eq!(taken.due(), now);
        taken.ack().unwrap();
    }
}

/// It also does not take the place of others, which are claimed ahead as before.
fn jobs_ahead_are_released_when_the_clock_is_set_back<S: Kept>() {
    let world = World::<S>::new(true);
    world.queue.push(job("job"), HORIZON).unwrap();
    let taker = world.taker();
    world.wait_for_claim();
    world.clock.set_back();
    world.time.advance(HORIZON);
    while world.queue.list(None, 1).unwrap()[0].state == JobState::Claimed {
        thread::yield_now();
    }
    world.queue.push(job("other"), HORIZON).unwrap();
    world.wait_for_claim();
    world.time.advance(HORIZON);
    let (taken, now) = taker.join().unwrap();
    assert_eq!((taken.as_str(), taken.due()), ("other", now));
}

/// The handler cannot know that it is early by the store's clock: it is told, and the job is handed out
/// again.
fn a_clock_set_back_over_an_unconfirmed_job_fences_off_its_handler_and_it_is_handed_out_again<
    S: Kept,
>() {
    let world = World::<S>::new(false);
    world.queue.push(job("job"), HORIZON).unwrap();
    let taker = on_thread(&world.queue, |queue| queue.take().unwrap());
    world.wait_for_claim();
    world.clock.set_back();
    world.time.advance(HORIZON);
    let early = taker.join().unwrap();
    let again = world.taker();
    while !early.is_lost() {
        thread::yield_now();
    }
    assert!(early.ack().unwrap_err().is_stale());
    world.run_until(HOUR + HORIZON - MILLI);
    assert!(!again.is_finished());
    world.time.advance(MILLI);
    let (taken, now) = again.join().unwrap();
    assert_eq!(taken.due(), now);
    taken.ack().unwrap();
}

fn a_clock_set_forward_over_a_running_lease_leaves_it_to_its_holder_if_no_other_has_claimed_it<
    S: Kept,
>() {
    for is_stolen in [false, true] {
        let world = World::<S>::new(true);
        world.queue.push(job("job"), When::NOW).unwrap();
        let (taken, _) = world.taker().join().unwrap();
        world.wait_for_sleep();
        world.clock.set_forward();
        if is_stolen {
            assert_eq!(steal(world.queue.store()).len(), 1);
        }
        world.time.advance(LEASE / 3 + MILLI); // A renewal.
        world.wait_for_sleep_or(|| taken.is_lost());
        if is_stolen {
            while !taken.is_lost() {
                thread::yield_now();
            }
            assert!(taken.ack().unwrap_err().is_stale());
        } else {
            assert_eq!(steal(world.queue.store()).len(), 0, "it was renewed");
            taken.ack().unwrap();
        }
    }
}

fn a_clock_set_back_over_a_running_lease_does_not_make_it_longer_once_it_is_renewed<S: Kept>() {
    let world = World::<S>::new(true);
    let store = world.queue.store().clone();
    world.queue.push(job("job"), When::NOW).unwrap();
    let (taken, _) = world.taker().join().unwrap();
    world.wait_for_sleep();
    world.clock.set_back();
    let turns = world.turns();
    world.time.advance(LEASE / 3 + MILLI);
    while world.turns() == turns {
        thread::yield_now();
    }
    world.wait_for_sleep();
    let end = store.list("queue", None, 1).unwrap()[0].due;
    assert_eq!(end, world.clock.now().after(LEASE));
    taken.ack().unwrap();
}

fn put_hourly<S: Kept>(world: &World<S>) {
    let hourly = "@hourly".parse().unwrap();
    world
        .queue
        .push_repeating("key", &hourly, job("job"))
        .unwrap();
}

/// Whole hours in microseconds.
fn is_full_hour(time: StoreTime) -> bool {
    time.as_micros() % i64::try_from(HOUR.as_micros()).unwrap() == 0
}

/// All skipped times result in a single run.
fn a_clock_set_forward_over_ticks_results_in_one_run_and_then_the_next_tick<S: Kept>() {
    let world = World::<S>::new(true);
    put_hourly(&world);
    let taker = world.taker();
    world.wait_for_sleep();
    for _ in 0..5 {
        world.clock.set_forward();
    }
    world.time.advance(SAFETY_LOOK);
    let (taken, now) = taker.join().unwrap();
    taken.ack().unwrap();
    let [next] = &world.queue.list(None, 10).unwrap()[..] else {
        panic!("the job exists once");
    };
    assert!(is_full_hour(next.at) && next.at > now && next.at.since(now) <= HOUR);
}

/// Its run is in progress or done when the clock shows that hour again.
fn a_clock_set_back_over_a_tick_does_not_repeat_it<S: Kept>() {
    for is_done_before in [true, false] {
        let world = World::<S>::new(true);
        put_hourly(&world);
        let tick = world.queue.list(None, 1).unwrap()[0].at;
        let taker = world.taker();
        world.run_until_taken();
        let (taken, _) = taker.join().unwrap();
        assert_eq!(taken.due(), tick);
        if is_done_before {
            taken.ack().unwrap();
            world.clock.set_back();
        } else {
            world.wait_for_sleep();
            world.clock.set_back();
            let turns = world.turns();
            world.time.advance(LEASE / 3 + MILLI); // The renewal finds out.
            while world.turns() == turns {
                thread::yield_now();
            }
            taken.ack().unwrap();
        }
        assert_eq!(world.queue.list(None, 10).unwrap()[0].at, tick.after(HOUR));
    }
}

macro_rules! on_each {
    ($($test:ident)*) => {
        mod sim {
            $(#[testkit::test] fn $test() { super::$test::<super::SimStore>(); })*
        }
        mod sqlite {
            $(#[testkit::test] fn $test() { super::$test::<super::SqliteStore>(); })*
        }
    };
}

on_each! {
    a_store_whose_clock_is_years_away_from_ours_hands_out_on_the_tick
    with_a_slower_or_faster_clock_no_job_is_early_and_few_turns_are_made
    a_clock_set_forward_while_the_pump_waits_makes_a_job_due_at_its_next_look
    a_job_pushed_after_the_clock_was_set_forward_is_found_by_the_next_look
    a_clock_set_back_while_the_pump_waits_makes_a_job_wait_for_the_clock_without_a_spin
    a_job_pushed_after_the_clock_was_set_back_is_handed_out_at_once
    a_clock_set_forward_over_a_job_ahead_leaves_it_to_one_holder
    a_clock_set_back_over_a_job_ahead_delays_it_until_the_clock_shows_its_time
    jobs_ahead_are_released_when_the_clock_is_set_back
    a_clock_set_back_over_an_unconfirmed_job_fences_off_its_handler_and_it_is_handed_out_again
    a_clock_set_forward_over_a_running_lease_leaves_it_to_its_holder_if_no_other_has_claimed_it
    a_clock_set_back_over_a_running_lease_does_not_make_it_longer_once_it_is_renewed
    a_clock_set_forward_over_ticks_results_in_one_run_and_then_the_next_tick
    a_clock_set_back_over_a_tick_does_not_repeat_it
}

//! Cancels of running jobs: who is told, when the store is asked, and how the job ends.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use durable_queue::internals::{CANCEL_PAUSE, FIRST_PAUSE};
use durable_queue::store::{Act, Claim, JobState, Settle};
use durable_queue::{
    Cancelled, Claimed, DurableQueue, ErrorKind, HORIZON, LEASE, Merge, Retried, ShutDown, When,
    Worker,
};
use durable_queue_testing::{Call, Fault, SimStore};
use testkit::{Gate, block_on};

use crate::support::{LONG, SECOND, Time, job, on_thread, steal};

type Queue = DurableQueue<String, SimStore>;

/// A queue, and the number of times that its store was asked for cancels.
struct World {
    time: Time,
    queue: Queue,
    asked: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        Self::with_faults(|_, _| Fault::None)
    }

    /// `plan` gets the call, and how often the store was asked for cancels before.
    fn with_faults(plan: impl Fn(Call, usize) -> Fault + Send + Sync + 'static) -> Self {
        let time = Time::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let store = SimStore::with_faults(time.store.clone(), move |call| {
            let is_ask = call == Call::CancelRequests;
            plan(call, count.fetch_add(usize::from(is_ask), SeqCst))
        });
        let queue = time.queue(store);
        Self { time, queue, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    fn push(&self, name: &str) -> durable_queue::JobId {
        self.queue.push(job(name), When::NOW).unwrap()
    }

    fn taken(&self, name: &str) -> Claimed<String> {
        self.push(name);
        self.queue.take().unwrap()
    }

    /// Makes turns of the pump, before which it has acted on all announcements.
    fn pass(&self) {
        for _ in 0..2 {
            self.taken("another").ack().unwrap();
        }
    }

    fn is_empty(&self) -> bool {
        let stats = self.queue.store_stats().unwrap();
        (stats.jobs, stats.dead) == (0, 0)
    }
}

fn is_taken(cancelled: &Cancelled<String>) -> bool {
    matches!(cancelled, Cancelled::Taken)
}

#[testkit::test]
fn a_cancel_by_any_process_tells_the_handler_which_may_finish_the_job() {
    let world = World::new();
    let other = world.time.queue(world.queue.store().clone());
    for canceller in [world.queue.clone(), other] {
        let taken = world.taken("job");
        assert!(!taken.is_cancelled());
        let told = on_thread(&world.queue, {
            let cancelled = taken.cancelled();
            move |_| block_on(cancelled)
        });
        assert!(is_taken(&canceller.cancel(taken.id()).unwrap()));
        told.join().unwrap();
        assert!(taken.is_cancelled() && !taken.is_lost());
        assert!(is_taken(&canceller.cancel(taken.id()).unwrap()), "again");
        block_on(taken.cancelled());
        taken.ack().unwrap();
        assert!(world.is_empty());
        world.time.clock.advance(CANCEL_PAUSE);
    }
}

#[testkit::test]
fn an_attempt_of_a_cancelled_job_that_does_not_succeed_ends_the_job() {
    let ends: [fn(Claimed<String>); 6] = [
        |job| assert_eq!(job.retry("no").unwrap(), Retried::Cancelled),
        |job| {
            let retried = job.retry_after(SECOND, "no").unwrap();
            assert_eq!(retried, Retried::Cancelled);
        },
        |job| job.retry_later("no"),
        |job| job.release().unwrap(),
        drop,
        |job| {
            let panics = thread::spawn(move || {
                let _job = job;
                panic!("as it was asked to");
            });
            assert!(panics.join().is_err());
        },
    ];
    for end in ends {
        // Also of the last attempt.
        for most in [1, 3] {
            let time = Time::new();
            let builder = time.builder(time.sim()).max_attempts(most);
            let queue = builder.build().unwrap();
            let id = queue.push(job("job"), When::NOW).unwrap();
            let taken = queue.take().unwrap();
            assert!(is_taken(&queue.cancel(id).unwrap()));
            block_on(taken.cancelled());
            end(taken);
            assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
            let stats = queue.store_stats().unwrap();
            assert_eq!((stats.jobs, stats.dead), (0, 0));
        }
    }
}

/// The store decides, although the announcement is lost.
#[testkit::test]
fn a_job_whose_handler_was_not_told_is_not_retried_either() {
    let ends: [fn(Claimed<String>); 3] = [
        |job| assert_eq!(job.retry("no").unwrap(), Retried::Again(SECOND.into())),
        |job| job.release().unwrap(),
        |job| job.ack().unwrap(),
    ];
    for end in ends {
        let world = World::with_faults(|call, _| match call {
            Call::Cancel => Fault::Unheard,
            _ => Fault::None,
        });
        let taken = world.taken("job");
        assert!(is_taken(&world.queue.cancel(taken.id()).unwrap()));
        assert!(!taken.is_cancelled());
        end(taken);
        assert!(world.is_empty());
    }
}

#[testkit::test]
fn a_handler_that_buries_its_cancelled_job_gets_a_dead_letter() {
    let world = World::new();
    let taken = world.taken("job");
    assert!(is_taken(&world.queue.cancel(taken.id()).unwrap()));
    block_on(taken.cancelled());
    taken.bury("to be looked at").unwrap();
    let dead = world.queue.dead(None, 2).unwrap();
    assert_eq!((dead.len(), &*dead[0].error), (1, "to be looked at"));
}

#[testkit::test]
fn the_store_is_asked_only_after_an_announcement_that_anything_may_have_changed_while_a_job_runs() {
    let world = World::new();
    world.pass();
    world.queue.announce(); // No job runs.
    world.pass();
    assert_eq!(world.asked(), 0);
    let taken = world.taken("job");
    world.pass(); // Pushes announce a time.
    assert_eq!(world.asked(), 0);
    world.queue.announce();
    world.pass();
    assert_eq!(world.asked(), 1);
    world.pass();
    assert_eq!(world.asked(), 1);
    taken.ack().unwrap();
}

#[testkit::test]
fn the_store_is_asked_at_most_once_in_the_pause_and_tells_all_handlers_afterwards() {
    let world = World::new();
    let jobs = ["first", "second", "third"].map(|name| world.taken(name));
    let [first, others @ ..] = &jobs;
    assert!(is_taken(&world.queue.cancel(first.id()).unwrap()));
    block_on(first.cancelled());
    for job in others {
        assert!(is_taken(&world.queue.cancel(job.id()).unwrap()));
        world.pass();
        assert!(!job.is_cancelled());
    }
    assert_eq!(world.asked(), 1);
    world.time.advance(CANCEL_PAUSE);
    for job in others {
        block_on(job.cancelled());
    }
    assert_eq!(world.asked(), 2);
    for job in jobs {
        job.ack().unwrap();
    }
}

/// Whether or not a call waits for another job.
#[testkit::test]
fn a_cancel_whose_announcement_is_lost_is_found_by_the_next_renewal_of_a_lease() {
    for is_wanted in [false, true] {
        let world = World::with_faults(|call, _| match call {
            Call::Cancel => Fault::Unheard,
            _ => Fault::None,
        });
        let taken = world.taken("job");
        let taker = is_wanted.then(|| on_thread(&world.queue, Queue::take));
        assert!(is_taken(&world.queue.cancel(taken.id()).unwrap()));
        world.time.advance(LEASE / 3 - SECOND);
        world.time.clock.wait_for_sleepers(1);
        assert!(!taken.is_cancelled());
        assert_eq!(world.asked(), 0);
        world.time.advance(SECOND);
        block_on(taken.cancelled());
        assert_eq!(world.asked(), 1);
        taken.ack().unwrap();
        world.queue.close();
        if let Some(taker) = taker {
            assert!(taker.join().unwrap().unwrap_err().is_shut_down());
        }
    }
}

#[testkit::test]
fn a_cancel_whose_announcement_is_lost_is_found_by_an_extension_of_a_lease() {
    let time = Time::new();
    let plan = |call| match call {
        Call::Cancel => Fault::Unheard,
        _ => Fault::None,
    };
    let store = SimStore::with_faults(time.store.clone(), plan);
    let queue = time.builder(store).heartbeat(false).build().unwrap();
    let id = queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    assert!(is_taken(&queue.cancel(id).unwrap()));
    taken.extend(LEASE).unwrap();
    block_on(taken.cancelled());
}

#[testkit::test]
fn an_error_of_the_question_delays_no_settle_and_is_followed_by_another_after_a_pause() {
    let world = World::with_faults(|call, before| match (call, before) {
        (Call::CancelRequests, 0) => Fault::Refused(ErrorKind::Corrupt),
        (Call::CancelRequests, 1) => Fault::After,
        _ => Fault::None,
    });
    let taken = world.taken("job");
    assert!(is_taken(&world.queue.cancel(taken.id()).unwrap()));
    world.pass();
    assert_eq!((world.asked(), world.queue.stats().errors), (1, 1));
    assert!(!taken.is_cancelled() && world.queue.last_error().is_none());
    world.time.advance(FIRST_PAUSE);
    while world.asked() < 2 {
        thread::yield_now();
    }
    world.pass();
    assert!(!taken.is_cancelled());
    world.time.advance(FIRST_PAUSE * 2);
    block_on(taken.cancelled());
    taken.ack().unwrap();
}

#[testkit::test]
fn a_cancelled_job_whose_process_has_died_ends_without_another_attempt() {
    let world = World::new();
    let id = world.push("job");
    assert_eq!(steal(world.queue.store()).len(), 1);
    assert!(is_taken(&world.queue.cancel(id).unwrap()));
    world.time.clock.advance(LEASE);
    let taker = on_thread(&world.queue, |queue| queue.take().unwrap());
    while world.queue.store_stats().unwrap().jobs > 0 {
        thread::yield_now();
    }
    world.push("next");
    assert_eq!(*taker.join().unwrap(), "next");
    assert_eq!(world.queue.stats().taken, 1);
    assert_eq!(world.queue.store_stats().unwrap().dead, 0);
}

/// As one of several that are claimed ahead of the demand.
#[testkit::test]
fn a_cancelled_job_of_a_dead_process_that_is_claimed_ahead_ends() {
    let time = Time::new();
    let builder = time.builder(time.sim()).prefetch(5);
    let queue = builder.build().unwrap();
    let id = queue.push(job("job"), When::NOW).unwrap();
    assert_eq!(steal(queue.store()).len(), 1);
    queue.push(job("first"), When::NOW).unwrap();
    assert!(is_taken(&queue.cancel(id).unwrap()));
    time.clock.advance(LEASE);
    let taken = queue.take().unwrap();
    assert_eq!(*taken, "first");
    taken.ack().unwrap();
    while queue.store_stats().unwrap().jobs > 0 {
        thread::yield_now();
    }
    assert_eq!(queue.stats().taken, 1);
}

#[testkit::test]
fn a_cancel_of_a_key_removes_its_pending_job_and_tells_its_running_ones() {
    let world = World::new();
    let push = || {
        let put = (world.queue).push_keyed("key", job("job"), When::NOW, Merge::Keep);
        put.unwrap().id()
    };
    push();
    let first = world.queue.take().unwrap();
    push();
    let second = world.queue.take().unwrap();
    let third = push();
    assert!(world.queue.cancel("key").unwrap().is_gone());
    assert!(
        world
            .queue
            .list(None, 9)
            .unwrap()
            .iter()
            .all(|it| it.id != third)
    );
    for job in [first, second] {
        block_on(job.cancelled());
        assert_eq!(job.retry("no").unwrap(), Retried::Cancelled);
    }
    assert!(world.is_empty());
}

#[cfg(feature = "cron")]
#[testkit::test]
fn a_cancelled_run_of_a_repeating_job_is_the_last_whether_it_succeeds_or_fails() {
    for succeeds in [false, true] {
        let world = World::new();
        let daily = "0 0 * * *".parse().unwrap();
        let put = world.queue.push_repeating("key", &daily, job("job"));
        let id = put.unwrap().id();
        assert!(matches!(
            world.queue.reset(id, When::NOW).unwrap(),
            durable_queue::Reset::Moved
        ));
        let taken = world.queue.take().unwrap();
        assert!(is_taken(&world.queue.cancel("key").unwrap()));
        block_on(taken.cancelled());
        if succeeds {
            taken.ack().unwrap();
        } else {
            assert_eq!(taken.retry("no").unwrap(), Retried::Cancelled);
        }
        assert!(world.is_empty());
    }
}

#[testkit::test]
fn a_cancel_is_delivered_while_the_queue_is_closing() {
    let world = World::new();
    let taken = world.taken("job");
    world.queue.close();
    assert!(is_taken(&world.queue.cancel(taken.id()).unwrap()));
    block_on(taken.cancelled());
    drop(taken);
    assert_eq!(world.queue.shutdown(LONG), ShutDown::Finished);
    assert!(world.is_empty());
}

#[testkit::test]
fn a_job_that_waits_behind_a_slow_handler_ends_unrun_if_it_is_cancelled() {
    let world = World::new();
    let (gate, ran) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let slow = world.push("slow");
    let waiting = world.push("waiting");
    let worker = {
        let (gate, ran) = (gate.clone(), Arc::clone(&ran));
        let two = NonZeroUsize::new(2).unwrap();
        let builder = Worker::builder(world.queue.clone()).batch(two);
        builder.start(move |_| {
            ran.fetch_add(1, SeqCst);
            gate.wait();
            Ok::<_, String>(())
        })
    };
    gate.wait_for_arrivals(1);
    let running = world.queue.list(None, 9).unwrap();
    assert!(running.iter().all(|job| job.state == JobState::Running));
    assert!(is_taken(&world.queue.cancel(waiting).unwrap()));
    while world.asked() == 0 {
        thread::yield_now();
    }
    // The answer has come when the pump renews the leases.
    let due = world.queue.list(None, 1).unwrap()[0].due;
    world.time.advance(LEASE / 3);
    while world.queue.list(None, 1).unwrap()[0].due == due {
        thread::yield_now();
    }
    gate.open();
    while world.queue.store_stats().unwrap().jobs > 0 {
        thread::yield_now();
    }
    assert_eq!(ran.load(SeqCst), 1, "{slow} only");
    assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);
    assert!(world.is_empty());
}

/// The job is ahead when its cancel is found. Without another running job the question waits for the start.
#[testkit::test]
fn a_cancel_while_the_response_to_the_start_is_lost_ends_the_job() {
    for is_another_running in [false, true] {
        let time = Time::new();
        let starts = Arc::new(AtomicUsize::new(0));
        let plan = {
            let starts = Arc::clone(&starts);
            move |settles: &[Settle<'_>], _: Option<&Claim>| {
                let is_start = |settle: &Settle<'_>| matches!(settle.act, Act::Start { .. });
                if settles.iter().any(is_start) && starts.fetch_add(1, SeqCst) == 0 {
                    Fault::After
                } else {
                    Fault::None
                }
            }
        };
        let queue = time.queue(SimStore::with_turn_faults(time.store.clone(), plan));
        let other = is_another_running.then(|| {
            queue.push(job("other"), When::NOW).unwrap();
            queue.take().unwrap()
        });
        let id = queue.push(job("job"), HORIZON).unwrap();
        let has = |state| {
            let listed = queue.list(None, 9).unwrap();
            listed.iter().any(|it| it.id == id && it.state == state)
        };
        let taker = on_thread(&queue, |queue| {
            while let Ok(taken) = queue.take() {
                block_on(taken.cancelled());
            }
        });
        while !has(JobState::Claimed) {
            thread::yield_now();
        }
        time.advance(HORIZON);
        while starts.load(SeqCst) == 0 {
            thread::yield_now();
        }
        time.clock.wait_for_sleepers(1); // The pump, after the error.
        assert!(has(JobState::Running) && is_taken(&queue.cancel(id).unwrap()));
        time.advance(FIRST_PAUSE);
        while queue.store_stats().unwrap().jobs > u32::from(is_another_running) {
            thread::yield_now();
        }
        if is_another_running {
            assert_eq!(queue.stats().taken, 1, "the other");
        }
        drop(other);
        queue.close();
        taker.join().unwrap();
        assert_eq!(queue.store_stats().unwrap().dead, 0);
    }
}

#[testkit::test]
fn a_blocking_handler_waits_for_a_cancel_for_a_limited_time() {
    let world = World::new();
    let taken = world.taken("job");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| taken.wait_cancelled_timeout(SECOND));
        world.time.clock.wait_for_sleepers(2); // And the pump.
        world.time.clock.advance(SECOND);
        assert!(!waiter.join().unwrap());
        let waiter = scope.spawn(|| taken.wait_cancelled_timeout(LONG));
        world.time.clock.wait_for_sleepers(2);
        assert!(is_taken(&world.queue.cancel(taken.id()).unwrap()));
        assert!(waiter.join().unwrap());
    });
    assert!(taken.wait_cancelled_timeout(Duration::ZERO));
    taken.ack().unwrap();
}

#[testkit::test]
fn a_failing_thread_handler_of_a_cancelled_job_ends_it() {
    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(1).build().unwrap();
    let (sender, begun) = channel();
    let worker = Worker::builder(queue.clone()).start(move |job: &Claimed<String>| {
        sender.send(()).unwrap();
        block_on(job.cancelled());
        match &***job {
            "error" => Err("no"),
            _ => panic!("as it was asked to"),
        }
    });
    for name in ["error", "panic"] {
        let id = queue.push(job(name), When::NOW).unwrap();
        begun.recv().unwrap();
        assert!(is_taken(&queue.cancel(id).unwrap()));
        while queue.store_stats().unwrap().jobs > 0 {
            thread::yield_now();
        }
        assert_eq!(queue.store_stats().unwrap().dead, 0);
        time.clock.advance(CANCEL_PAUSE);
    }
    assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);
}

mod futures {
    //! Async handlers.

    use std::convert::Infallible;
    use std::future::pending;

    use durable_queue::Job;
    use testkit::{DropCounter, PanicOnDrop};

    use super::*;
    use crate::latch::Latch;

    /// Runs a worker on a thread, cancels its job, and returns when the job has ended.
    fn cancel_while<F, Fut>(is_dropped: bool, begun: &Latch, handler: F)
    where
        F: Fn(Job<String>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Infallible>> + 'static,
    {
        let world = World::new();
        let id = world.push("job");
        let mut builder = Worker::builder(world.queue.clone());
        if is_dropped {
            builder = builder.cancel_on_lost_lease().cancel_on_request();
        }
        let run = thread::spawn(move || block_on(builder.run_async(handler)));
        begun.wait_for_arrivals(1);
        assert!(is_taken(&world.queue.cancel(id).unwrap()));
        while world.queue.store_stats().unwrap().jobs > 0 {
            thread::yield_now();
        }
        world.queue.close();
        assert_eq!(run.join().unwrap().unwrap(), ShutDown::Finished);
        assert!(world.is_empty());
    }

    #[testkit::test]
    fn the_future_of_a_handler_is_dropped_if_asked_and_its_job_ends() {
        let (begun, drops) = (Latch::new(), DropCounter::new());
        let handler = {
            let (begun, drops) = (begun.clone(), drops.clone());
            move |_| {
                let (begun, counted) = (begun.clone(), drops.token());
                async move {
                    let _counted = counted;
                    begun.wait().await;
                    pending().await
                }
            }
        };
        cancel_while(true, &begun, handler);
        assert_eq!(drops.dropped(), 1);
    }

    #[testkit::test]
    fn a_panic_in_the_drop_of_a_cancelled_future_is_caught_and_the_job_ends() {
        let begun = Latch::new();
        let handler = {
            let begun = begun.clone();
            move |_| {
                let begun = begun.clone();
                async move {
                    let _bomb = PanicOnDrop::new();
                    begun.wait().await;
                    pending().await
                }
            }
        };
        cancel_while(true, &begun, handler);
    }

    #[testkit::test]
    fn a_handler_learns_of_a_cancel_and_is_not_dropped_by_default() {
        let begun = Latch::new();
        let handler = {
            let begun = begun.clone();
            move |job: Job<String>| {
                let begun = begun.clone();
                async move {
                    begun.open();
                    begun.wait().await;
                    job.cancelled().await;
                    assert!(job.is_cancelled());
                    Ok(())
                }
            }
        };
        cancel_while(false, &begun, handler);
    }

    #[testkit::test]
    fn a_handler_that_ignores_a_cancel_acknowledges_its_job() {
        let world = World::new();
        let id = world.push("job");
        let latch = Latch::new();
        let builder = Worker::builder(world.queue.clone());
        let run = builder.run_async({
            let latch = latch.clone();
            move |_| {
                let latch = latch.clone();
                async move {
                    latch.wait().await;
                    Ok::<_, Infallible>(())
                }
            }
        });
        let queue = world.queue.clone();
        let canceller = thread::spawn(move || {
            latch.wait_for_arrivals(1);
            assert!(is_taken(&queue.cancel(id).unwrap()));
            latch.open();
            while queue.store_stats().unwrap().jobs > 0 {
                thread::yield_now();
            }
            queue.close();
        });
        assert_eq!(block_on(run).unwrap(), ShutDown::Finished);
        canceller.join().unwrap();
        assert!(world.is_empty());
    }
}

//! Queues that share threads: their number, and what one queue may do to another.

use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use durable_queue::internals::PUMP_THREADS;
use durable_queue::{DurableQueue, HORIZON, ShutDown, TakeError, Threads, When};
use durable_queue_testing::{Call, Fault, SimStore};
use testkit::Gate;

use crate::support::{ClockTrap, LONG, SECOND, Time, job, on_thread};

type Queue = DurableQueue<String, SimStore>;

/// Queues with one store each and the same threads.
struct World {
    time: Time,
    threads: Threads,
}

fn world() -> World {
    let time = Time::new();
    let threads = Threads::with_clock(time.clock.clone());
    World { time, threads }
}

impl World {
    fn queue(&self) -> Queue {
        self.queue_in(self.time.sim())
    }

    fn queue_in(&self, store: SimStore) -> Queue {
        let builder = self.time.builder(store).threads(self.threads.clone());
        builder.build().unwrap()
    }

    /// Returns a queue whose pump hangs in a call of the store until the gate is opened.
    fn hanging_queue(&self, gate: &Gate) -> (Queue, JoinHandle<String>) {
        let entered = gate.clone();
        let store = SimStore::with_faults(self.time.store.clone(), move |call| {
            if call == Call::Turn {
                entered.wait();
            }
            Fault::None
        });
        let queue = self.queue_in(store);
        queue.push(job("slow"), When::NOW).unwrap();
        let taker = on_thread(&queue, take_and_ack);
        (queue, taker)
    }
}

fn take_and_ack(queue: &Queue) -> String {
    let taken = queue.take().unwrap();
    let value = taken.clone();
    taken.ack().unwrap();
    value
}

/// Requests a job without waiting for it.
fn request(queue: &Queue) -> impl Future<Output = ()> + use<> {
    let mut take = Box::pin(queue.take_async());
    let poll = take.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending());
    async {
        take.await.unwrap().ack().unwrap();
    }
}

#[cfg(target_os = "linux")]
fn pump_threads() -> usize {
    let names = testkit::thread_names();
    names.iter().filter(|name| *name == "durable-queue").count()
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn many_queues_have_two_pump_threads_which_end_with_the_last_queue() {
    let ended = testkit::in_child(
        "threads::many_queues_have_two_pump_threads_which_end_with_the_last_queue",
        || {
            let world = world();
            let mut queues: Vec<_> = (0..50).map(|_| world.queue()).collect();
            assert_eq!(pump_threads(), 0, "a queue that takes no jobs has no pump");
            let requests: Vec<_> = queues.iter().map(request).collect();
            for queue in &queues {
                queue.push(job("job"), When::NOW).unwrap();
            }
            requests.into_iter().for_each(testkit::block_on);
            assert_eq!(pump_threads(), PUMP_THREADS);

            let last = queues.pop().unwrap();
            for queue in &queues {
                assert_eq!(queue.shutdown(SECOND), ShutDown::Finished);
            }
            last.push(job("job"), When::NOW).unwrap();
            assert_eq!(take_and_ack(&last), "job");
            assert_eq!(last.shutdown(SECOND), ShutDown::Finished);
            assert_eq!(pump_threads(), 0, "a shutdown joins the threads");

            let next = world.queue();
            next.push(job("next"), When::NOW).unwrap();
            assert_eq!(take_and_ack(&next), "next");
            assert_eq!(pump_threads(), 1, "a pump alone has one thread");
            drop(next);
            while pump_threads() > 0 {
                thread::yield_now();
            }
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

#[testkit::test]
fn a_store_call_that_hangs_does_not_delay_another_queue() {
    let (world, gate) = (world(), Gate::new());
    let (_slow, taker) = world.hanging_queue(&gate);
    gate.wait_for_arrivals(1);
    let other = world.queue();
    for index in 0..10 {
        other.push(index.to_string(), When::NOW).unwrap();
        assert_eq!(take_and_ack(&other), index.to_string());
    }
    gate.open();
    assert_eq!(taker.join().unwrap(), "slow");
}

#[testkit::test]
fn a_job_that_falls_due_while_another_queue_hangs_is_handed_out_in_time() {
    let (world, gate) = (world(), Gate::new());
    let queues = [world.queue(), world.queue()];
    let takers = queues.each_ref().map(|queue| {
        queue.push(job("later"), HORIZON / 2).unwrap();
        on_thread(queue, take_and_ack)
    });
    world.time.clock.wait_for_sleepers(1); // One thread watches the time of both.
    let (_slow, taker) = world.hanging_queue(&gate);
    gate.wait_for_arrivals(1);
    world.time.clock.wait_for_sleepers(1); // The other one does.
    world.time.clock.advance(HORIZON / 2);
    for taker in takers {
        assert_eq!(taker.join().unwrap(), "later");
    }
    gate.open();
    assert_eq!(taker.join().unwrap(), "slow");
}

/// The documented limit.
#[testkit::test]
fn with_as_many_hanging_calls_as_threads_other_queues_wait_for_one_to_return() {
    let world = world();
    let gates = [Gate::new(), Gate::new()];
    assert_eq!(gates.len(), PUMP_THREADS);
    let hanging = gates.each_ref().map(|gate| world.hanging_queue(gate));
    for gate in &gates {
        gate.wait_for_arrivals(1);
    }
    let other = world.queue();
    let other_request = request(&other);
    assert_eq!(other.shutdown(Duration::ZERO), ShutDown::TimedOut);
    gates[0].open();
    assert_eq!(other.shutdown(LONG), ShutDown::Finished);
    drop(other_request);
    gates[1].open();
    for (_, taker) in hanging {
        assert_eq!(taker.join().unwrap(), "slow");
    }
}

#[testkit::test]
fn a_queue_that_ends_leaves_the_others_running() {
    let world = world();
    let queues = [world.queue(), world.queue()];
    for queue in &queues {
        queue.push(job("job"), When::NOW).unwrap();
        assert_eq!(take_and_ack(queue), "job");
    }
    let [first, second] = queues;
    assert_eq!(first.shutdown(SECOND), ShutDown::Finished);
    assert!(matches!(first.take(), Err(TakeError::ShutDown)));
    second.push(job("job"), SECOND).unwrap();
    let taker = on_thread(&second, take_and_ack);
    world.time.advance(SECOND);
    assert_eq!(taker.join().unwrap(), "job");
}

#[testkit::test]
fn a_clock_that_panics_once_shuts_down_one_of_the_queues() {
    let time = Time::new();
    let trap = ClockTrap::for_pumps(&time.clock);
    let world = World {
        threads: Threads::with_clock(trap.clone()),
        time,
    };
    let queues = [world.queue(), world.queue(), world.queue()];
    for queue in &queues {
        queue.push(job("job"), When::NOW).unwrap();
        assert_eq!(take_and_ack(queue), "job");
    }
    let ended = || {
        let ended = queues.iter().filter(|queue| {
            queue
                .take_timeout(Duration::ZERO)
                .is_err_and(|error| error.is_shut_down())
        });
        ended.count()
    };
    let take_next = || {
        let taken = queues.iter().filter(|queue| {
            // A push is possible after the end.
            queue.push(job("next"), When::NOW).unwrap();
            queue.take().is_ok_and(|taken| taken.ack().is_ok())
        });
        taken.count()
    };
    // A thread that wakes up for no queue may meet the panic. Then none ends. And a queue may end only after the trap was set
    // again.
    let mut panics = 0;
    while ended() == 0 {
        trap.left.store(1, SeqCst);
        panics += 1;
        assert!(take_next() + panics >= queues.len());
    }
    trap.left.store(0, SeqCst);
    // The last panic may be under way. The watchdog ends the wait for queues that neither work nor have ended.
    while take_next() + ended() != queues.len() {
        thread::yield_now();
    }
    assert!(ended() <= panics);
}

/// A forked child may make queues of its own, with threads that its parent has created.
#[cfg(unix)]
#[testkit::test]
fn in_a_forked_child_a_new_queue_gets_new_threads() {
    let ended = testkit::in_child(
        "threads::in_a_forked_child_a_new_queue_gets_new_threads",
        || {
            // Both threads of the parent are busy, so the child must not wait for one of them.
            let (world, gates) = (world(), [Gate::new(), Gate::new()]);
            let hanging = gates.each_ref().map(|gate| world.hanging_queue(gate));
            for gate in &gates {
                gate.wait_for_arrivals(1);
            }
            let told = testkit::in_fork(|| {
                let queue = world.queue();
                queue.push(job("child"), When::NOW).unwrap();
                assert_eq!(take_and_ack(&queue), "child");
                assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
            });
            assert_eq!(told, Ok(()));
            gates.iter().for_each(Gate::open);
            for (_, taker) in hanging {
                assert_eq!(taker.join().unwrap(), "slow");
            }
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

#[testkit::test]
fn a_queue_with_threads_of_its_own_does_not_wait_for_the_others() {
    let world = world();
    let gates = [Gate::new(), Gate::new()];
    let hanging = gates.each_ref().map(|gate| world.hanging_queue(gate));
    for gate in &gates {
        gate.wait_for_arrivals(1);
    }
    let alone = Threads::with_clock(world.time.clock.clone());
    let builder = world.time.builder(world.time.sim()).threads(alone);
    let queue = builder.build().unwrap();
    queue.push(job("alarm"), When::NOW).unwrap();
    assert_eq!(take_and_ack(&queue), "alarm");
    gates.iter().for_each(Gate::open);
    for (_, taker) in hanging {
        assert_eq!(taker.join().unwrap(), "slow");
    }
}

/// 200 idle workers with async handlers, in one pool.
#[cfg(target_os = "linux")]
#[testkit::test]
fn the_async_workers_of_two_hundred_queues_cost_at_most_eight_threads() {
    let ended = testkit::in_child(
        "threads::the_async_workers_of_two_hundred_queues_cost_at_most_eight_threads",
        || {
            let before = testkit::thread_names().len();
            let folder = crate::support::Folder::new();
            let store = durable_queue_sqlite::SqliteStore::open(folder.file("jobs")).unwrap();
            let handlers = 2;
            let pool = async_pool::AsyncPool::builder()
                .workers(handlers)
                .build()
                .unwrap();
            let (sender, handled) = std::sync::mpsc::channel();
            let workers: Vec<_> = (0..200)
                .map(|number| {
                    let queue =
                        DurableQueue::<String, _>::new(format!("queue {number}"), store.clone());
                    let sender = sender.clone();
                    let worker = durable_queue::Worker::builder(queue).concurrency(10);
                    worker
                        .start_async(&pool, move |_| {
                            sender.send(number).unwrap();
                            async { Ok::<_, String>(()) }
                        })
                        .unwrap()
                })
                .collect();
            for worker in &workers {
                worker.queue().push(job("job"), When::NOW).unwrap();
            }
            for _ in &workers {
                handled.recv().unwrap();
            }
            let names = testkit::thread_names();
            assert!(names.len() <= before + handlers + 8, "{before}: {names:?}");
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

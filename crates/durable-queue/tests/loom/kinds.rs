//! Kinds that are full, and time limits of attempts.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::{
    Claimed, DecodeError, EncodeError, Job, JobPolicy, Kind, KindOptions, LEASE, Payload,
    SettleError, ShutDown, When, Worker,
};
use sync_shim::Parker;
use sync_shim::atomic::{AtomicUsize, Ordering::SeqCst};

use super::{World, block_on, world};

/// A kind of which one job runs at a time.
struct Single;

impl Payload for Single {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        Ok(Cow::Borrowed(b"single"))
    }

    fn decode(_: Vec<u8>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl Kind for Single {
    const NAME: &'static str = "single";
}

const ONE: KindOptions = KindOptions::new();

fn push_two(world: &World) {
    let jobs = vec![(Single, When::NOW), (Single, When::NOW)];
    world.queue.kind().push_batch(jobs).unwrap();
}

/// Counts the running jobs, of which there may be one, and wakes the model after the second.
#[derive(Clone)]
struct Count {
    running: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
    both: Parker,
}

impl Count {
    fn new() -> Self {
        Self {
            running: Arc::new(AtomicUsize::new(0)),
            done: Arc::new(AtomicUsize::new(0)),
            both: Parker::new(),
        }
    }

    fn run(&self) {
        assert_eq!(self.running.fetch_add(1, SeqCst), 0, "one at a time");
        self.running.fetch_sub(1, SeqCst);
        if self.done.fetch_add(1, SeqCst) == 1 {
            self.both.unpark();
        }
    }
}

/// A thread ends the job of a full kind while another waits for jobs: the next job of the kind is claimed and runs. Time
/// stands still, so no safety net finds it.
#[testkit::model(preemptions = 1)]
fn the_end_of_a_job_racing_one_that_waits_for_its_kind_runs_it() {
    let world = world();
    push_two(&world);
    let count = Count::new();
    let worker = {
        let count = count.clone();
        Worker::builder(world.queue.clone())
            .concurrency(2)
            .on_with(ONE.concurrency(1), move |_: &Claimed<Single>| {
                count.run();
                Ok::<_, Infallible>(())
            })
            .start()
            .unwrap()
    };
    count.both.park();
    assert_eq!(worker.shutdown(LEASE), ShutDown::Finished);
    assert_eq!(world.left(), 0);
}

/// The same for a run, whose call waits while its only job of the kind ends.
#[testkit::model(preemptions = 2)]
fn a_run_whose_waiting_job_starts_racing_its_call_runs_both() {
    let world = world();
    push_two(&world);
    let count = Count::new();
    let runner = {
        let count = count.clone();
        world.on_thread(move |queue| {
            let run = Worker::builder(queue.clone()).concurrency(2).on_async_with(
                ONE.concurrency(1),
                move |_: Job<Single>| {
                    let count = count.clone();
                    async move {
                        count.run();
                        Ok::<_, Infallible>(())
                    }
                },
            );
            block_on(run.run_async()).unwrap()
        })
    };
    count.both.park();
    world.queue.close();
    assert_eq!(runner.join().unwrap(), ShutDown::Finished);
    assert_eq!(world.left(), 0);
}

/// The time limit of an attempt is over while its handler acknowledges the job: it is done, or free and the
/// acknowledgement is stale.
#[testkit::model(preemptions = 2)]
fn the_end_of_a_time_limit_racing_an_ack_settles_the_job_once() {
    const LIMIT: Duration = Duration::from_secs(1);
    let world = world();
    let limited = JobPolicy::new().time_limit(LIMIT);
    let limited = limited.back_off(Duration::ZERO, Duration::ZERO);
    let queue = world.queue.with_policy(limited);
    queue.push(vec![1], When::NOW).unwrap();
    let taken = world.queue.take().unwrap();
    let acker = world.on_thread(|_| taken.ack());
    world.clock.advance(LIMIT);
    match acker.join().unwrap() {
        Ok(()) => assert_eq!(world.left(), 0),
        Err(SettleError::Stale) => {
            let again = world.queue.take().unwrap();
            assert_eq!(again.attempt(), 2);
            again.ack().unwrap();
        }
        Err(other) => panic!("{other}"),
    }
    world.end();
}

//! `DurableQueue` on each of our stores.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use durable_queue::store::{Claim, Store};
use durable_queue::{DurableQueue, HORIZON, LEASE, ShutDown, Token, When, Worker};
use stores::{Fault, Handler, Job, Outcome, Queue, Workers};

pub const NAME: &str = "bench";
/// Jobs that a worker takes at a time.
const BATCH: NonZeroUsize = NonZeroUsize::new(100).expect("it is not zero");
const SHUTDOWN: Duration = Duration::from_secs(5);

type Open<S> = dyn Fn() -> Outcome<S> + Send + Sync;

/// How jobs start.
#[derive(Clone, Copy)]
pub enum Way {
    /// Claimed ahead, and confirmed by the store when due.
    Confirmed,
    /// Claimed ahead, and reported to the store when started.
    Unconfirmed,
    /// Not claimed before they are due.
    AtTheTime,
    /// Confirmed, with a worker that chooses the size of its claims itself.
    Adaptive,
}

/// Pushes use `queue`; each worker opens the store again.
pub struct Ours<S: Store> {
    open: Box<Open<S>>,
    way: Way,
    store: S,
    queue: DurableQueue<String, S>,
}

impl<S: Store + Clone> Ours<S> {
    pub fn new(way: Way, open: impl Fn() -> Outcome<S> + Send + Sync + 'static) -> Outcome<Self> {
        let store = open()?;
        Ok(Self {
            queue: DurableQueue::new(NAME, store.clone()),
            store,
            way,
            open: Box::new(open),
        })
    }
}

impl<S: Store + Clone> Queue for Ours<S> {
    fn push(&self, jobs: &[Job]) -> Outcome {
        if let [job] = jobs {
            return match self.queue.push(job.text.clone(), job.when()) {
                Ok(_) => Ok(()),
                Err(failed) => Err(failed.error.into()),
            };
        }
        let values = jobs
            .iter()
            .map(|job| (job.text.clone(), When::from(job.when())));
        match self.queue.push_batch(values.collect()) {
            Ok(_) => Ok(()),
            Err(failed) => Err(failed.error.into()),
        }
    }

    fn push_each_async(&self, tasks: u32, delay: Duration, until: Instant) -> Outcome<u32> {
        let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                let queue = self.queue.clone();
                runtime.spawn(async move {
                    let mut pushed = 0;
                    while Instant::now() < until {
                        let job = Job::after(delay);
                        let push = queue.push_async(job.text.clone(), job.when());
                        push.await.map_err(|failed| failed.error)?;
                        pushed += 1;
                    }
                    Ok::<u32, Fault>(pushed)
                })
            })
            .collect();
        runtime.block_on(async {
            let mut pushed = 0;
            for task in tasks {
                pushed += task.await??;
            }
            Ok(pushed)
        })
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        let mut team = Team(Vec::new());
        for _ in 0..workers {
            let queue = DurableQueue::builder(NAME, (self.open)()?);
            let queue: DurableQueue<String, S> = match self.way {
                Way::Confirmed | Way::Adaptive => queue,
                Way::Unconfirmed => queue.confirm(false),
                Way::AtTheTime => queue.horizon(Duration::ZERO),
            }
            .build()?;
            let handler = handler.clone();
            let worker = match self.way {
                Way::Adaptive => Worker::builder(queue),
                _ => Worker::builder(queue).batch(BATCH),
            };
            let worker = worker.start(move |job| {
                handler(job);
                Ok::<(), Fault>(())
            })?;
            team.0.push(worker);
        }
        Ok(Box::new(team))
    }

    fn look(&self) -> Outcome {
        let most = u32::try_from(BATCH.get())?;
        let claim = Claim {
            token: Token::random(),
            max: most,
            start: most,
            ahead: most,
            horizon: HORIZON,
            lease: LEASE,
            urgent_first: true,
        };
        let claimed = self.store.turn(NAME, &[], Some(claim))?.claimed;
        let leases = claimed.ok_or("it claims")?.leases;
        if leases.is_empty() {
            Ok(())
        } else {
            Err(Fault::from("a claim returned a job although none was due"))
        }
    }
}

struct Team<S: Store>(Vec<Worker<String, S>>);

impl<S: Store> Workers for Team<S> {}

impl<S: Store> Drop for Team<S> {
    fn drop(&mut self) {
        for worker in &self.0 {
            worker.queue().close();
        }
        for worker in &self.0 {
            if worker.shutdown(SHUTDOWN) != ShutDown::Finished {
                eprintln!("a worker did not end well");
            }
        }
    }
}

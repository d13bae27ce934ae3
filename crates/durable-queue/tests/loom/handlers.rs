//! Async handlers: the hand-over of a job to a run, its wake-ups, and the loss of its lease.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use durable_queue::{LEASE, SettleError, ShutDown, When, Worker};
use sync_shim::model::spawn;
use sync_shim::{Mutex, Parker};

use super::{block_on, steal, world};

/// A gate for one future.
#[derive(Clone)]
struct Latch(Arc<Mutex<(bool, Option<Waker>)>>);

impl Latch {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((false, None))))
    }

    fn open(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn wait(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// The pump hands a job to the run while it is dropped: the job is free at once.
#[testkit::model(preemptions = 3)]
fn a_dropped_run_racing_its_job_leaves_it_to_others() {
    let world = world();
    world.push(1, When::NOW);
    {
        let builder = Worker::builder(world.queue.clone());
        let mut run = builder.run_async(|_| async { Ok::<_, Infallible>(()) });
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut run).poll(&mut context).is_pending());
    }
    assert_eq!(world.queue.shutdown(LEASE), ShutDown::Finished);
    assert_eq!(steal(world.queue.store()), 1);
}

/// The job is handed over, and its handler is woken, while the run goes to sleep: both are noticed.
#[testkit::model(preemptions = 2)]
fn a_job_and_a_wake_up_racing_the_sleep_of_a_run_are_noticed() {
    let world = world();
    let (latch, done) = (Latch::new(), Parker::new());
    let runner = {
        let (latch, done) = (latch.clone(), done.clone());
        world.on_thread(move |queue| {
            let run = Worker::builder(queue.clone()).run_async(|_| {
                let (latch, done) = (latch.clone(), done.clone());
                async move {
                    latch.wait().await;
                    done.unpark();
                    Ok::<_, Infallible>(())
                }
            });
            block_on(run).unwrap()
        })
    };
    world.push(1, When::NOW);
    latch.open();
    done.park();
    world.queue.close();
    assert_eq!(runner.join().unwrap(), ShutDown::Finished);
    assert_eq!(world.left(), 0);
}

/// The run ends, and its job is done or free.
#[testkit::model(preemptions = 2)]
fn a_close_racing_a_run_with_a_job_ends_it() {
    let world = world();
    world.push(1, When::NOW);
    let runner = world.on_thread(|queue| {
        let builder = Worker::builder(queue.clone());
        block_on(builder.run_async(|_| async { Ok::<_, Infallible>(()) })).unwrap()
    });
    world.queue.close();
    assert_eq!(runner.join().unwrap(), ShutDown::Finished);
    let left = usize::try_from(world.left()).unwrap();
    assert_eq!(steal(world.queue.store()), left);
}

/// The lease is found lost while a future begins to wait for that.
#[testkit::model(preemptions = 2)]
fn the_loss_of_a_lease_racing_its_future_completes_it() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    world.clock.advance(LEASE);
    assert_eq!(steal(world.queue.store()), 1);
    let lost = taken.lost();
    let waiter = spawn(move || block_on(lost));
    assert!(matches!(taken.extend(LEASE), Err(SettleError::Stale)));
    waiter.join().unwrap();
    drop(taken);
    world.end();
}

/// The lease is found lost while the handler completes: it is dropped, or its result is ignored.
#[testkit::model(preemptions = 2)]
fn the_loss_of_a_lease_racing_the_end_of_its_handler_settles_nothing() {
    let world = world();
    world.push(1, When::NOW);
    let (begun, latch) = (Parker::new(), Latch::new());
    let runner = {
        let (begun, latch) = (begun.clone(), latch.clone());
        world.on_thread(move |queue| {
            let builder = Worker::builder(queue.clone()).cancel_on_lost_lease();
            let run = builder.run_async(|job| {
                let (begun, latch) = (begun.clone(), latch.clone());
                async move {
                    begun.unpark();
                    latch.wait().await;
                    drop(job.extend_async(LEASE)); // Stale, so the pump finds the lease lost.
                    let mut is_first = true;
                    poll_fn(|context| {
                        context.waker().wake_by_ref();
                        if std::mem::take(&mut is_first) {
                            Poll::Pending
                        } else {
                            Poll::Ready(())
                        }
                    })
                    .await;
                    Ok::<_, Infallible>(())
                }
            });
            block_on(run).unwrap()
        })
    };
    begun.park();
    world.clock.advance(LEASE);
    assert_eq!(steal(world.queue.store()), 1);
    latch.open();
    world.queue.close();
    assert_eq!(runner.join().unwrap(), ShutDown::Finished);
    assert_eq!(world.left(), 1, "the thief's");
    assert_eq!(steal(world.queue.store()), 0);
}

//! Async handlers, polled by a future of the caller, and in an `AsyncPool`.

use std::fmt::{self, Display};
use std::future::{Future, pending, poll_fn, ready};
use std::io;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use async_pool::AsyncPool;
use durable_queue::internals::SAFETY_LOOK;
use durable_queue::{
    DurableQueue, Job, LEASE, SettleError, ShutDown, Store, TakeError, When, Worker,
};
use durable_queue_sqlite::SqliteStore;
use durable_queue_testing::SimStore;
use sync_shim::{Alarm, Clock, ManualClock, Parker};
use testkit::{CountingWaker, DropCounter, Gate, PanicOnDrop, block_on};

use crate::latch::Latch;
use crate::support::{Folder, LONG, SECOND, Time, job};
use crate::worker::{MILLI, held, push_all, queue_with_slow_turns, wait_until_done};

type Queue = DurableQueue<String, SimStore>;
type Ended = Result<ShutDown, TakeError>;

/// Runs a future on a thread of its own until the latch opens.
fn on_thread<R: Send + 'static>(run: impl Future<Output = R> + Send + 'static) -> JoinHandle<R> {
    thread::spawn(move || block_on(run))
}

/// A task of a service: `until` in an async block, whose future the compiler has to see as `Send`, for any store.
fn task_of<S: Store>(
    queue: &DurableQueue<String, S>,
    handler: Arc<dyn Fn(&str) + Send + Sync>,
) -> impl Future<Output = Option<ShutDown>> + Send + use<S> {
    let signal = wait_until_empty(queue.clone());
    let run = Worker::builder(queue.clone()).run_async(move |job| {
        let handler = handler.clone();
        async move {
            handler(&job);
            Ok::<(), Failed>(())
        }
    });
    async move { run.until(signal).await.ok() }
}

async fn wait_until_empty<S: Store>(queue: DurableQueue<String, S>) {
    while queue.store_stats().unwrap().jobs > 0 {
        async_pool::yield_now().await;
    }
}

#[testkit::test]
fn a_run_until_a_signal_can_be_a_task_of_a_runtime() {
    let time = Time::new();
    let queue = time.builder(time.sim()).build().unwrap();
    push_all(&queue, 3);
    let (sender, handled) = channel();
    let handler = Arc::new(move |job: &str| sender.send(job.to_owned()).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let task = runtime.spawn(task_of(&queue, handler));
    assert_eq!(runtime.block_on(task).unwrap(), Some(ShutDown::Finished));
    assert_eq!(handled.iter().collect::<Vec<_>>(), ["0", "1", "2"]);
}

fn is_finished(ended: &Ended) -> bool {
    matches!(ended, Ok(ShutDown::Finished))
}

fn is_timed_out(ended: &Ended) -> bool {
    matches!(ended, Ok(ShutDown::TimedOut))
}

/// A handler's error, or its panic.
#[derive(Debug)]
struct Failed(&'static str);

impl Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Failed {}

/// Both ways to run handlers, with a handler that gets a context.
fn each_way<F, Fut>(
    time: &Time,
    concurrency: usize,
    handler: F,
    test: impl Fn(&Queue, &dyn Fn() -> ShutDown),
) where
    F: Fn(Job<String>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Failed>> + Send + 'static,
{
    {
        let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
        let stop = Latch::new();
        let run = Worker::builder(queue.clone())
            .concurrency(concurrency)
            .run_async(handler.clone());
        let thread = {
            let stop = stop.clone();
            on_thread(run.until(async move { stop.wait().await }))
        };
        let thread = Mutex::new(Some(thread));
        test(&queue, &|| {
            stop.open();
            let thread = thread.lock().unwrap().take().unwrap();
            thread.join().unwrap().unwrap()
        });
    }
    let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
    let pool = AsyncPool::builder().workers(2).build().unwrap();
    let worker = Worker::builder(queue.clone())
        .concurrency(concurrency)
        .start_async(&pool, handler)
        .unwrap();
    test(&queue, &|| worker.shutdown(LONG));
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn each_job_is_handled_and_acknowledged() {
    const JOBS: usize = 500;
    let time = Time::new();
    let (done, handled) = channel();
    let handler = move |job: Job<String>| {
        let done = done.clone();
        async move {
            assert_eq!(job.attempt(), 1);
            done.send(job.parse::<usize>().unwrap()).unwrap();
            Ok(())
        }
    };
    each_way(&time, 7, handler, |queue, shut_down| {
        push_all(queue, JOBS);
        let mut all: Vec<usize> = (0..JOBS).map(|_| handled.recv().unwrap()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..JOBS));
        assert_eq!(shut_down(), ShutDown::Finished);
        assert_eq!(queue.store_stats().unwrap().jobs, 0, "all are settled");
    });
}

#[testkit::test]
fn handlers_get_a_clone_of_the_context() {
    #[derive(Clone)]
    struct App(Arc<Mutex<Vec<String>>>);

    let time = Time::new();
    let app = App(Arc::default());
    let builder = |queue: &Queue| {
        let builder = Worker::builder(queue.clone()).context(app.clone());
        builder.concurrency(2)
    };
    let queue = time.queue(time.sim());
    queue.push(job("in a pool"), When::NOW).unwrap();
    let pool = AsyncPool::builder().workers(1).build().unwrap();
    let worker = builder(&queue).start_async(&pool, |job, app| async move {
        app.0.lock().unwrap().push(job.to_string());
        Ok::<_, Failed>(())
    });
    wait_until_done(&queue);
    assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);

    let queue = time.queue(time.sim());
    queue.push(job("in a run"), When::NOW).unwrap();
    let thread = on_thread(builder(&queue).run_async(|job, app| async move {
        app.0.lock().unwrap().push(job.to_string());
        Ok::<_, Failed>(())
    }));
    wait_until_done(&queue);
    queue.close();
    assert!(is_finished(&thread.join().unwrap()));
    assert_eq!(*app.0.lock().unwrap(), ["in a pool", "in a run"]);
}

#[testkit::test]
fn a_failed_or_panicked_handler_is_retried_and_buried_with_its_error() {
    let time = Time::new();
    let (tried, attempts) = channel();
    let handler = move |job: Job<String>| {
        tried.send(job.attempt()).unwrap();
        assert!(*job.as_str() != *"panic in the call", "as it was asked to");
        async move {
            let kind = job.as_str();
            assert!(kind != "panic in a poll", "as it was asked to");
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
            assert!(kind != "panic in a later poll", "as it was asked to");
            Err(Failed("no luck"))
        }
    };
    let cases = [
        ("error", "no luck"),
        ("panic in the call", "the handler panicked"),
        ("panic in a poll", "the handler panicked"),
        ("panic in a later poll", "the handler panicked"),
    ];
    each_way(&time, 3, handler, |queue, shut_down| {
        for (name, error) in cases {
            let id = queue.push(job(name), When::NOW).unwrap();
            assert_eq!(attempts.recv().unwrap(), 1);
            while queue.store_stats().unwrap().jobs > 0 {
                time.clock.advance(SECOND);
                thread::yield_now();
            }
            assert_eq!(attempts.recv().unwrap(), 2);
            let dead = queue.dead(None, 10).unwrap();
            let dead = dead.iter().find(|dead| dead.id == id).unwrap();
            assert!(dead.error.contains(error), "{}", dead.error);
        }
        assert_eq!(shut_down(), ShutDown::Finished);
    });
}

/// A future whose drop panics, and whose result is there.
struct DropsBadly {
    result: Result<(), &'static str>,
    _bomb: PanicOnDrop,
}

impl Future for DropsBadly {
    type Output = Result<(), Failed>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.result.map_err(Failed))
    }
}

#[testkit::test]
fn a_panic_in_the_drop_of_a_future_does_not_change_its_result() {
    let time = Time::new();
    let handler = |job: Job<String>| {
        let result = if *job.as_str() == *"good" {
            Ok(())
        } else {
            Err("bad")
        };
        DropsBadly {
            result,
            _bomb: PanicOnDrop::new(),
        }
    };
    each_way(&time, 1, handler, |queue, shut_down| {
        queue.push(job("good"), When::NOW).unwrap();
        wait_until_done(queue);
        assert_eq!(queue.store_stats().unwrap().dead, 0);
        queue.push(job("bad"), When::NOW).unwrap();
        while queue.store_stats().unwrap().jobs > 0 {
            time.clock.advance(SECOND);
            thread::yield_now();
        }
        assert_eq!(queue.dead(None, 1).unwrap()[0].error, "bad");
        assert_eq!(shut_down(), ShutDown::Finished);
    });
}

#[testkit::test]
fn concurrency_is_reached_and_neither_handlers_nor_claims_exceed_it() {
    const MOST: usize = 5;
    const ROUNDS: usize = 20;
    let time = Time::new();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let latches = Arc::new(Mutex::new(Vec::<Latch>::new()));
    let handler = {
        let (running, most, latches) = (running, Arc::clone(&most), Arc::clone(&latches));
        move |_: Job<String>| {
            let latch = Latch::new();
            latches.lock().unwrap().push(latch.clone());
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            async move {
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                latch.wait().await;
                running.fetch_sub(1, SeqCst);
                Ok(())
            }
        }
    };
    each_way(&time, MOST, handler, |queue, shut_down| {
        latches.lock().unwrap().clear();
        push_all(queue, MOST * ROUNDS);
        for round in 1..=ROUNDS {
            while latches.lock().unwrap().len() < MOST * round {
                thread::yield_now();
            }
            assert_eq!(held(queue), MOST);
            let latches = latches.lock().unwrap();
            // The others go on while one is slow.
            latches[MOST * (round - 1)..]
                .iter()
                .rev()
                .for_each(Latch::open);
        }
        wait_until_done(queue);
        assert_eq!(shut_down(), ShutDown::Finished);
        assert_eq!(most.load(SeqCst), MOST);
    });
}

/// The room that a call asks for grows while it waits.
#[testkit::test]
fn room_that_is_free_again_is_filled_with_one_claim() {
    const MOST: usize = 10;
    let time = Time::new();
    let queue = time.queue(time.sim());
    let (latch, second) = (Latch::new(), Latch::new());
    let run = {
        let (latch, second) = (latch.clone(), second.clone());
        let builder = Worker::builder(queue.clone()).concurrency(MOST);
        builder.run_async(move |job| {
            let (latch, second) = (latch.clone(), second.clone());
            async move {
                if *job.as_str() == *"first" {
                    latch.wait().await;
                } else {
                    second.wait().await;
                }
                Ok::<_, Failed>(())
            }
        })
    };
    let thread = on_thread(run);
    for _ in 1..MOST {
        queue.push(job("first"), When::NOW).unwrap();
    }
    latch.wait_for_arrivals(MOST - 1); // A call waits for one job.
    latch.open();
    wait_until_done(&queue);
    time.clock.wait_for_sleepers(1);
    let turns = queue.stats().turns;
    push_all(&queue, MOST);
    second.wait_for_arrivals(MOST);
    assert_eq!(queue.stats().turns, turns + 1);
    second.open();
    wait_until_done(&queue);
    queue.close();
    assert!(is_finished(&thread.join().unwrap()));
}

#[testkit::test]
fn jobs_of_short_async_handlers_share_turns_without_a_configured_batch() {
    const JOBS: usize = 2_000;
    let time = Time::new();
    let queue = queue_with_slow_turns(&time);
    push_all(&queue, JOBS);
    let run = Worker::builder(queue.clone())
        .concurrency(3)
        .run_async(|_| ready(Ok::<_, Failed>(())));
    let thread = on_thread(run);
    wait_until_done(&queue);
    let turns = usize::try_from(queue.stats().turns).unwrap();
    assert!(turns < JOBS / 20, "{turns} turns");
    queue.close();
    assert!(is_finished(&thread.join().unwrap()));
}

#[testkit::test]
fn slow_async_handlers_claim_no_more_jobs_than_they_have_room() {
    const JOBS: usize = 30;
    const HANDLERS: usize = 3;
    let time = Time::new();
    let queue = queue_with_slow_turns(&time);
    push_all(&queue, JOBS);
    let (all, clock) = (queue.clone(), time.clock.clone());
    let most = Arc::new(AtomicUsize::new(0));
    let suspended = Arc::new(AtomicUsize::new(0));
    let mut run = {
        let (most, suspended) = (Arc::clone(&most), Arc::clone(&suspended));
        let builder = Worker::builder(queue.clone()).concurrency(HANDLERS);
        builder.run_async(move |_| {
            most.fetch_max(held(&all), SeqCst);
            let suspended = Arc::clone(&suspended);
            async move {
                suspended.fetch_add(1, SeqCst);
                async_pool::yield_now().await;
                suspended.fetch_sub(1, SeqCst);
                Ok::<_, Failed>(())
            }
        })
    };
    let run = poll_fn(move |context| {
        if suspended.load(SeqCst) > 0 {
            clock.advance(MILLI * 100);
        }
        Pin::new(&mut run).poll(context)
    });
    let thread = on_thread(run);
    wait_until_done(&queue);
    queue.close();
    assert!(is_finished(&thread.join().unwrap()));
    assert_eq!(most.load(SeqCst), HANDLERS);
}

#[testkit::test]
fn a_batch_is_claimed_at_a_time_and_waits_for_room() {
    const JOBS: usize = 200;
    const BATCH: usize = 100;
    let time = Time::new();
    let queue = time.queue(time.sim());
    let (latch, begun) = (Latch::new(), Arc::new(AtomicUsize::new(0)));
    push_all(&queue, JOBS);
    let run = {
        let (latch, begun) = (latch.clone(), Arc::clone(&begun));
        let builder = Worker::builder(queue.clone()).concurrency(3);
        let builder = builder.batch(NonZeroUsize::new(BATCH).unwrap());
        builder.run_async(move |_| {
            begun.fetch_add(1, SeqCst);
            let latch = latch.clone();
            async move {
                latch.wait().await;
                Ok::<_, Failed>(())
            }
        })
    };
    let thread = on_thread(run);
    latch.wait_for_arrivals(3);
    assert_eq!((held(&queue), begun.load(SeqCst)), (BATCH, 3));
    latch.open();
    wait_until_done(&queue);
    queue.close();
    assert!(is_finished(&thread.join().unwrap()));
    assert_eq!(begun.load(SeqCst), JOBS);
}

#[testkit::test]
fn a_signal_stops_the_run_which_waits_for_running_handlers() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    push_all(&queue, 5);
    let (stop, latch) = (Latch::new(), Latch::new());
    let run = {
        let latch = latch.clone();
        let builder = Worker::builder(queue.clone()).concurrency(2).grace(SECOND);
        builder.run_async(move |_| {
            let latch = latch.clone();
            async move {
                latch.wait().await;
                Ok::<_, Failed>(())
            }
        })
    };
    let thread = {
        let stop = stop.clone();
        on_thread(run.until(async move { stop.wait().await }))
    };
    latch.wait_for_arrivals(2);
    stop.open();
    time.clock.wait_for_sleepers(2); // The pump, and the alarm of the grace.
    assert!(!thread.is_finished());
    latch.open();
    assert!(is_finished(&thread.join().unwrap()));
    let left = queue.list(None, 10).unwrap();
    assert_eq!(left.len(), 3);
    assert!(
        left.iter().all(|job| job.attempts == 0),
        "they were not started"
    );
}

#[testkit::test]
fn handlers_that_outlive_the_grace_are_dropped_and_their_jobs_released() {
    for grace in [Duration::ZERO, SECOND] {
        let time = Time::new();
        let queue = time.queue(time.sim());
        push_all(&queue, 3);
        let (begun, dropped) = (Latch::new(), DropCounter::new());
        let run = {
            let (begun, dropped) = (begun.clone(), dropped.clone());
            let builder = Worker::builder(queue.clone()).concurrency(3).grace(grace);
            builder.run_async(move |_| {
                let (begun, token) = (begun.clone(), dropped.token());
                async move {
                    let _token = token;
                    let _bomb = PanicOnDrop::new();
                    begun.wait().await;
                    pending::<Result<(), Failed>>().await
                }
            })
        };
        let stop = Latch::new();
        let thread = {
            let stop = stop.clone();
            on_thread(run.until(async move { stop.wait().await }))
        };
        begun.wait_for_arrivals(3);
        stop.open();
        if !grace.is_zero() {
            time.clock.wait_for_sleepers(2);
            assert_eq!(dropped.dropped(), 0);
            time.clock.advance(grace);
        }
        assert!(is_timed_out(&thread.join().unwrap()));
        assert_eq!(dropped.alive(), 0);
        let left = queue.list(None, 10).unwrap();
        assert_eq!(left.len(), 3);
        let is_free =
            |job: &durable_queue::store::ListedJob| job.attempts == 0 && !job.state.is_held();
        assert!(left.iter().all(is_free), "{left:?}");
    }
}

/// A clock whose alarms are refused, and counted.
#[derive(Clone, Debug)]
struct WithoutAlarms(ManualClock, Arc<AtomicUsize>);

impl Clock for WithoutAlarms {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        self.1.fetch_add(1, SeqCst);
        Err(io::ErrorKind::WouldBlock.into())
    }
}

#[testkit::test]
fn without_alarms_handlers_keep_their_grace_and_a_shutdown_its_deadline() {
    let time = Time::new();
    let refused = Arc::new(AtomicUsize::new(0));
    let clock = WithoutAlarms(time.clock.clone(), Arc::clone(&refused));
    let wait_for_refusals = |count| {
        let before = refused.load(SeqCst);
        while refused.load(SeqCst) < before + count {
            thread::yield_now();
        }
    };
    let queue = DurableQueue::builder("queue", time.sim()).clock(clock);
    let queue: Queue = queue.build().unwrap();
    push_all(&queue, 1);
    let (stop, begun, dropped) = (Latch::new(), Latch::new(), DropCounter::new());
    let run = {
        let (begun, dropped) = (begun.clone(), dropped.clone());
        let builder = Worker::builder(queue.clone()).grace(SECOND);
        builder.run_async(move |_| {
            let (begun, token) = (begun.clone(), dropped.token());
            async move {
                let _token = token;
                begun.wait().await;
                pending::<Result<(), Failed>>().await
            }
        })
    };
    let thread = {
        let stop = stop.clone();
        on_thread(run.until(async move { stop.wait().await }))
    };
    begun.wait_for_arrivals(1);
    stop.open();
    wait_for_refusals(3);
    assert_eq!(dropped.dropped(), 0, "the grace is not over");
    let shut = on_thread(queue.shutdown_async(SECOND / 2));
    wait_for_refusals(3);
    assert!(!shut.is_finished());
    time.clock.advance(SECOND / 2);
    assert_eq!(shut.join().unwrap(), ShutDown::TimedOut);
    time.clock.advance(SECOND);
    assert!(is_timed_out(&thread.join().unwrap()));
    assert_eq!(dropped.alive(), 0);
}

/// In the middle: one handler runs, one job was given to the run and not polled, one is not claimed.
#[testkit::test]
fn dropping_a_run_drops_its_handlers_and_releases_their_jobs() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let dropped = DropCounter::new();
    let counter = CountingWaker::new();
    {
        let dropped = dropped.clone();
        let builder = Worker::builder(queue.clone()).concurrency(2);
        let mut run = pin!(builder.run_async(move |_| {
            let token = dropped.token();
            async move {
                let _token = token;
                pending::<Result<(), Failed>>().await
            }
        }));
        let waker = counter.waker();
        let mut poll = || run.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending());
        queue.push(job("runs"), When::NOW).unwrap();
        counter.wait_for_wakes(1);
        assert!(poll().is_pending());
        assert_eq!(queue.stats().taken, 1);
        push_all(&queue, 2);
        counter.wait_for_wakes(2);
    }
    assert_eq!((dropped.dropped(), dropped.alive()), (1, 0));
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    assert_eq!(counter.wakers(), 0);
    let left = queue.list(None, 10).unwrap();
    assert_eq!(left.len(), 3);
    assert!(left.iter().all(|job| job.attempts == 0), "{left:?}");
}

#[test]
fn a_run_that_is_never_polled_starts_nothing_and_closes_the_queue() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    drop(Worker::builder(queue.clone()).run_async(|_| ready(Ok::<_, Failed>(()))));
    assert!(queue.take().unwrap_err().is_shut_down());
    let run = Worker::builder(queue).run_async(|_| ready(Ok::<_, Failed>(())));
    assert!(is_finished(&block_on(run)), "the queue is closed already");
}

#[testkit::test]
fn a_run_keeps_its_queue_open_after_the_last_other_handle() {
    let time = Time::new();
    let sim = time.sim();
    let queue = time.queue(sim.clone());
    let stop = Latch::new();
    let thread = {
        let stop = stop.clone();
        let run = Worker::builder(queue).run_async(|_| ready(Ok::<_, Failed>(())));
        on_thread(run.until(async move { stop.wait().await }))
    };
    let other = time.queue(sim);
    push_all(&other, 3);
    wait_until_done(&other);
    stop.open();
    assert!(is_finished(&thread.join().unwrap()));
}

#[testkit::test]
fn handlers_that_wake_themselves_do_not_keep_others_from_running() {
    let time = Time::new();
    let stop = Arc::new(AtomicBool::new(false));
    let handler = {
        let stop = Arc::clone(&stop);
        move |job: Job<String>| {
            let stop = Arc::clone(&stop);
            async move {
                poll_fn(|context| {
                    if stop.load(SeqCst) || *job.as_str() != *"busy" {
                        return Poll::Ready(Ok(()));
                    }
                    context.waker().wake_by_ref();
                    Poll::Pending
                })
                .await
            }
        }
    };
    each_way(&time, 3, handler, |queue, shut_down| {
        stop.store(false, SeqCst);
        for _ in 0..2 {
            queue.push(job("busy"), When::NOW).unwrap();
        }
        push_all(queue, 50);
        while queue.store_stats().unwrap().jobs > 2 {
            thread::yield_now();
        }
        stop.store(true, SeqCst);
        assert_eq!(shut_down(), ShutDown::Finished);
    });
}

/// Another process has claimed the job after the end of the lease.
#[testkit::test]
fn a_lost_lease_completes_lost_and_drops_the_future_if_asked() {
    for cancels in [false, true] {
        let time = Time::new();
        let sim = time.sim();
        let queue = time.builder(sim.clone()).heartbeat(false).build().unwrap();
        let (begun, dropped, seen) = (Latch::new(), DropCounter::new(), Latch::new());
        let builder = Worker::builder(queue.clone());
        let builder = if cancels {
            builder.cancel_on_lost_lease()
        } else {
            builder
        };
        let handler = {
            let (begun, dropped, seen) = (begun.clone(), dropped.clone(), seen.clone());
            move |job: Job<String>| {
                let (begun, seen) = (begun.clone(), seen.clone());
                let token = dropped.token();
                async move {
                    let _token = token;
                    assert!(!job.is_lost());
                    begun.wait().await;
                    let extended = job.extend_async(LEASE).await;
                    assert!(matches!(extended, Err(SettleError::Stale)));
                    assert!(job.is_lost());
                    job.lost().await;
                    seen.wait().await;
                    Ok::<_, Failed>(())
                }
            }
        };
        let thread = on_thread(builder.run_async(handler));
        queue.push(job("job"), When::NOW).unwrap();
        begun.wait_for_arrivals(1);
        time.clock.advance(LEASE);
        let other = time.queue(sim);
        let taken = other.take().unwrap();
        assert_eq!(taken.attempt(), 2);
        begun.open();
        if cancels {
            while dropped.alive() > 0 {
                thread::yield_now();
            }
        } else {
            seen.wait_for_arrivals(1);
            seen.open();
        }
        queue.close();
        assert!(is_finished(&thread.join().unwrap()));
        taken.ack().unwrap();
        assert_eq!(other.store_stats().unwrap().jobs, 0);
    }
}

#[testkit::test]
fn a_handler_that_outlives_its_attempts_timeout_is_dropped_and_fails_if_asked() {
    let time = Time::new();
    let queue = time.builder(time.sim()).attempt_timeout(SECOND);
    let queue = queue.max_attempts(1).build().unwrap();
    let (begun, dropped) = (Latch::new(), DropCounter::new());
    let handler = {
        let (begun, dropped) = (begun.clone(), dropped.clone());
        move |_: Job<String>| {
            let (begun, token) = (begun.clone(), dropped.token());
            async move {
                let _token = token;
                begun.wait().await;
                pending::<Result<(), Failed>>().await
            }
        }
    };
    let builder = Worker::builder(queue.clone()).cancel_on_lost_lease();
    let thread = on_thread(builder.run_async(handler));
    queue.push(job("hangs"), When::NOW).unwrap();
    begun.wait_for_arrivals(1);
    while dropped.alive() > 0 {
        time.advance(LEASE / 2);
    }
    while queue.store_stats().unwrap().dead < 1 {
        thread::yield_now();
    }
    assert_eq!(queue.stats().timed_out, 1);
    queue.close();
    assert!(is_finished(&thread.join().unwrap()));
}

/// The wakers of lost futures are woken, replaced and forgotten.
#[testkit::test]
fn lost_is_pending_while_the_lease_lives_and_ready_when_the_pump_has_ended() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    let counters = [(); 3].map(|()| CountingWaker::new());
    let wakers = counters.clone().map(|counter| counter.waker());
    let mut futures = [(); 3].map(|()| Box::pin(taken.lost()));
    for _ in 0..2 {
        for (future, waker) in futures.iter_mut().zip(&wakers) {
            assert!(
                future
                    .as_mut()
                    .poll(&mut Context::from_waker(waker))
                    .is_pending()
            );
        }
    }
    let [first, mut second, third] = futures;
    drop(first);
    assert_eq!(counters[0].wakers(), 1);
    // Takes the place of the dropped one.
    let mut fourth = Box::pin(taken.lost());
    let mut context = Context::from_waker(&wakers[0]);
    assert!(fourth.as_mut().poll(&mut context).is_pending());
    // Replaces its own waker.
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert_eq!(counters[1].wakers(), 1);
    drop(third);
    assert_eq!(queue.shutdown(Duration::ZERO), ShutDown::TimedOut);
    counters[0].wait_for_wakes(2);
    assert!(taken.is_lost());
    assert!(second.as_mut().poll(&mut context).is_ready());
    assert!(fourth.as_mut().poll(&mut context).is_ready());
    assert_eq!(counters[2].wakes(), 0);
}

/// The turns of a queue whose clock passes some safety looks.
fn idle_turns(time: &Time, queue: &Queue) -> u64 {
    for _ in 0..5 {
        time.advance(SAFETY_LOOK);
    }
    time.clock.wait_for_sleepers(1);
    queue.stats().turns
}

#[testkit::test]
fn an_idle_run_makes_as_few_turns_as_idle_threads() {
    let time = Time::new();
    let worker = Worker::builder(time.queue(time.sim())).concurrency(3);
    let worker = worker.start(|_| Ok::<_, Failed>(())).unwrap();
    let of_threads = idle_turns(&time, worker.queue());
    drop(worker);

    let time = Time::new();
    let queue = time.queue(time.sim());
    let builder = Worker::builder(queue.clone()).concurrency(3);
    let thread = on_thread(builder.run_async(|_| ready(Ok::<_, Failed>(()))));
    assert_eq!(idle_turns(&time, &queue), of_threads);
    queue.close();
    assert!(is_finished(&thread.join().unwrap()));
}

#[test]
fn a_forked_child_gets_an_error() {
    let ended = testkit::in_child("handlers::a_forked_child_gets_an_error", || {
        let time = Time::new();
        let queue = time.queue(time.sim());
        let mut run = Worker::builder(queue.clone()).run_async(|job: Job<String>| async move {
            job.lost().await;
            Ok::<_, Failed>(())
        });
        let counter = CountingWaker::new();
        let waker = counter.waker();
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut run).poll(&mut context).is_pending());
        queue.push(job("job"), When::NOW).unwrap();
        counter.wait_for_wakes(1);
        assert!(Pin::new(&mut run).poll(&mut context).is_pending());
        let mut run = Some(run);
        let forked = testkit::in_fork(|| {
            let mut run = run.take().unwrap();
            let ended = testkit::ready(&mut run);
            assert!(matches!(ended, Err(TakeError::Forked)));
            drop(run);
        });
        assert_eq!(forked, Ok(()));
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[testkit::test]
fn a_job_whose_handler_was_not_polled_is_released_by_a_shutdown() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let pool = AsyncPool::builder().workers(1).build().unwrap();
    push_all(&queue, 2);
    let gate = Gate::new();
    let worker = {
        let gate = gate.clone();
        let builder = Worker::builder(queue.clone()).concurrency(2);
        builder.start_async(&pool, move |_| {
            gate.wait(); // Occupies the pool's only thread, so the other job waits.
            ready(Ok::<_, Failed>(()))
        })
    };
    gate.wait_for_arrivals(1);
    assert_eq!(held(&queue), 2);
    queue.close();
    gate.open();
    assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);
    assert_eq!(gate.arrivals(), 1);
    let left = queue.list(None, 10).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].attempts, 0);
}

#[testkit::test]
fn jobs_without_room_in_the_pool_are_handled() {
    const JOBS: usize = 50;
    let time = Time::new();
    let queue = time.queue(time.sim());
    let pool = AsyncPool::builder().workers(2).capacity(2).build();
    let pool = pool.unwrap();
    let worker = Worker::builder(queue.clone())
        .concurrency(10)
        .start_async(&pool, |_| async {
            async_pool::yield_now().await;
            Ok::<_, Failed>(())
        });
    push_all(&queue, JOBS);
    wait_until_done(&queue);
    assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);
    assert!(pool.stats().peak_live <= 2);
}

#[testkit::test]
fn a_shutdown_of_a_pools_worker_waits_no_longer_than_its_timeout() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let pool = AsyncPool::builder().workers(1).build().unwrap();
    let latch = Latch::new();
    let worker = {
        let latch = latch.clone();
        Worker::builder(queue.clone()).start_async(&pool, move |_| {
            let latch = latch.clone();
            async move {
                latch.wait().await;
                Ok::<_, Failed>(())
            }
        })
    };
    let worker = worker.unwrap();
    push_all(&queue, 2);
    latch.wait_for_arrivals(1);
    assert_eq!(worker.shutdown(Duration::ZERO), ShutDown::TimedOut);
    latch.open();
    pool.wait_idle().unwrap();
    assert_eq!(worker.shutdown(Duration::ZERO), ShutDown::TimedOut);
}

#[testkit::test]
fn dropping_a_pools_worker_closes_the_queue_and_its_handlers_end() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let pool = AsyncPool::builder().workers(1).build().unwrap();
    let (latch, dropped) = (Latch::new(), DropCounter::new());
    let worker = {
        let (latch, dropped) = (latch.clone(), dropped.clone());
        let builder = Worker::builder(queue.clone()).grace(SECOND);
        builder.start_async(&pool, move |_| {
            let (latch, token) = (latch.clone(), dropped.token());
            async move {
                let _token = token;
                latch.wait().await;
                Ok::<_, Failed>(())
            }
        })
    };
    push_all(&queue, 1);
    latch.wait_for_arrivals(1);
    drop(worker);
    time.clock.wait_for_sleepers(2); // The pump, and the alarm of the grace.
    time.clock.advance(SECOND);
    pool.wait_idle().unwrap();
    assert_eq!(dropped.alive(), 0);
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    assert_eq!(queue.list(None, 1).unwrap()[0].attempts, 0);
}

#[testkit::test]
fn a_released_pool_ends_its_worker_and_leaves_the_jobs_to_others() {
    for now in [false, true] {
        let time = Time::new();
        let queue = time.queue(time.sim());
        let pool = AsyncPool::builder().workers(1).build().unwrap();
        let latch = Latch::new();
        let worker = {
            let latch = latch.clone();
            let builder = Worker::builder(queue.clone()).concurrency(2);
            builder.start_async(&pool, move |_| {
                let latch = latch.clone();
                async move {
                    latch.wait().await;
                    Ok::<_, Failed>(())
                }
            })
        };
        queue.push(job("runs"), When::NOW).unwrap();
        latch.wait_for_arrivals(1);
        if now {
            pool.release_now();
        } else {
            pool.release();
            queue.push(job("is refused"), When::NOW).unwrap();
            while !queue
                .take_timeout(Duration::ZERO)
                .is_err_and(|it| it.is_shut_down())
            {
                thread::yield_now();
            }
            latch.open();
        }
        pool.wait_released().unwrap();
        assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);
        let left = queue.list(None, 10).unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].attempts, 0);
    }
}

/// Its run is dropped before it takes the acknowledgement.
#[testkit::test]
fn a_job_whose_handler_releases_the_pool_is_done() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let pool = AsyncPool::builder().workers(1).build().unwrap();
    let worker = {
        let releases = pool.clone();
        Worker::builder(queue.clone()).start_async(&pool, move |_| {
            releases.release_now();
            ready(Ok::<_, Failed>(()))
        })
    };
    push_all(&queue, 1);
    pool.wait_released().unwrap();
    assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);
    assert_eq!(queue.list(None, 1).unwrap(), []);
}

#[testkit::test]
fn a_run_may_have_any_concurrency() {
    for concurrency in [1 << 20, (1 << 20) + 1, usize::MAX] {
        let time = Time::new();
        let queue = time.queue(time.sim());
        push_all(&queue, 3);
        let (handled, closes) = (AtomicUsize::new(0), queue.clone());
        let builder = Worker::builder(queue.clone()).concurrency(concurrency);
        let run = builder.run_async(move |_| {
            if handled.fetch_add(1, SeqCst) == 2 {
                closes.close();
            }
            ready(Ok::<_, Failed>(()))
        });
        assert_eq!(block_on(run).unwrap(), ShutDown::Finished);
        assert_eq!(queue.store_stats().unwrap().jobs, 0);
    }
}

#[test]
fn a_full_pool_refuses_a_worker() {
    let time = Time::new();
    let pool = AsyncPool::builder().workers(1).capacity(1).build().unwrap();
    let _other = pool.try_spawn(pending::<()>()).unwrap();
    let builder = Worker::builder(time.queue(time.sim()));
    let refused = builder.start_async(&pool, |_| ready(Ok::<_, Failed>(())));
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("full"), "{text}");
    pool.release_now();
}

const JOBS: usize = 200;

/// Handlers that wait for a timer of the runtime, on `SQLite`.
async fn work_off<Fut>(nap: impl Fn() -> Fut)
where
    Fut: Future,
{
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("jobs")).unwrap();
    let queue: DurableQueue<String, _> = DurableQueue::new("queue", store);
    push_all(&queue, JOBS);
    let (done, all) = (AtomicUsize::new(0), Latch::new());
    let run = Worker::builder(queue.clone())
        .concurrency(50)
        .run_async(|_| {
            let nap = nap();
            async {
                nap.await;
                if done.fetch_add(1, SeqCst) + 1 == JOBS {
                    all.open();
                }
                Ok::<_, Failed>(())
            }
        });
    assert!(is_finished(&run.until(all.wait()).await));
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

const NAP: Duration = Duration::from_millis(1);

#[testkit::test]
fn a_run_works_under_tokio() {
    for is_current in [false, true] {
        let mut builder = if is_current {
            tokio::runtime::Builder::new_current_thread()
        } else {
            tokio::runtime::Builder::new_multi_thread()
        };
        let runtime = builder.enable_time().build().unwrap();
        runtime.block_on(work_off(|| tokio::time::sleep(NAP)));
    }
}

#[testkit::test]
fn a_run_works_under_async_io() {
    async_io::block_on(work_off(|| async_io::Timer::after(NAP)));
}

#[testkit::test]
fn a_run_works_under_a_bare_executor_and_its_handlers_need_not_be_send() {
    let local = std::rc::Rc::new(());
    block_on(work_off(|| {
        let local = std::rc::Rc::clone(&local);
        async move { drop(local) }
    }));
    assert_eq!(std::rc::Rc::strong_count(&local), 1);
}

#[testkit::test]
fn a_run_is_a_task_of_tokio_that_select_drops() {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let time = Time::new();
    let queue = time.queue(time.sim());
    let begun = Latch::new();
    let run = {
        let begun = begun.clone();
        Worker::builder(queue.clone()).run_async(move |_| {
            let begun = begun.clone();
            async move {
                begun.wait().await;
                pending::<Result<(), Failed>>().await
            }
        })
    };
    push_all(&queue, 1);
    let stop = Latch::new();
    let task = {
        let stop = stop.clone();
        runtime.spawn(async move {
            tokio::select! {
                ended = run => panic!("{ended:?}"),
                () = stop.wait() => {}
            }
        })
    };
    begun.wait_for_arrivals(1);
    stop.open();
    runtime.block_on(task).unwrap();
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    let other = time.queue(queue.store().clone());
    assert_eq!(other.take_many(NonZeroUsize::MIN).unwrap()[0].attempt(), 1);
}

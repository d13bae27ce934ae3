//! Number of threads of many queues in one store.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use durable_queue::{DurableQueue, ShutDown, Store, TakeFuture};

/// Goal of the project for one process and store.
const QUEUES: usize = 200;
const MOST_THREADS: usize = 8;
const LONG: Duration = Duration::from_secs(3_600);

type Queue<S> = DurableQueue<String, S>;

/// Requests a job without waiting for it.
fn request<S: Store>(queue: &Queue<S>) -> Pin<Box<TakeFuture<String, S>>> {
    let mut take = Box::pin(queue.take_async());
    let mut context = Context::from_waker(Waker::noop());
    assert!(take.as_mut().poll(&mut context).is_pending());
    take
}

/// Queues that wait for jobs, push and settle them, all by async calls, and wait for the next. `before` is the number
/// of the process's threads before the store was opened. Runs alone in its process.
pub fn two_hundred_queues_have_few_threads<S: Store + Clone>(before: usize, store: &S) {
    let new = |number| Queue::new(format!("queue {number}"), store.clone());
    let queues: Vec<_> = (0..QUEUES).map(new).collect();
    let requests: Vec<_> = queues.iter().map(request).collect();
    for (number, queue) in queues.iter().enumerate() {
        testkit::block_on(queue.push_async(number.to_string(), Duration::ZERO)).unwrap();
    }
    for (number, request) in requests.into_iter().enumerate() {
        let taken = testkit::block_on(request).unwrap();
        assert_eq!(*taken, number.to_string());
        testkit::block_on(taken.ack_async()).unwrap();
    }
    let waiting: Vec<_> = queues.iter().map(request).collect();
    let names = testkit::thread_names();
    assert!(names.len() <= before + MOST_THREADS, "{before}: {names:?}");
    drop(waiting);
    for queue in &queues {
        assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    }
}

//! Forks: the child cannot use its parent's queues and stores, which keep working in the parent.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use durable_queue::{
    DurableQueue, ErrorKind, Merge, SettleError, ShutDown, TakeError, When, Worker,
};
use durable_queue_sqlite::SqliteStore;

use crate::support::{Folder, LONG, job};

type Queue = DurableQueue<String, SqliteStore>;

fn queue(folder: &Folder, file: &str) -> Queue {
    Queue::new("queue", SqliteStore::open(folder.file(file)).unwrap())
}

fn is_forked(error: &durable_queue::StoreError) -> bool {
    error.kind() == ErrorKind::Forked
}

/// Makes all calls on the parent's objects.
fn use_it(queue: &Queue, taken: [durable_queue::Claimed<String>; 4]) {
    let is_refused = |error: TakeError| matches!(error, TakeError::Forked);
    assert!(is_refused(queue.take().unwrap_err()));
    assert!(is_refused(queue.take_timeout(LONG).unwrap_err()));
    let taking = testkit::block_on(queue.take_async());
    assert!(is_refused(taking.unwrap_err()));

    let [acked, retried, extended, dropped] = taken;
    testkit::block_on(acked.cancelled());
    assert!(acked.wait_cancelled_timeout(LONG));
    assert!(matches!(acked.ack(), Err(SettleError::Forked)));
    assert!(matches!(retried.retry("no"), Err(SettleError::Forked)));
    assert!(matches!(extended.extend(LONG), Err(SettleError::Forked)));
    extended.ack_later();
    drop(dropped);

    let refused = queue.push(job("job"), When::NOW).unwrap_err();
    assert!(is_forked(&refused.error) && refused.value == "job");
    let mut own = rusqlite::Connection::open_in_memory().unwrap();
    let mut own = own.transaction().unwrap();
    let refused = queue.push_in(&mut own, job("job"), When::NOW);
    assert!(is_forked(&refused.unwrap_err().error));
    assert!(is_forked(&queue.list(None, 1).unwrap_err()));
    assert!(is_forked(&queue.pause(true).unwrap_err()));
    assert!(is_forked(&queue.store_stats().unwrap_err()));
    assert!(is_forked(&queue.last_error().unwrap()));
    let pushing = testkit::block_on(queue.push_async(job("job"), When::NOW)).unwrap_err();
    assert!(is_forked(&pushing.error) && pushing.value == "job");
    let keyed = queue.push_keyed_async("key", job("job"), When::NOW, Merge::Keep);
    assert!(is_forked(&testkit::block_on(keyed).unwrap_err().error));
    assert!(is_forked(
        &testkit::block_on(queue.list_async(None, 1)).unwrap_err()
    ));
    let ended = testkit::block_on(queue.shutdown_async(LONG));
    assert_eq!(ended, ShutDown::Forked);
    queue.announce();
    queue.close();
    assert_eq!(queue.shutdown(LONG), ShutDown::Forked);
    let worker = Worker::builder(queue.clone());
    let worker = worker.start(|_| Ok::<_, String>(())).unwrap();
    assert_eq!(worker.shutdown(LONG), ShutDown::Forked);
}

#[testkit::test]
fn a_forked_child_is_rejected_and_the_parents_queue_keeps_working() {
    let ended = testkit::in_child(
        "process::a_forked_child_is_rejected_and_the_parents_queue_keeps_working",
        || {
            let folder = Folder::new();
            let parents = queue(&folder, "jobs");
            let pushed = ["a", "b", "c", "d"].map(|name| (job(name), When::NOW));
            parents.push_batch(pushed.into()).unwrap();
            let taken = [(); 4].map(|()| parents.take().unwrap());
            let mut waiting = parents.take_async();
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut waiting).poll(&mut context).is_pending());

            // Each process has a copy, and the child drops its own.
            let mut all = Some((parents, taken, waiting));
            let told = testkit::in_fork(|| {
                let (parents, taken, mut waiting) = all.take().unwrap();
                let mut context = Context::from_waker(Waker::noop());
                let polled = Pin::new(&mut waiting).poll(&mut context);
                assert!(matches!(
                    polled,
                    std::task::Poll::Ready(Err(TakeError::Forked))
                ));
                use_it(&parents, taken);
                drop(waiting);
                // A queue that the child opens works.
                let own = queue(&folder, "others");
                own.push(job("own"), When::NOW).unwrap();
                own.take().unwrap().ack().unwrap();
                testkit::block_on(own.push_async(job("later"), Duration::from_millis(5))).unwrap();
                let taken = testkit::block_on(own.take_async()).unwrap();
                testkit::block_on(taken.ack_async()).unwrap();
                let ended = testkit::block_on(own.shutdown_async(LONG));
                assert_eq!(ended, ShutDown::Finished);
            });
            assert_eq!(told, Ok(()));

            let (parents, taken, waiting) = all.take().unwrap();
            for taken in taken {
                taken.ack().unwrap();
            }
            // It still learns about commits of other processes.
            queue(&folder, "jobs")
                .push(job("e"), Duration::ZERO)
                .unwrap();
            let last = testkit::block_on(waiting).unwrap();
            assert_eq!(*last, "e");
            last.ack().unwrap();
            assert_eq!(parents.shutdown(LONG), ShutDown::Finished);
            assert_eq!(parents.store_stats().unwrap().jobs, 0);
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn the_threads_of_a_queue_and_its_store_do_not_inherit_from_the_first_caller() {
    let ended = testkit::in_child(
        "process::the_threads_of_a_queue_and_its_store_do_not_inherit_from_the_first_caller",
        || {
            let folder = Folder::new();
            let queue = testkit::on_special_thread(|| {
                let queue = queue(&folder, "jobs");
                testkit::block_on(queue.push_async(job("job"), When::NOW)).unwrap();
                queue.take().unwrap().ack().unwrap();
                queue
            });
            for name in ["durable-queue", "durable-calls", "durable-writes"] {
                testkit::wait_for_service_threads(name);
            }
            assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn two_hundred_queues_cost_at_most_eight_threads() {
    let ended = testkit::in_child(
        "process::two_hundred_queues_cost_at_most_eight_threads",
        || {
            let (folder, before) = (Folder::new(), testkit::thread_names().len());
            let store = SqliteStore::open(folder.file("jobs")).unwrap();
            durable_queue_tests::threads::two_hundred_queues_have_few_threads(before, &store);
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

//! What users expect of groups, of keys while a job runs and afterwards, and of a kind that is stopped. Shared by all stores;
//! two processes use each queue.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use durable_queue::{
    Claimed, DurableQueue, JobPolicy, Kind, Limit, Merge, Push, Put, ShutDown, Store, When, Worker,
};

const LONG: Duration = Duration::from_secs(3_600);

type Queue<S> = DurableQueue<String, S>;

/// Runs all tests. Each call of `open` returns the store of another process.
pub fn groups_do_what_users_expect<S: Store>(open: impl Fn() -> S) {
    testkit::watchdog(testkit::LIMIT * 2, || {
        let queues = |name: &str| [(); 2].map(|()| Queue::new(name, open()));
        payments_of_an_account_run_in_order(&queues("payments"));
        two_jobs_of_a_tenant_run_at_a_time(&queues("tenants"));
        a_busy_tenant_holds_up_no_other(queues("fair"));
        an_export_is_not_pushed_again_while_it_runs(queues("exports"));
        a_user_gets_one_mail_per_hour(queues("mails"));
        a_stopped_kind_holds_up_no_other(queues("stopped"));
    });
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn wait_until_done<S: Store>(queue: &Queue<S>) {
    while queue.store_stats().unwrap().jobs > 0 {
        thread::yield_now();
    }
}

/// Three pushes are three runs, never two at a time, and a failed one is not overtaken.
fn payments_of_an_account_run_in_order<S: Store>(queues: &[Queue<S>; 2]) {
    queues[0].limit(&Limit::ordered()).unwrap();
    let soon = Duration::from_millis(1);
    let account = queues[0]
        .group("account 7")
        .with_policy(JobPolicy::new().back_off(soon, soon));
    for payment in ["a", "b", "c"] {
        account.push(text(payment), When::NOW).unwrap();
    }
    let runs = Arc::new(Mutex::new(Vec::new()));
    let running = Arc::new(AtomicUsize::new(0));
    let workers = queues.clone().map(|queue| {
        let (runs, running) = (Arc::clone(&runs), Arc::clone(&running));
        let work = move |job: &Claimed<String>| {
            assert_eq!(running.fetch_add(1, SeqCst), 0, "two of one account");
            runs.lock().unwrap().push(job.to_string());
            running.fetch_sub(1, SeqCst);
            if job.attempt() == 1 && **job == "b" {
                return Err("not now");
            }
            Ok(())
        };
        Worker::builder(queue).concurrency(3).start(work).unwrap()
    });
    wait_until_done(&queues[0]);
    assert_eq!(*runs.lock().unwrap(), ["a", "b", "b", "c"]);
    for worker in workers {
        assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    }
}

/// Each handler waits for another one, so there are two, and never three.
fn two_jobs_of_a_tenant_run_at_a_time<S: Store>(queues: &[Queue<S>; 2]) {
    queues[0].limit(&Limit::per_group(2)).unwrap();
    let jobs = vec![Push::new(text("job"), When::NOW).group("tenant"); 10];
    queues[0].push_many(jobs).unwrap();
    let both = Arc::new(Barrier::new(2));
    let [running, runs] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let workers = queues.clone().map(|queue| {
        let (both, running, runs) = (Arc::clone(&both), Arc::clone(&running), Arc::clone(&runs));
        let work = move |_: &Claimed<String>| {
            assert!(running.fetch_add(1, SeqCst) < 2, "three of one tenant");
            both.wait();
            running.fetch_sub(1, SeqCst);
            runs.fetch_add(1, SeqCst);
            Ok::<_, String>(())
        };
        Worker::builder(queue).concurrency(4).start(work).unwrap()
    });
    wait_until_done(&queues[0]);
    assert_eq!(runs.load(SeqCst), 10);
    for worker in workers {
        assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    }
}

/// The second tenant's job is among the first few, and one process gets as many jobs as it asks for.
fn a_busy_tenant_holds_up_no_other<S: Store>([queue, other]: [Queue<S>; 2]) {
    queue.limit(&Limit::fair()).unwrap();
    let many = vec![Push::new(text("busy"), When::NOW).group("busy"); 1_000];
    queue.push_many(many).unwrap();
    let single = queue
        .group("single")
        .push(text("single"), When::NOW)
        .unwrap();
    let firsts: Vec<_> = (0..3).map(|_| other.take().unwrap()).collect();
    assert!(firsts.iter().any(|job| job.id() == single));
    let mut left = 1_001 - firsts.len();
    for job in firsts {
        job.ack().unwrap();
    }
    while left > 0 {
        let jobs = queue.take_many(100.try_into().unwrap()).unwrap();
        left -= jobs.len();
        for job in jobs {
            job.ack_later();
        }
    }
    wait_until_done(&queue);
}

fn an_export_is_not_pushed_again_while_it_runs<S: Store>([queue, other]: [Queue<S>; 2]) {
    let push = || other.push_keyed("export", text("all"), When::NOW, Merge::KeepUntilDone);
    let id = push().unwrap().id();
    let running = queue.take().unwrap();
    assert_eq!(push().unwrap(), Put::Kept(id));
    running.ack().unwrap();
    assert!(matches!(push().unwrap(), Put::New(_)));
}

fn a_user_gets_one_mail_per_hour<S: Store>([queue, other]: [Queue<S>; 2]) {
    let hourly = other.with_policy(JobPolicy::new().keep_done(LONG));
    let push = |user| hourly.push_keyed(user, text("news"), When::NOW, Merge::KeepDone);
    let id = push("ann").unwrap().id();
    queue.take().unwrap().ack().unwrap();
    assert_eq!(push("ann").unwrap(), Put::Kept(id));
    assert!(matches!(push("bob").unwrap(), Put::New(_)));
}

/// At no cost, and until the limit is removed.
fn a_stopped_kind_holds_up_no_other<S: Store>([queue, other]: [Queue<S>; 2]) {
    struct Down(String);
    impl Kind for Down {
        const NAME: &'static str = "down";
    }
    impl durable_queue::Payload for Down {
        fn encode(&self) -> Result<std::borrow::Cow<'_, [u8]>, durable_queue::EncodeError> {
            self.0.encode()
        }

        fn decode(bytes: Vec<u8>) -> Result<Self, durable_queue::DecodeError> {
            String::decode(bytes).map(Self)
        }
    }
    const MANY: usize = 2_500;
    let stop = Limit::per_kind(Down::NAME, 0);
    queue.limit(&stop).unwrap();
    assert_eq!(queue.limits().unwrap(), std::slice::from_ref(&stop));
    let jobs = (0..MANY).map(|_| (Down(text("down")), When::NOW));
    queue.kind::<Down>().push_batch(jobs.collect()).unwrap();
    let id = queue.push(text("up"), When::NOW).unwrap();
    let job = other.take().unwrap();
    assert_eq!(job.id(), id);
    job.ack().unwrap();
    let figures = queue.store_stats().unwrap();
    assert_eq!((figures.due, figures.jobs as usize), (0, MANY));
    queue.remove_limit(&stop).unwrap();
    other.kind::<Down>().take().unwrap().ack().unwrap();
}

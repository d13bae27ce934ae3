//! Jobs pushed in transactions of the application are announced after the commit.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ::postgres::fallible_iterator::FallibleIterator as _;
use ::postgres::{Client, Transaction};
use durable_queue::store::Watch;
use durable_queue::{NewJob, Notifier, PushIn as _, Store as _, StoreTime};
use durable_queue_postgres::PostgresStore;

use super::Database;
use super::failing::{server, through};
use crate::alike::JOB;
use crate::proxy::Proxy;

/// Pushes a due job, identified by its time.
fn push(store: &PostgresStore, transaction: &mut Transaction<'_>, due: i64) {
    let when = StoreTime::from_micros(due).into();
    let job = NewJob { when, ..JOB };
    store.enqueue_in(transaction, "queue", &[job]).unwrap();
}

fn push_and_commit(store: &PostgresStore, client: &mut Client, due: i64) {
    let mut transaction = client.transaction().unwrap();
    push(store, &mut transaction, due);
    transaction.commit().unwrap();
}

/// Receives another process's notifications. Only times earlier than all before are announced.
struct Watcher {
    _watch: Box<dyn Watch>,
    _store: PostgresStore,
    times: Receiver<StoreTime>,
}

impl Watcher {
    fn new(database: &Database) -> Self {
        let (sender, times) = channel();
        let notifier = Notifier::new(move |due| _ = sender.send(due));
        let store = database.another_store();
        Self {
            _watch: store.watch("queue", notifier).unwrap(),
            _store: store,
            times,
        }
    }

    #[track_caller]
    fn expect(&self, due: i64) {
        let announced = self.times.recv().unwrap();
        assert_eq!(announced, StoreTime::from_micros(due));
    }
}

fn with_watcher(test: impl FnOnce(&Database, &Watcher)) {
    let Some(database) = Database::new() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || test(&database, &Watcher::new(&database)));
}

#[test]
fn jobs_are_announced_after_their_commits_while_another_transaction_stays_open() {
    with_watcher(|database, watcher| {
        let (mut long, mut short) = (database.session(), database.session());
        push_and_commit(&database.store, &mut short, 9);
        watcher.expect(9); // This push has notified in its transaction.
        let mut open = long.transaction().unwrap();
        push(&database.store, &mut open, 1);
        for due in [8, 7, 6] {
            push_and_commit(&database.store, &mut short, due);
            watcher.expect(due);
        }
        let mut undone = short.transaction().unwrap();
        push(&database.store, &mut undone, 0);
        undone.rollback().unwrap();
        open.commit().unwrap();
        watcher.expect(1);
    });
}

#[test]
fn a_delay_of_less_than_two_minutes_is_announced_and_a_longer_one_is_not() {
    with_watcher(|database, watcher| {
        let mut client = database.session();
        // The first push would notify in its transaction.
        for seconds in [36_000, 121, 119] {
            let when = Duration::from_secs(seconds).into();
            let job = NewJob { when, ..JOB };
            let mut transaction = client.transaction().unwrap();
            let pushed = database.store.enqueue_in(&mut transaction, "queue", &[job]);
            pushed.unwrap();
            transaction.commit().unwrap();
        }
        watcher.expect(database.get("SELECT min(due) FROM SCHEMA.job"));
    });
}

#[test]
fn a_job_is_announced_even_if_the_server_was_unreachable_when_its_transaction_committed() {
    with_watcher(|database, watcher| {
        let proxy = Proxy::new(server(database));
        let address = through(database, proxy.address);
        let store = database.options().open_config(address).unwrap();
        let mut client = database.session();
        push_and_commit(&store, &mut client, 2);
        watcher.expect(2);
        let mut transaction = client.transaction().unwrap();
        push(&store, &mut transaction, 1);
        let before = proxy.lost();
        proxy.lose_each(1);
        while proxy.lost() < before + 2 {
            std::thread::yield_now();
        }
        // Notifications arrive in the order of commits: there was none before this.
        database.sql("SELECT SCHEMA.notify(q.id, 9, '') FROM SCHEMA.queue q");
        watcher.expect(9);
        transaction.commit().unwrap();
        proxy.lose_each(0);
        watcher.expect(1);
    });
}

#[test]
fn a_store_that_is_dropped_after_the_commit_announces_its_jobs() {
    with_watcher(|database, watcher| {
        // In most rounds the store is dropped before the thread's next look.
        for due in (0..20).rev().map(|round| round * 10) {
            let store = database.another_store();
            let mut client = database.session();
            push_and_commit(&store, &mut client, due + 1);
            push_and_commit(&store, &mut client, due);
            drop(store);
            watcher.expect(due + 1);
            watcher.expect(due);
        }
    });
}

/// The commit of a transaction that notifies waits for the previous one's, including its disk sync.
#[test]
fn one_push_of_a_second_notifies_in_its_transaction() {
    const PUSHES: usize = 200;
    let Some(database) = Database::new() else {
        return;
    };
    let mut listener = database.session();
    let channel = format!("durable_queue_{}", database.schema);
    let listen = format!("LISTEN {channel}");
    listener.batch_execute(&listen).unwrap();
    let mut client = database.session();
    let begin = Instant::now();
    for _ in 0..PUSHES {
        push_and_commit(&database.store, &mut client, 1);
    }
    let seconds = begin.elapsed().as_secs();
    client
        .batch_execute(&format!("NOTIFY {channel}, 'last'"))
        .unwrap();
    let mut notifications = listener.notifications();
    let sent = notifications
        .blocking_iter()
        .take_while(|it| Ok(it.payload() != "last"));
    // Announcements after a commit contain the store's origin.
    let in_transactions = sent.filter(|it| Ok(it.payload().ends_with(' '))).count();
    let in_transactions = in_transactions.unwrap() as u64;
    assert!(
        (1..=seconds + 1).contains(&in_transactions),
        "{in_transactions} in {seconds} s"
    );
}

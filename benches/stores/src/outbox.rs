//! An application that commits a row and a job together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use durable_queue::DurableQueue;
use durable_queue_postgres::PostgresStore;
use postgres::{Client, NoTls, Transaction};
use stores::{Fault, Handler, Job, Outcome, Queue, Workers, now};

use crate::ours::{NAME, Ours, Way};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS orders
    (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)";

/// How the job gets into the transaction.
#[derive(Clone, Copy)]
pub enum Entry {
    /// By [`DurableQueue::push_in`].
    Push,
    /// By the SQL function for any client, which notifies in the transaction.
    Sql,
    /// Without a job.
    None,
}

pub struct Outbox {
    address: String,
    entry: Entry,
    workers: Ours<PostgresStore>,
    queue: DurableQueue<String, PostgresStore>,
    /// Makes each text unique.
    next: AtomicU64,
}

impl Outbox {
    pub fn open(address: &str, entry: Entry) -> Outcome<Self> {
        let own = address.to_owned();
        let queue = DurableQueue::new(NAME, PostgresStore::open(address)?);
        Client::connect(address, NoTls)?.batch_execute(TABLE)?;
        Ok(Self {
            address: address.to_owned(),
            entry,
            workers: Ours::new(Way::Confirmed, move || Ok(PostgresStore::open(&own)?))?,
            queue,
            next: AtomicU64::new(0),
        })
    }

    fn enter(&self, transaction: &mut Transaction<'_>, text: &str) -> Outcome {
        match self.entry {
            Entry::Push => {
                let pushed = self
                    .queue
                    .push_in(transaction, text.to_owned(), Duration::ZERO);
                pushed.map_err(|failed| failed.error)?;
            }
            Entry::Sql => {
                let push = "SELECT durable.push($1, $2)";
                transaction.execute(push, &[&NAME, &text.as_bytes()])?;
            }
            Entry::None => {}
        }
        Ok(())
    }

    fn client(&self, until: Instant) -> Outcome<Vec<(Job, u64)>> {
        let mut client = Client::connect(&self.address, NoTls)?;
        let insert = client.prepare("INSERT INTO orders (item) VALUES ($1)")?;
        let mut commits = Vec::new();
        loop {
            let mut job = Job::after(Duration::ZERO);
            // `Relaxed`: it only has to be unique.
            job.text += &self.next.fetch_add(1, Relaxed).to_string();
            let mut transaction = client.transaction()?;
            transaction.execute(&insert, &[&job.text])?;
            self.enter(&mut transaction, &job.text)?;
            transaction.commit()?;
            commits.push((job, now()));
            if Instant::now() >= until {
                return Ok(commits);
            }
        }
    }
}

impl Queue for Outbox {
    fn push(&self, _: &[Job]) -> Outcome {
        Err("this contender only supports transactions".into())
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        self.workers.work(workers, handler)
    }

    fn transact(&self, clients: u32, until: Instant) -> Outcome<Vec<(Job, u64)>> {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..clients)
                .map(|_| scope.spawn(|| self.client(until)))
                .collect();
            let mut commits = Vec::new();
            for thread in threads {
                let ended = thread
                    .join()
                    .map_err(|_| Fault::from("a client has panicked"))?;
                commits.append(&mut ended?);
            }
            Ok(commits)
        })
    }
}

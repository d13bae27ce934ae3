//! Yardsticks: the limits of the server, and of this machine without a server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use delay_queue::DelayQueue;
use postgres::{Client, NoTls, Statement};
use redis::Connection;
use stores::{Handler, Job, Outcome, Queue, Workers};

/// A row in a table with only a primary key.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS plain
    (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, due bigint NOT NULL, payload text NOT NULL)";
const ROWS: &str =
    "INSERT INTO plain (due, payload) SELECT * FROM unnest($1::bigint[], $2::text[])";

/// `INSERT` with a session per client.
pub struct Insert(Vec<Mutex<(Client, Statement)>>);

impl Insert {
    pub fn open(address: &str, sessions: usize) -> Outcome<Self> {
        let session = |_| -> Outcome<_> {
            let mut client = Client::connect(address, NoTls)?;
            client.batch_execute(TABLE)?;
            let statement = client.prepare(ROWS)?;
            Ok(Mutex::new((client, statement)))
        };
        Ok(Self((0..sessions).map(session).collect::<Outcome<_>>()?))
    }
}

impl Queue for Insert {
    fn push(&self, jobs: &[Job]) -> Outcome {
        let mut session = free(&self.0);
        let (client, statement) = &mut *session;
        let dues: Vec<i64> = jobs.iter().map(|job| job.due.cast_signed()).collect();
        let texts: Vec<&str> = jobs.iter().map(|job| &*job.text).collect();
        client.execute(statement, &[&dues, &texts])?;
        Ok(())
    }

    fn work(&self, _: u32, _: Handler) -> Outcome<Box<dyn Workers>> {
        Err("a table has no workers".into())
    }
}

/// Fields of one hash, with a session per client.
pub struct Set {
    sessions: Vec<Mutex<Connection>>,
    next: AtomicU64,
}

impl Set {
    pub fn open(address: &str, sessions: usize) -> Outcome<Self> {
        let client = redis::Client::open(address)?;
        let session = |_| Ok(Mutex::new(client.get_connection()?));
        Ok(Self {
            sessions: (0..sessions).map(session).collect::<Outcome<_>>()?,
            next: AtomicU64::new(0),
        })
    }
}

impl Queue for Set {
    fn push(&self, jobs: &[Job]) -> Outcome {
        let mut set = redis::cmd("HSET");
        set.arg("plain");
        for job in jobs {
            // `Relaxed`: it only has to be unique.
            set.arg(self.next.fetch_add(1, Relaxed)).arg(&job.text);
        }
        Ok(set.exec(&mut *free(&self.sessions))?)
    }

    fn work(&self, _: u32, _: Handler) -> Outcome<Box<dyn Workers>> {
        Err("a hash has no workers".into())
    }
}

/// An unused session, or else the first.
fn free<T>(sessions: &[Mutex<T>]) -> MutexGuard<'_, T> {
    let free = sessions.iter().find_map(|session| session.try_lock().ok());
    free.unwrap_or_else(|| sessions[0].lock().unwrap_or_else(PoisonError::into_inner))
}

/// The delay queue in memory.
pub struct Memory(Arc<DelayQueue<String>>);

impl Memory {
    pub fn new() -> Self {
        Self(Arc::new(DelayQueue::new()))
    }
}

impl Queue for Memory {
    fn push(&self, jobs: &[Job]) -> Outcome {
        for job in jobs {
            let left = job.when().duration_since(std::time::SystemTime::now());
            let due = Instant::now() + left.unwrap_or(Duration::ZERO);
            self.0
                .push_at(job.text.clone(), due)
                .map_err(|_| "the queue is closed")?;
        }
        Ok(())
    }

    fn work(&self, workers: u32, handler: Handler) -> Outcome<Box<dyn Workers>> {
        let threads = (0..workers).map(|_| {
            let (queue, handler) = (Arc::clone(&self.0), handler.clone());
            thread::spawn(move || {
                while let Ok(expired) = queue.take() {
                    handler(&expired.value);
                }
            })
        });
        let threads = threads.collect();
        Ok(Box::new(Takers {
            queue: Arc::clone(&self.0),
            threads,
        }))
    }
}

struct Takers {
    queue: Arc<DelayQueue<String>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers for Takers {}

impl Drop for Takers {
    fn drop(&mut self) {
        drop(self.queue.close_now());
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

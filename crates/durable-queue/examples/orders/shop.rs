//! Orders, their time-outs and their e-mails: one file of `SQLite`, and a folder.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{fmt, fs};

use durable_queue::{Claimed, DurableQueue, JobId, SqliteStore, StoreTime, Worker};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

type Queue = DurableQueue<String, SqliteStore>;
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

const HANDLERS: usize = 4;

/// Clones are the same shop.
#[derive(Clone)]
pub(crate) struct Shop(Arc<Inner>);

struct Inner {
    /// The shop's own connection, for its own transactions.
    orders: Mutex<Connection>,
    time_outs: Queue,
    mails: Queue,
    folder: PathBuf,
    time_to_pay: Duration,
}

/// Handlers of both queues. They end when it is dropped.
pub(crate) struct Workers {
    _time_outs: Worker<String, SqliteStore>,
    _mails: Worker<String, SqliteStore>,
}

/// An e-mail that was written.
#[derive(Clone)]
pub(crate) struct Mail {
    order: String,
    state: String,
    /// How late the order expired, if it did.
    pub(crate) late: Option<Duration>,
}

impl fmt::Display for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.order, self.state)?;
        match self.late {
            Some(late) => write!(f, " {}", late.as_micros()),
            None => Ok(()),
        }
    }
}

impl Shop {
    pub(crate) fn open(folder: &Path, time_to_pay: Duration) -> Result<Self, Failure> {
        let file = folder.join("shop");
        let store = SqliteStore::open(&file)?;
        let orders = Connection::open(&file)?;
        orders.busy_timeout(Duration::from_secs(30))?;
        orders.execute_batch(
            "PRAGMA synchronous = FULL;
            CREATE TABLE IF NOT EXISTS orders (
                id INTEGER PRIMARY KEY,
                state TEXT NOT NULL DEFAULT 'open',
                time_out INTEGER
            )",
        )?;
        Ok(Self(Arc::new(Inner {
            orders: Mutex::new(orders),
            time_outs: Queue::new("time-outs", store.clone()),
            mails: Queue::new("e-mails", store),
            folder: folder.to_owned(),
            time_to_pay,
        })))
    }

    fn transaction<R>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut orders = self.0.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let mut transaction = orders.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = work(&mut transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// An order and its time-out: both, or none.
    pub(crate) fn order(&self) -> Result<i64, Failure> {
        let Inner {
            time_outs,
            time_to_pay,
            ..
        } = &*self.0;
        let order = self.transaction(|transaction| {
            transaction.execute("INSERT INTO orders DEFAULT VALUES", [])?;
            let order = transaction.last_insert_rowid();
            let time_out =
                time_outs.push_in_transaction(transaction, order.to_string(), *time_to_pay)?;
            let time_out = i64::try_from(time_out.as_u64())?;
            transaction.execute(
                "UPDATE orders SET time_out = ?2 WHERE id = ?1",
                [order, time_out],
            )?;
            Ok(order)
        })?;
        time_outs.announce();
        Ok(order)
    }

    /// Whether it was in time.
    pub(crate) fn pay(&self, order: i64) -> Result<bool, Failure> {
        let Some(time_out) = self.settle(order, "paid", None)? else {
            return Ok(false);
        };
        // It would find the order paid. So nothing depends on this cancel: it spares the work.
        let time_out = JobId::from_u64(u64::try_from(time_out)?);
        let _cancelled = self.0.time_outs.cancel(time_out)?;
        Ok(true)
    }

    pub(crate) fn state(&self, order: i64) -> Result<Option<String>, Failure> {
        let orders = self.0.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let query = "SELECT state FROM orders WHERE id = ?1";
        Ok(orders
            .query_row(query, [order], |row| row.get(0))
            .optional()?)
    }

    /// An open order changes its state, and the e-mail about it is on its way: both, or none. The
    /// answer is its time-out; none if it was not open.
    fn settle(
        &self,
        order: i64,
        state: &str,
        late: Option<Duration>,
    ) -> Result<Option<i64>, Failure> {
        let Inner { mails, .. } = &*self.0;
        let time_out = self.transaction(|transaction| {
            let update = "UPDATE orders SET state = ?2 WHERE id = ?1 AND state = 'open'
                RETURNING time_out";
            let time_out = transaction
                .query_row(update, (order, state), |row| row.get(0))
                .optional()?;
            if time_out.is_some() {
                let late = late.map(|late| format!(" {}", late.as_micros()));
                let mail = format!("{order} {state}{}", late.unwrap_or_default());
                mails.push_in_transaction(transaction, mail, Duration::ZERO)?;
            }
            Ok(time_out)
        })?;
        mails.announce();
        Ok(time_out)
    }

    /// Starts the handlers; `written` is called for each e-mail that is in its file.
    pub(crate) fn work(
        &self,
        written: impl Fn(&Mail) + Send + Sync + 'static,
    ) -> Result<Workers, Failure> {
        let shop = self.clone();
        let time_outs = Worker::builder(self.0.time_outs.clone())
            .concurrency(HANDLERS)
            .start(move |job| shop.expire(job))?;
        let folder = self.0.folder.clone();
        let mails = Worker::builder(self.0.mails.clone())
            .concurrency(HANDLERS)
            .start(move |job: &Claimed<String>| {
                let mail = Mail::parse(job)?;
                mail.write(&folder)?;
                written(&mail);
                Ok::<_, Failure>(())
            })?;
        Ok(Workers {
            _time_outs: time_outs,
            _mails: mails,
        })
    }

    fn expire(&self, job: &Claimed<String>) -> Result<(), Failure> {
        let now = StoreTime::from(SystemTime::now());
        let late = now.since(job.due());
        // Which never happens; the test of this example looks for it.
        let state = if now < job.due() { "early" } else { "expired" };
        self.settle(job.parse()?, state, Some(late))?;
        Ok(())
    }
}

impl Mail {
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut words = text.split(' ').map(str::to_owned);
        let (Some(order), Some(state)) = (words.next(), words.next()) else {
            return Err("an e-mail without a state".into());
        };
        let late = words.next().map(|micros| micros.parse()).transpose()?;
        Ok(Self {
            order,
            state,
            late: late.map(Duration::from_micros),
        })
    }

    /// Under its own name at once, wholly: a process that is killed leaves no half.
    fn write(&self, folder: &Path) -> Result<(), Failure> {
        let file = folder.join(format!("{}.mail", self.order));
        // Two handlers may be at it, if one has lost its lease.
        let draft = file.with_extension(format!("{:?}.draft", std::thread::current().id()));
        fs::write(&draft, self.to_string())?;
        fs::rename(draft, file)?;
        Ok(())
    }
}

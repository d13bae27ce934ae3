//! The shop's data, and the changes that push jobs.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, SystemTime};

use durable_queue::{DurableQueue, Json, Merge, When};
use durable_queue_sqlite::SqliteStore;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use crate::jobs::{Expire, Mail, Report};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE IF NOT EXISTS orders (
        id INTEGER PRIMARY KEY,
        user INTEGER NOT NULL REFERENCES users (id),
        state TEXT NOT NULL DEFAULT 'open',
        expires INTEGER NOT NULL, -- Milliseconds since 1970.
        late INTEGER              -- How much later it expired, in milliseconds.
    );
    CREATE TABLE IF NOT EXISTS outbox (id TEXT PRIMARY KEY, text TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS reports (at INTEGER PRIMARY KEY, text TEXT NOT NULL);";

#[derive(Clone)]
pub(crate) struct Shop {
    database: SqlitePool,
    /// In the same database.
    pub(crate) jobs: DurableQueue<Vec<u8>, SqliteStore>,
    time_to_pay: Duration,
}

impl Shop {
    pub(crate) async fn open(file: &Path, time_to_pay: Duration) -> Result<Self, Failure> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(30));
        let database = SqlitePool::connect_with(options).await?;
        sqlx::raw_sql(TABLES).execute(&database).await?;
        Ok(Self {
            database,
            jobs: DurableQueue::new("jobs", SqliteStore::open(file)?),
            time_to_pay,
        })
    }

    /// Creates a user, with a welcome mail. Returns the user's number.
    pub(crate) async fn sign_up(&self, name: &str) -> Result<i64, Failure> {
        // Immediate: a transaction that reads first could fail at its first write.
        let mut tx = self.database.begin_with("BEGIN IMMEDIATE").await?;
        let (user,): (i64,) = sqlx::query_as("INSERT INTO users (name) VALUES (?1) RETURNING id")
            .bind(name)
            .fetch_one(&mut *tx)
            .await?;
        let mail = Mail::new(format!("welcome/{user}"), format!("Welcome, {name}!"));
        let mails = self.jobs.kind::<Json<Mail>>();
        mails.push_in(&mut tx, Json(mail), When::NOW).await?;
        tx.commit().await?;
        Ok(user)
    }

    /// Creates an order, with its timeout. Returns the order's number.
    pub(crate) async fn order(&self, user: i64) -> Result<i64, Failure> {
        let expires = now() + i64::try_from(self.time_to_pay.as_millis())?;
        let mut tx = self.database.begin_with("BEGIN IMMEDIATE").await?;
        let (order,): (i64,) =
            sqlx::query_as("INSERT INTO orders (user, expires) VALUES (?1, ?2) RETURNING id")
                .bind(user)
                .bind(expires)
                .fetch_one(&mut *tx)
                .await?;
        let timeouts = self.jobs.kind::<Json<Expire>>();
        let timeout = Json(Expire { order });
        timeouts
            .push_keyed_in(&mut tx, key(order), timeout, self.time_to_pay, Merge::Keep)
            .await?;
        tx.commit().await?;
        Ok(order)
    }

    /// Returns whether the payment was in time.
    pub(crate) async fn pay(&self, order: i64) -> Result<bool, Failure> {
        let was_open = self.end(order, "paid").await?;
        if was_open {
            // Not required: the handler would find the order paid. The cancel saves its work.
            let _cancelled = self.jobs.cancel_async(&*key(order)).await?;
        }
        Ok(was_open)
    }

    /// Ends an order if it is open, with a mail about it.
    pub(crate) async fn end(&self, order: i64, state: &str) -> Result<bool, Failure> {
        let mut tx = self.database.begin_with("BEGIN IMMEDIATE").await?;
        let ended = sqlx::query(
            "UPDATE orders SET state = ?2, late = CASE ?2 WHEN 'expired' THEN ?3 - expires END
            WHERE id = ?1 AND state = 'open'",
        )
        .bind(order)
        .bind(state)
        .bind(now())
        .execute(&mut *tx)
        .await?;
        if ended.rows_affected() == 0 {
            return Ok(false);
        }
        let mail = Mail::new(key(order), format!("Order {order} is {state}."));
        let mails = self.jobs.kind::<Json<Mail>>();
        mails.push_in(&mut tx, Json(mail), When::NOW).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Returns an order's state.
    pub(crate) async fn state(&self, order: i64) -> Result<Option<String>, Failure> {
        let found = sqlx::query_as("SELECT state FROM orders WHERE id = ?1")
            .bind(order)
            .fetch_optional(&self.database)
            .await?;
        Ok(found.map(|(state,)| state))
    }

    /// Has reports made at the times of a cron pattern. The key makes it one job, however often the shop starts.
    pub(crate) async fn report_at(&self, pattern: &str) -> Result<(), Failure> {
        let schedule = pattern.parse()?;
        let reports = self.jobs.kind::<Json<Report>>();
        let pushed = reports.push_repeating_async("report", &schedule, Json(Report {}));
        pushed.await?;
        Ok(())
    }

    /// Sends a mail, once: a real shop would give its provider the id.
    pub(crate) async fn send(&self, mail: &Mail) -> Result<(), Failure> {
        sqlx::query("INSERT OR IGNORE INTO outbox (id, text) VALUES (?1, ?2)")
            .bind(&mail.id)
            .bind(&mail.text)
            .execute(&self.database)
            .await?;
        Ok(())
    }

    /// Makes the report of a time, which is made once.
    pub(crate) async fn report(&self, at: i64) -> Result<(), Failure> {
        sqlx::query("INSERT OR IGNORE INTO reports (at, text) VALUES (?1, ?2)")
            .bind(at)
            .bind(self.figures().await?)
            .execute(&self.database)
            .await?;
        Ok(())
    }

    pub(crate) async fn figures(&self) -> Result<String, Failure> {
        let figures = sqlx::query_as(
            "SELECT count(*) || ' orders, ' || count(*) FILTER (WHERE state = 'paid') || ' paid, '
                || count(*) FILTER (WHERE state = 'expired') || ' expired' FROM orders",
        );
        let (figures,) = figures.fetch_one(&self.database).await?;
        Ok(figures)
    }

    /// Returns the number of sent mails.
    pub(crate) async fn sent(&self) -> Result<usize, Failure> {
        let count = sqlx::query_as("SELECT count(*) FROM outbox");
        let (sent,): (i64,) = count.fetch_one(&self.database).await?;
        Ok(usize::try_from(sent)?)
    }
}

/// The key of an order's jobs.
fn key(order: i64) -> String {
    format!("order/{order}")
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    i64::try_from(millis).unwrap_or(i64::MAX)
}

//! A `SQLite` file with the orders and the jobs.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use durable_queue_sqlite::SqliteStore;
use durable_queue_sqlite::rusqlite::{
    Connection, OptionalExtension, Transaction, TransactionBehavior,
};

use super::{Database, Queues};
use crate::shop::Failure;

pub(crate) struct Sqlite {
    queues: Queues<SqliteStore>,
    /// The shop's own connection, for its own transactions.
    orders: Mutex<Connection>,
}

impl Sqlite {
    pub(crate) fn open(file: &Path) -> Result<Self, Failure> {
        let queues = Queues::new(SqliteStore::open(file)?);
        let orders = Connection::open(file)?;
        orders.busy_timeout(Duration::from_secs(30))?;
        orders.execute_batch(
            "PRAGMA synchronous = FULL;
            CREATE TABLE IF NOT EXISTS orders (
                id INTEGER PRIMARY KEY,
                state TEXT NOT NULL DEFAULT 'open'
            )",
        )?;
        Ok(Self {
            queues,
            orders: Mutex::new(orders),
        })
    }

    fn orders(&self) -> MutexGuard<'_, Connection> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database for Sqlite {
    type Transaction<'t> = Transaction<'t>;
    type Store = SqliteStore;

    fn queues(&self) -> &Queues<SqliteStore> {
        &self.queues
    }

    fn transaction<R>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut orders = self.orders();
        let mut transaction = orders.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = work(&mut transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    fn insert(transaction: &mut Transaction<'_>) -> Result<i64, Failure> {
        transaction.execute("INSERT INTO orders DEFAULT VALUES", [])?;
        Ok(transaction.last_insert_rowid())
    }

    fn change(transaction: &mut Transaction<'_>, order: i64, state: &str) -> Result<bool, Failure> {
        let update = "UPDATE orders SET state = ?2 WHERE id = ?1 AND state = 'open'";
        Ok(transaction.execute(update, (order, state))? == 1)
    }

    fn state(&self, order: i64) -> Result<Option<String>, Failure> {
        let query = "SELECT state FROM orders WHERE id = ?1";
        let orders = self.orders();
        let state = orders.query_row(query, [order], |row| row.get(0));
        Ok(state.optional()?)
    }
}

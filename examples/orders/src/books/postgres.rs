//! A `PostgreSQL` database with the orders and the jobs.

use std::sync::{Mutex, PoisonError};

use durable_queue_postgres::PostgresStore;
use durable_queue_postgres::postgres::{Client, NoTls, Transaction};

use super::{Database, Queues};
use crate::shop::Failure;

pub(crate) struct Postgres {
    queues: Queues<PostgresStore>,
    address: String,
    /// The shop's own session, for its own transactions.
    orders: Mutex<Client>,
}

impl Postgres {
    pub(crate) fn open(address: &str) -> Result<Self, Failure> {
        let queues = Queues::new(PostgresStore::open(address)?);
        let mut orders = Client::connect(address, NoTls)?;
        orders.batch_execute(
            "SET client_min_messages = warning;
            CREATE TABLE IF NOT EXISTS orders (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                state text NOT NULL DEFAULT 'open'
            )",
        )?;
        Ok(Self {
            queues,
            address: address.to_owned(),
            orders: Mutex::new(orders),
        })
    }

    /// Reconnects first if the session was lost, for example by a restart of the server.
    fn with<R>(&self, work: impl FnOnce(&mut Client) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.is_closed() {
            *orders = Client::connect(&self.address, NoTls)?;
        }
        work(&mut orders)
    }
}

impl Database for Postgres {
    type Transaction<'t> = Transaction<'t>;
    type Store = PostgresStore;

    fn queues(&self) -> &Queues<PostgresStore> {
        &self.queues
    }

    fn transaction<R>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.with(|orders| {
            let mut transaction = orders.transaction()?;
            let result = work(&mut transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    fn insert(transaction: &mut Transaction<'_>) -> Result<i64, Failure> {
        let insert = "INSERT INTO orders DEFAULT VALUES RETURNING id";
        Ok(transaction.query_one(insert, &[])?.get(0))
    }

    fn change(transaction: &mut Transaction<'_>, order: i64, state: &str) -> Result<bool, Failure> {
        let update = "UPDATE orders SET state = $2 WHERE id = $1 AND state = 'open'";
        Ok(transaction.execute(update, &[&order, &state])? == 1)
    }

    fn state(&self, order: i64) -> Result<Option<String>, Failure> {
        let query = "SELECT state FROM orders WHERE id = $1";
        let row = self.with(|orders| Ok(orders.query_opt(query, &[&order])?))?;
        Ok(row.map(|row| row.get(0)))
    }
}

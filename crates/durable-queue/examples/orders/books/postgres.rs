//! A database of `PostgreSQL`, in which the jobs are too.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use durable_queue::{Merge, PostgresStore};
use postgres::{Client, NoTls, Transaction};

use super::{Books, Change, Queues};
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

    /// On a session that is there: a server may have been started anew.
    fn with<R>(&self, work: impl FnOnce(&mut Client) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.is_closed() {
            *orders = Client::connect(&self.address, NoTls)?;
        }
        work(&mut orders)
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
}

impl Books for Postgres {
    type Store = PostgresStore;

    fn queues(&self) -> &Queues<PostgresStore> {
        &self.queues
    }

    fn order(&self, time_to_pay: Duration) -> Result<i64, Failure> {
        let time_outs = &self.queues.time_outs;
        let order = self.transaction(|transaction| {
            let insert = "INSERT INTO orders DEFAULT VALUES RETURNING id";
            let order: i64 = transaction.query_one(insert, &[])?.get(0);
            let text = order.to_string();
            time_outs.push_keyed_in_transaction(
                transaction,
                text.clone(),
                text,
                time_to_pay,
                Merge::Keep,
            )?;
            Ok(order)
        })?;
        time_outs.announce();
        Ok(order)
    }

    fn settle(&self, order: i64, change: &Change) -> Result<bool, Failure> {
        let mails = &self.queues.mails;
        let was_open = self.transaction(|transaction| {
            let update = "UPDATE orders SET state = $2 WHERE id = $1 AND state = 'open'";
            let was_open = transaction.execute(update, &[&order, &change.state()])? == 1;
            if was_open {
                let mail = format!("{order} {}", change.text());
                mails.push_in_transaction(transaction, mail, Duration::ZERO)?;
            }
            Ok(was_open)
        })?;
        mails.announce();
        Ok(was_open)
    }

    fn state(&self, order: i64) -> Result<Option<String>, Failure> {
        let query = "SELECT state FROM orders WHERE id = $1";
        let row = self.with(|orders| Ok(orders.query_opt(query, &[&order])?))?;
        Ok(row.map(|row| row.get(0)))
    }
}

//! The orders and their jobs, on any store.
//!
//! In a database with transactions, one commit changes the order and enters the job:
//! `transactional.rs`. On a server without transactions, the order of two steps gives the same
//! guarantee: `redis.rs`.

mod postgres;
mod redis;
mod sqlite;
mod transactional;

use std::time::Duration;

use durable_queue::{DurableQueue, Store};

pub(crate) use postgres::Postgres;
pub(crate) use redis::Redis;
pub(crate) use sqlite::Sqlite;
pub(crate) use transactional::Database;

use crate::shop::Failure;

/// The queues of the shop. The key of each job is the order's number.
pub(crate) struct Queues<S: Store> {
    pub(crate) timeouts: DurableQueue<String, S>,
    pub(crate) mails: DurableQueue<String, S>,
}

impl<S: Store + Clone> Queues<S> {
    pub(crate) fn new(store: S) -> Self {
        Self {
            timeouts: DurableQueue::new("timeouts", store.clone()),
            mails: DurableQueue::new("e-mails", store),
        }
    }
}

pub(crate) trait Books: Send + Sync + 'static {
    type Store: Store + Clone;

    fn queues(&self) -> &Queues<Self::Store>;

    /// Creates an order and its timeout atomically.
    fn order(&self, time_to_pay: Duration) -> Result<i64, Failure>;

    /// Changes the state of an open order and enqueues the e-mail about it, atomically. Returns
    /// false if the order was not open.
    fn settle(&self, order: i64, change: &Change) -> Result<bool, Failure>;

    fn state(&self, order: i64) -> Result<Option<String>, Failure>;
}

pub(crate) enum Change {
    Paid,
    /// The handler of a timeout ran this late.
    Expired(Duration),
    /// Never happens. The test of this example checks that.
    ExpiredEarly,
}

impl Change {
    pub(crate) fn state(&self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::Expired(_) => "expired",
            Self::ExpiredEarly => "early",
        }
    }

    /// The text of the e-mail after the number of the order.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Expired(late) => format!("{} {}", self.state(), late.as_micros()),
            Self::Paid | Self::ExpiredEarly => self.state().to_owned(),
        }
    }
}

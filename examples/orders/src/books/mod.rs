//! Where the orders are: with their jobs, on any store.
//!
//! In a database with transactions an order changes in the commit that enters the job: `transactional.rs`.
//! A server without any gets the same promise from the order of two steps: `redis.rs`.

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

/// What is to be done about orders. The key of each job is the order's number.
pub(crate) struct Queues<S: Store> {
    pub(crate) time_outs: DurableQueue<String, S>,
    pub(crate) mails: DurableQueue<String, S>,
}

impl<S: Store + Clone> Queues<S> {
    pub(crate) fn new(store: S) -> Self {
        Self {
            time_outs: DurableQueue::new("time-outs", store.clone()),
            mails: DurableQueue::new("e-mails", store),
        }
    }
}

pub(crate) trait Books: Send + Sync + 'static {
    type Store: Store + Clone;

    fn queues(&self) -> &Queues<Self::Store>;

    /// An order and its time-out: both, or none.
    fn order(&self, time_to_pay: Duration) -> Result<i64, Failure>;

    /// An open order changes its state, and the e-mail about it is on its way: both, or none. False if it
    /// was not open.
    fn settle(&self, order: i64, change: &Change) -> Result<bool, Failure>;

    fn state(&self, order: i64) -> Result<Option<String>, Failure>;
}

pub(crate) enum Change {
    Paid,
    /// The handler of a time-out found it so late.
    Expired(Duration),
    /// Which never happens; the test of this example looks for it.
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

    /// What the e-mail says after the number of the order.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Expired(late) => format!("{} {}", self.state(), late.as_micros()),
            Self::Paid | Self::ExpiredEarly => self.state().to_owned(),
        }
    }
}

//! A database with transactions: one commit changes an order and enters its job.

use std::time::Duration;

use durable_queue::{Blocking, Merge, PushIn, Store};

use super::{Books, Change, Queues};
use crate::shop::Failure;

/// A database with the orders and the jobs.
pub(crate) trait Database: Send + Sync + 'static {
    /// A transaction in which jobs can be entered.
    type Transaction<'t>;
    type Store: Store + Clone + for<'t> PushIn<Self::Transaction<'t>, Mode = Blocking>;

    fn queues(&self) -> &Queues<Self::Store>;

    /// Runs `work` in a transaction, and commits unless it fails.
    fn transaction<R>(
        &self,
        work: impl FnOnce(&mut Self::Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure>;

    /// Inserts an open order.
    fn insert(transaction: &mut Self::Transaction<'_>) -> Result<i64, Failure>;

    /// Changes the state of an open order. Returns false if it is not open.
    fn change(
        transaction: &mut Self::Transaction<'_>,
        order: i64,
        state: &str,
    ) -> Result<bool, Failure>;

    fn state(&self, order: i64) -> Result<Option<String>, Failure>;
}

impl<D: Database> Books for D {
    type Store = D::Store;

    fn queues(&self) -> &Queues<D::Store> {
        Database::queues(self)
    }

    fn order(&self, time_to_pay: Duration) -> Result<i64, Failure> {
        let timeouts = &Database::queues(self).timeouts;
        let order = self.transaction(|transaction| {
            let order = D::insert(transaction)?;
            let text = order.to_string();
            timeouts.push_keyed_in(transaction, text.clone(), text, time_to_pay, Merge::Keep)?;
            Ok(order)
        })?;
        timeouts.announce();
        Ok(order)
    }

    fn settle(&self, order: i64, change: &Change) -> Result<bool, Failure> {
        let mails = &Database::queues(self).mails;
        let was_open = self.transaction(|transaction| {
            let was_open = D::change(transaction, order, change.state())?;
            if was_open {
                let mail = format!("{order} {}", change.text());
                mails.push_in(transaction, mail, Duration::ZERO)?;
            }
            Ok(was_open)
        })?;
        mails.announce();
        Ok(was_open)
    }

    fn state(&self, order: i64) -> Result<Option<String>, Failure> {
        Database::state(self, order)
    }
}

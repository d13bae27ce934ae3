//! A database with transactions: an order changes in the commit that enters the job.

use std::time::Duration;

use durable_queue::{EnqueueIn, Merge};

use super::{Books, Change, Queues};
use crate::shop::Failure;

/// A transaction in which jobs are entered.
pub(crate) type Transaction<'t, D> = <<D as Database>::Store as EnqueueIn>::Transaction<'t>;

/// Orders in a database, in which the jobs are too.
pub(crate) trait Database: Send + Sync + 'static {
    type Store: EnqueueIn + Clone;

    fn queues(&self) -> &Queues<Self::Store>;

    /// Commits what `work` does, unless it fails.
    fn transaction<R>(
        &self,
        work: impl FnOnce(&mut Transaction<'_, Self>) -> Result<R, Failure>,
    ) -> Result<R, Failure>;

    /// A new order, which is open.
    fn insert(transaction: &mut Transaction<'_, Self>) -> Result<i64, Failure>;

    /// Gives an open order another state. False if it is not open.
    fn change(
        transaction: &mut Transaction<'_, Self>,
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
        let time_outs = &Database::queues(self).time_outs;
        let order = self.transaction(|transaction| {
            let order = D::insert(transaction)?;
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
        let mails = &Database::queues(self).mails;
        let was_open = self.transaction(|transaction| {
            let was_open = D::change(transaction, order, change.state())?;
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
        Database::state(self, order)
    }
}

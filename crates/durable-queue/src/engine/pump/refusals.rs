//! Permanent rejections: the rejected settle gets an error, and all others are carried out.

use std::time::Duration;

use sync_shim::Clock;

use super::Pump;
use super::item::Item;
use crate::engine::command::Wish;
use crate::engine::stats::Counters;
use crate::error::{ErrorKind, SettleError, StoreError};
use crate::store::Store;

impl<S: Store> Pump<S> {
    /// Handles the rejection of a turn. Sends the settles in halves, down to single rejected ones, so that
    /// all others are carried out. If no settle is rejected, the claim was.
    pub(super) fn single_out(&mut self, items: Vec<Item>, claimed: bool, error: StoreError) {
        // If the store has not answered any call since, the store may be the reason, not the settles.
        let mut answers = false;
        let mut found_any = false;
        let mut parts = Vec::new();
        let mut refused = None;
        if claimed {
            parts.push(items);
        } else {
            refused = Some((items, error.clone()));
        }
        loop {
            match refused.take() {
                Some((mut part, _)) if part.len() > 1 => {
                    parts.push(part.split_off(part.len() / 2));
                    parts.push(part);
                }
                Some((mut part, error)) => {
                    if !answers && let Err((_, error)) = self.send(Vec::new(), None) {
                        parts.push(part);
                        return self.keep(in_order(parts), error);
                    }
                    answers = true;
                    if let Some(item) = part.pop() {
                        self.refused(item, error);
                        found_any = true;
                    }
                }
                None => {}
            }
            let Some(part) = parts.pop() else {
                if claimed && !found_any {
                    self.claim_refused(error);
                }
                return;
            };
            match self.send(part, None) {
                Ok(()) => answers = true,
                Err((part, error)) if may_be_for_good(&error) => refused = Some((part, error)),
                Err((part, error)) => {
                    parts.push(part);
                    return self.keep(in_order(parts), error);
                }
            }
        }
    }

    /// The store rejects this item alone, and carries out other turns.
    fn refused(&mut self, item: Item, error: StoreError) {
        Counters::count(&self.shared.control.counters.refused, 1);
        self.report(&error);
        // Except for an extension, the lease is no longer renewed, so the job is handed out again.
        match item {
            Item::Command(command) => {
                match command.wish {
                    Wish::Extend(_) => {}
                    Wish::Start(_) => self.is_lost(command.held),
                    _ => _ = self.running.remove(&command.held),
                }
                command.answer(Err(SettleError::Refused(error)));
            }
            Item::Renew(held) => self.is_lost(held),
            Item::Start(_) => {}
        }
    }

    /// Like `refused`, for a claim: only claims pause.
    fn claim_refused(&mut self, error: StoreError) {
        self.report(&error);
        let now = self.shared.control.clock.now();
        self.claims.begin(now);
        self.shared.control.failed(Some(error));
    }

    /// Keeps the items of a failed turn for a later one.
    pub(super) fn keep(&mut self, items: Vec<Item>, error: StoreError) {
        let now = self.shared.control.clock.now();
        for item in items {
            match item {
                Item::Command(command) => self.pending.push(command),
                Item::Renew(held) => self.running.renew_after(held, now, Duration::ZERO),
                // A start may be sent twice.
                Item::Start(ahead) => self.put_ahead(ahead),
            }
        }
        self.fail(now, error);
    }
}

/// Returns whether the error suggests that the same call would always fail.
pub(super) fn may_be_for_good(error: &StoreError) -> bool {
    use ErrorKind::{BadName, Corrupt, Other, TooLarge, Unencodable};
    matches!(
        error.kind(),
        BadName | Corrupt | Other | TooLarge | Unencodable
    )
}

/// Concatenates parts that were taken from the end.
fn in_order(mut parts: Vec<Vec<Item>>) -> Vec<Item> {
    parts.reverse();
    parts.into_iter().flatten().collect()
}

//! The simulated store fulfils the contract, so tests that use it are representative.

#![cfg(not(anthill_loom))]

use std::time::Duration;

use durable_queue_testing::conformance::Fixture;
use durable_queue_testing::{ManualStoreClock, SimStore};
use sync_shim::ManualClock;

struct Sim {
    store: SimStore,
    clock: ManualStoreClock,
}

fn sim() -> Sim {
    let clock = ManualStoreClock::new(&ManualClock::new());
    Sim {
        store: SimStore::new(clock.clone()),
        clock,
    }
}

impl Fixture for Sim {
    type Store = SimStore;

    fn store(&self) -> &SimStore {
        &self.store
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn another(&self) -> SimStore {
        self.store.clone()
    }
}

durable_queue_testing::conformance_tests!(sim);
durable_queue_testing::conformance_tests!(limits sim);

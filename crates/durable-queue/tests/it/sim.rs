//! The simulated store on other threads. Its conformance is tested in its crate.

use durable_queue_testing::{ManualStoreClock, SimStore};
use durable_queue_tests::anywhere::works_on_any_thread;
use sync_shim::ManualClock;

#[test]
fn a_simulated_store_works_on_any_thread() {
    works_on_any_thread(|| SimStore::new(ManualStoreClock::new(&ManualClock::new())));
}

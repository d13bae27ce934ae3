//! Random programs on `SQLite` and on the simulated store: all results are equal.

use durable_queue::testing::{ManualStoreClock, SimStore};
use durable_queue_sqlite::SqliteStore;
use sync_shim::ManualClock;
use testkit::Rng;

use crate::programs;

const PROGRAMS: usize = 150;

#[test]
fn random_programs_get_the_same_results_from_sqlite_and_the_simulation() {
    let mut rng = Rng::from_env();
    for _ in 0..PROGRAMS {
        let clock = ManualStoreClock::new(&ManualClock::new());
        let sqlite = SqliteStore::options()
            .clock(clock.clone())
            .open(":memory:")
            .unwrap();
        let sim = SimStore::new(clock.clone());
        programs::run(&mut rng, &[&sqlite, &sim], |by| clock.advance(by));
    }
}

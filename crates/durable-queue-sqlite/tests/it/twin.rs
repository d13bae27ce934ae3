//! Random programs on `SQLite` and on the simulated store: all results are equal.

use durable_queue_sqlite::SqliteStore;
use durable_queue_testing::SimStore;

use crate::programs::{self, ProgramClock, Watched};

const PROGRAMS: usize = 150;

#[test]
fn random_programs_get_the_same_results_from_sqlite_and_the_simulation() {
    programs::each(PROGRAMS, |rng| {
        let clock = ProgramClock::default();
        let sqlite = SqliteStore::options()
            .clock(clock.clone())
            .open(":memory:")
            .unwrap();
        let sim = SimStore::new(clock.clone());
        let watched = Watched {
            stores: &[&sqlite, &sim],
            fence: &|| (),
        };
        programs::run(rng, &[&sqlite, &sim], &watched, |by| clock.shift(by));
    });
}
